//! Bodies of requests for `images:annotate`.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Map, Value, json};

use crate::batches::BatchLimits;

/// Largest image, by cloud.google.com/vision/quotas.
pub const IMAGE_BYTES: usize = 20 << 20;

/// Bounds of a request by the same page: 16 images, and 10 MB of JSON, from which room is left for all but the images.
pub const REQUEST: BatchLimits = BatchLimits {
    images: 16,
    bytes: 10_000_000 - 64_000,
};

/// Kind of reading that is asked for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Feature {
    /// Version of the recogniser, such as `builtin/weekly`; empty is the usual one of the service.
    pub model: String,
    /// Codes of languages that the service is to expect; mostly best left to it.
    pub languages: Vec<String>,
}

/// Size that an image has within a request.
pub const fn encoded_size(bytes: usize) -> usize {
    bytes.div_ceil(3) * 4
}

/// Body of a request for the text of some images.
pub fn annotate_body(images: &[impl AsRef<[u8]>], feature: &Feature) -> Value {
    let request = |image: &dyn AsRef<[u8]>| {
        let content = STANDARD.encode(image.as_ref());
        feature.request(json!({ "content": content }))
    };
    let requests: Vec<Value> = images.iter().map(|image| request(image)).collect();
    json!({ "requests": requests })
}

impl Feature {
    /// Request for the text of an image.
    pub(super) fn request(&self, image: Value) -> Value {
        let mut request = Map::new();
        request.insert("image".to_owned(), image);
        request.insert("features".to_owned(), json!([self.to_json()]));
        if !self.languages.is_empty() {
            let context = json!({ "languageHints": self.languages });
            request.insert("imageContext".to_owned(), context);
        }
        Value::Object(request)
    }

    fn to_json(&self) -> Value {
        let mut feature = json!({ "type": "DOCUMENT_TEXT_DETECTION" });
        if !self.model.is_empty() {
            feature["model"] = Value::from(self.model.as_str());
        }
        feature
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::golden::shared;
    use crate::vision::testing::weekly;

    /// Rows: 84.
    #[test]
    fn an_image_stands_in_the_request_with_what_is_asked_for() {
        let body = annotate_body(&[b"abcd", b"efgh"], &weekly());
        let request = |content: &str| {
            json!({
                "image": {"content": content},
                "features": [{"type": "DOCUMENT_TEXT_DETECTION", "model": "builtin/weekly"}],
            })
        };
        assert_eq!(
            body,
            json!({"requests": [request("YWJjZA=="), request("ZWZnaA==")]})
        );
        assert_eq!(encoded_size(4), "YWJjZA==".len());
        let hinted = Feature {
            model: String::new(),
            languages: vec!["bo".to_owned()],
        };
        let body = annotate_body(&[b"abcd"], &hinted);
        assert_eq!(
            body["requests"][0]["imageContext"],
            json!({"languageHints": ["bo"]})
        );
        assert_eq!(
            body["requests"][0]["features"],
            json!([{"type": "DOCUMENT_TEXT_DETECTION"}])
        );
    }

    /// Rows: 84.
    #[test]
    fn the_archive_asks_for_the_same() {
        let Some(path) = shared("vision/volumes/happy_mixed_lanes.json") else {
            return;
        };
        let volume: Value = serde_json::from_str(&std::fs::read_to_string(path).unwrap()).unwrap();
        let features = find(&volume["calls"], "features").unwrap();
        assert_eq!(*features, json!([weekly().to_json()]));
    }

    fn find<'a>(value: &'a Value, name: &str) -> Option<&'a Value> {
        match value {
            Value::Object(members) => members
                .get(name)
                .or_else(|| members.values().find_map(|value| find(value, name))),
            Value::Array(values) => values.iter().find_map(|value| find(value, name)),
            _ => None,
        }
    }
}
