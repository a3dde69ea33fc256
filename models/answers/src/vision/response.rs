//! Responses within the answer to a request for several images.

use serde_json::Value;

/// Error of one image within an answer that is otherwise a success, or of a request.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("error {code} of Google Vision: {message}")]
pub struct VisionError {
    /// Code of `google.rpc.Code`.
    pub code: i64,
    pub message: String,
}

impl VisionError {
    /// True if the same image may be read later: cancelled, deadline exceeded, resource exhausted, aborted, internal or unavailable. The
    /// code alone decides; its message may name a page 429.
    pub fn may_pass(&self) -> bool {
        matches!(self.code, 1 | 4 | 8 | 10 | 13 | 14)
    }

    /// True if the service refuses whoever asks, and not the image.
    pub fn is_about_access(&self) -> bool {
        matches!(self.code, 7 | 16)
    }

    pub(super) fn of(error: &Value) -> Self {
        let message = error.get("message").and_then(Value::as_str);
        Self {
            code: error.get("code").and_then(Value::as_i64).unwrap_or(2),
            message: message.unwrap_or_default().to_owned(),
        }
    }
}

/// Responses of an answer to a request for `images` images, in their order. An image without a response has an error, as has one whose
/// response holds an error.
///
/// # Errors
///
/// The text of the fault of an answer that has no list of responses.
pub fn responses(answer: Value, images: usize) -> Result<Vec<Result<Value, VisionError>>, String> {
    let Value::Object(mut answer) = answer else {
        return Err("the answer is no object".to_owned());
    };
    if let Some(error) = answer.get("error").filter(|error| error.is_object()) {
        let error = VisionError::of(error);
        return Ok(vec![Err(error); images]);
    }
    let Some(Value::Array(found)) = answer.remove("responses") else {
        return Err("the answer has no list `responses`".to_owned());
    };
    let mut read: Vec<Result<Value, VisionError>> = found.into_iter().take(images).map(response).collect();
    read.resize_with(images, || {
        Err(VisionError {
            code: 13,
            message: "the answer has no response for the image".to_owned(),
        })
    });
    Ok(read)
}

pub(super) fn response(response: Value) -> Result<Value, VisionError> {
    match response.get("error") {
        Some(error) if error.as_object().is_some_and(|error| !error.is_empty()) => {
            Err(VisionError::of(error))
        }
        _ => Ok(response),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::golden::fixture;

    /// Rows: 84.
    #[test]
    fn an_error_within_a_success_is_that_of_its_image_alone() {
        let bad = json!({"error": {"code": 3, "message": "Bad image data."}});
        let answer = json!({"responses": [{"fullTextAnnotation": {"text": "a"}}, bad]});
        let read = responses(answer, 3).unwrap();
        assert!(read[0].is_ok());
        let error = read[1].clone().unwrap_err();
        assert_eq!(error.to_string(), "error 3 of Google Vision: Bad image data.");
        assert!(!error.may_pass());
        assert!(
            read[2].clone().unwrap_err().may_pass(),
            "a response that is missing is asked for again"
        );
        let refused = responses(json!({"error": {"code": 7, "message": "no"}}), 2).unwrap();
        assert!(
            refused
                .iter()
                .all(|page| page.as_ref().unwrap_err().is_about_access())
        );
        for broken in [json!([]), json!({}), json!({"responses": null})] {
            assert!(responses(broken, 1).is_err());
        }
    }

    /// The archive's program takes any `429` in a text for a quota.
    ///
    /// Rows: 84.
    #[test]
    fn a_number_in_a_message_is_no_quota() {
        let cases = fixture("quota_error_cases.jsonl");
        assert!(cases.iter().any(|case| case["is_quota"] == true));
        for case in cases {
            let error = VisionError {
                code: 3,
                message: case["message"].as_str().unwrap().to_owned(),
            };
            assert!(!error.may_pass(), "{error}");
        }
        let exhausted = VisionError {
            code: 8,
            message: String::new(),
        };
        assert!(exhausted.may_pass());
    }
}
