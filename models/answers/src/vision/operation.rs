//! Asynchronous operations, `images:asyncBatchAnnotate`: bodies of requests, states of operations, and the files that they write.
//!
//! By cloud.google.com/vision/docs/reference/rest/v1/images/asyncBatchAnnotate: images and answers are objects of Google's storage. The
//! answers are in files `output-FROM-to-TO.json` below the place of the request, each with the responses to some of its images, in any
//! order, which name their images by `context.uri`.

use serde_json::{Value, json};

use super::VisionError;
use super::request::Feature;
use super::response::response;

/// Most images of one request, by cloud.google.com/vision/quotas.
pub const OPERATION_IMAGES: usize = 2000;
/// Responses in one file of answers, as the archive's program asks for them.
const RESPONSES: u32 = 20;

/// Body of a request for the text of images that lie in Google's storage, with the answers below `output`; both are `gs://` URIs.
pub fn operation_body(images: &[impl AsRef<str>], feature: &Feature, output: &str) -> Value {
    let requests = images
        .iter()
        .map(|image| feature.request(json!({ "source": { "imageUri": image.as_ref() } })));
    json!({
        "requests": requests.collect::<Vec<_>>(),
        "outputConfig": { "gcsDestination": { "uri": output }, "batchSize": RESPONSES },
    })
}

/// State of an operation.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum OperationState {
    Running,
    /// Its answers are written; some may be errors.
    Done,
    Failed(VisionError),
}

/// Reads the name of the operation that a request has begun.
///
/// # Errors
///
/// The text of the fault of an answer that names none.
pub fn operation_name(answer: &Value) -> Result<&str, String> {
    let name = answer.get("name").and_then(Value::as_str).unwrap_or_default();
    // It becomes a part of a path.
    let is_known = |c: char| c.is_ascii_alphanumeric() || "/-_.~".contains(c);
    if !name.is_empty() && name.chars().all(is_known) && !name.contains("..") {
        return Ok(name);
    }
    match answer.get("error").filter(|error| error.is_object()) {
        Some(error) => Err(VisionError::of(error).to_string()),
        None => Err("the answer names no operation".to_owned()),
    }
}

/// Reads how an operation stands.
pub fn operation_state(answer: &Value) -> OperationState {
    let error = answer.get("error").filter(|error| error.is_object());
    match (answer.get("done").and_then(Value::as_bool), error) {
        (_, Some(error)) => OperationState::Failed(VisionError::of(error)),
        (Some(true), None) => OperationState::Done,
        (_, None) => OperationState::Running,
    }
}

/// Number of the responses that a file of answers has, by its name; `None` for other files.
pub fn responses_in(file: &str) -> Option<usize> {
    let range = file.strip_prefix("output-")?.strip_suffix(".json")?;
    let (from, to) = range.split_once("-to-")?;
    let (from, to): (usize, usize) = (from.parse().ok()?, to.parse().ok()?);
    (to + 1).checked_sub(from)
}

/// Address of a picture, with what was found on it or the reason that nothing was.
pub type PageResponse = (String, Result<Value, VisionError>);

/// Reads a file of answers: the URI of each image with its response, or the error of the image. A response that names no image is left out.
///
/// # Errors
///
/// The text of the fault of a file that has no list of responses.
pub fn operation_responses(file: Value) -> Result<Vec<PageResponse>, String> {
    let Value::Object(mut file) = file else {
        return Err("the file is no object".to_owned());
    };
    let Some(Value::Array(responses)) = file.remove("responses") else {
        return Err("the file has no list `responses`".to_owned());
    };
    let with_uri = |found: Value| {
        let uri = found.pointer("/context/uri").and_then(Value::as_str)?;
        Some((uri.to_owned(), response(found)))
    };
    Ok(responses.into_iter().filter_map(with_uri).collect())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::golden::shared;
    use crate::vision::testing::weekly;

    /// Rows: 84.
    #[test]
    fn the_archive_asks_for_the_same() {
        let uris = ["gs://b/1.jpg", "gs://b/2.jpg"];
        let request = |uri: &str| {
            json!({
                "image": {"source": {"imageUri": uri}},
                "features": [{"type": "DOCUMENT_TEXT_DETECTION", "model": "builtin/weekly"}],
            })
        };
        let body = operation_body(&uris, &weekly(), "gs://b/out/");
        assert_eq!(
            body,
            json!({
                "requests": [request(uris[0]), request(uris[1])],
                "outputConfig": {"gcsDestination": {"uri": "gs://b/out/"}, "batchSize": 20},
            })
        );
        let Some(path) = shared("vision/volumes/happy_mixed_lanes.json") else {
            return;
        };
        let volume = std::fs::read_to_string(path).unwrap();
        assert!(volume.contains("gcsDestination") && volume.contains("imageUri"));
    }

    /// Rows: 84.
    #[test]
    fn an_operation_is_over_when_it_says_so_or_tells_of_an_error() {
        let state = |answer: Value| operation_state(&answer);
        let running = json!({"name": "operations/1", "metadata": {"state": "RUNNING"}});
        assert_eq!(state(running), OperationState::Running);
        assert_eq!(
            state(json!({"done": false, "error": null})),
            OperationState::Running
        );
        let done = json!({"done": true, "response": {"outputConfig": {}}});
        assert_eq!(state(done), OperationState::Done);
        let failed = json!({"done": true, "error": {"code": 14, "message": "later"}});
        let OperationState::Failed(error) = state(failed) else {
            panic!("it failed")
        };
        assert!(error.may_pass());
    }

    #[test]
    fn names_are_of_operations_and_of_no_other_place() {
        for name in ["operations/f1a2", "projects/p-1/operations/7"] {
            assert_eq!(operation_name(&json!({"name": name})), Ok(name));
        }
        for other in [
            json!({}),
            json!([]),
            json!({"name": ""}),
            json!({"name": "../v1/images"}),
            json!({"name": "a?b"}),
            json!({"name": 7}),
        ] {
            assert!(operation_name(&other).is_err(), "{other}");
        }
        let refused = json!({"error": {"code": 7, "message": "no bucket"}});
        assert_eq!(
            operation_name(&refused),
            Err("error 7 of Google Vision: no bucket".to_owned())
        );
        let counts = ["output-1-to-20.json", "output-21-to-21.json"].map(responses_in);
        assert_eq!(counts, [Some(20), Some(1)]);
        for other in ["output-2-to-1.jsonx", "xoutput-1-to-2.json", "output-9-to-2.json"] {
            assert_eq!(responses_in(other), None, "{other}");
        }
    }

    /// Rows: 84.
    #[test]
    fn an_error_in_a_file_of_answers_is_that_of_its_image() {
        let file = json!({"responses": [
            {"context": {"uri": "gs://b/2.jpg"}, "error": {"code": 14, "message": "later"}},
            {"context": {"uri": "gs://b/1.jpg"}, "fullTextAnnotation": {"text": "ka"}},
            {"fullTextAnnotation": {"text": "of nobody"}},
            {"context": null},
        ]});
        let read = operation_responses(file).unwrap();
        let uris: Vec<&str> = read.iter().map(|(uri, _)| uri.as_str()).collect();
        assert_eq!(uris, ["gs://b/2.jpg", "gs://b/1.jpg"]);
        assert!(read[0].1.as_ref().is_err_and(VisionError::may_pass) && read[1].1.is_ok());
        for broken in [json!([]), json!({}), json!({"responses": 1})] {
            assert!(operation_responses(broken).is_err());
        }
    }
}
