//! Bodies of requests for chat completions.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Value, json};

/// Choice of tokens.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Sampling {
    pub temperature: f64,
    pub max_tokens: u32,
    /// Penalty of vLLM; 0 leaves it out, for servers that do not know it.
    pub repetition_penalty: f64,
}

impl Sampling {
    /// Sampling with which the archive's language model reads.
    pub const fn of_archive() -> Self {
        Self {
            temperature: 0.0,
            max_tokens: 3072,
            repetition_penalty: 1.0,
        }
    }
}

/// Body of a request for the text of a page: its picture as a PNG, and the prompt behind it where there is one.
pub fn page_body(model: &str, prompt: &str, png: &[u8], sampling: Sampling) -> Value {
    let url = format!("data:image/png;base64,{}", STANDARD.encode(png));
    let mut content = vec![json!({"type": "image_url", "image_url": {"url": url}})];
    if !prompt.is_empty() {
        content.push(json!({"type": "text", "text": prompt}));
    }
    body(model, json!([{"role": "user", "content": content}]), sampling)
}

/// Prompt for which granite-docling and SmolDocling write a page in DocTags.
const CONVERT: &str = "Convert this page to docling.";

/// Body of a request for a page in DocTags: its picture as a PNG, and behind it the prompt, or that of the models that know the form.
pub fn doctags_body(model: &str, prompt: &str, png: &[u8], sampling: Sampling) -> Value {
    let prompt = if prompt.is_empty() { CONVERT } else { prompt };
    let mut body = page_body(model, prompt, png, sampling);
    // Tags are special tokens of some models, and vLLM leaves such out of answers. A server that refuses one key of vLLM refuses the other.
    if sampling.repetition_penalty > 0.0 {
        body["skip_special_tokens"] = Value::from(false);
    }
    body
}

/// Body of a request about a text.
pub fn text_body(model: &str, prompt: &str, text: &str, sampling: Sampling) -> Value {
    let messages = json!([{"role": "system", "content": prompt}, {"role": "user", "content": text}]);
    body(model, messages, sampling)
}

fn body(model: &str, messages: Value, sampling: Sampling) -> Value {
    let mut body = json!({
        "model": model,
        "messages": messages,
        "temperature": sampling.temperature,
        "max_tokens": sampling.max_tokens,
        "frequency_penalty": 0.0,
        "presence_penalty": 0.0,
    });
    if sampling.repetition_penalty > 0.0 {
        body["repetition_penalty"] = Value::from(sampling.repetition_penalty);
    }
    body
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::golden::shared;

    /// Rows: 84.
    #[test]
    fn a_page_is_asked_for_as_the_archive_does() {
        let body = page_body("m", "", b"png", Sampling::of_archive());
        let picture = json!({"type": "image_url", "image_url": {"url": "data:image/png;base64,cG5n"}});
        assert_eq!(body["messages"], json!([{"role": "user", "content": [picture]}]));
        let converted = doctags_body("m", "", b"png", Sampling::of_archive());
        assert_eq!(converted["messages"][0]["content"][1]["text"], CONVERT);
        assert_eq!(converted["skip_special_tokens"], false);
        let prompted = page_body("m", "Read.", b"png", Sampling::of_archive());
        let text = json!({"type": "text", "text": "Read."});
        assert_eq!(prompted["messages"][0]["content"], json!([picture, text]));
        let Some(path) = shared("qwen/volumes/happy.json") else {
            return;
        };
        let volume: Value = serde_json::from_str(&std::fs::read_to_string(path).unwrap()).unwrap();
        for (name, value) in volume["sampling_params"].as_object().unwrap() {
            assert_eq!(body[name], *value, "{name}");
        }
        assert_eq!(
            volume["engine_calls"][0][0][0]["content"]
                .as_array()
                .unwrap()
                .len(),
            1
        );
    }

    #[test]
    fn a_server_that_does_not_know_the_penalty_is_not_told_of_it() {
        let sampling = Sampling {
            repetition_penalty: 0.0,
            ..Sampling::of_archive()
        };
        let body = text_body("m", "Correct.", "ཀ", sampling);
        assert_eq!(body.get("repetition_penalty"), None);
        assert_eq!(body["messages"][1], json!({"role": "user", "content": "ཀ"}));
    }
}
