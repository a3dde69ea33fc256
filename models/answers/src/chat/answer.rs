//! Answers of chat completions.

use serde_json::Value;

use super::repetition::repetition;

/// Beginnings, in small letters, of answers that are no text of a page. A text with Tibetan letters is never taken for one of them.
const REFUSALS: [&str; 14] = [
    "i'm sorry",
    "i\u{2019}m sorry",
    "i am sorry",
    "sorry,",
    "i cannot",
    "i can't",
    "i can\u{2019}t",
    "i'm unable",
    "i am unable",
    "i apologize",
    "as an ai",
    "抱歉",
    "对不起",
    "我无法",
];
/// Characters of a text that a message about it shows.
const SHOWN: usize = 300;

/// Text of a page as a language model read it.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct ChatAnswer {
    pub text: String,
    /// Word of the server for the reason of its end.
    pub finish_reason: String,
    /// Tokens of the answer, where the server counts them.
    pub tokens: Option<u32>,
    /// Model that the server names.
    pub model: Option<String>,
}

/// Answer that is no text of a page.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
pub enum ChatError {
    #[error("the model refused: {}", shown(.0))]
    Refused(String),
    #[error("the answer was cut off at its longest length: {}", shown(.0))]
    Truncated(String),
    #[error("the model repeats itself ({score:.2} of the answer): {}", shown(.text))]
    Looped { text: String, score: f64 },
    #[error("{reason}: {}", shown(.text))]
    Malformed { text: String, reason: String },
    #[error("the answer has no text")]
    Empty,
}

impl ChatError {
    /// The text that came all the same.
    pub fn text(&self) -> &str {
        match self {
            Self::Refused(text)
            | Self::Truncated(text)
            | Self::Looped { text, .. }
            | Self::Malformed { text, .. } => text,
            Self::Empty => "",
        }
    }

    /// True if another choice of tokens may give the text of the page. A text that was cut off is most often a loop that is not seen.
    pub fn may_differ(&self) -> bool {
        matches!(
            self,
            Self::Looped { .. } | Self::Truncated(_) | Self::Malformed { .. }
        )
    }
}

fn shown(text: &str) -> String {
    let words = text.split_whitespace().collect::<Vec<_>>().join(" ");
    match words.char_indices().nth(SHOWN) {
        Some((end, _)) => format!("{}…", &words[..end]),
        None => words,
    }
}

impl ChatAnswer {
    /// Reads an answer whatever becomes of its text.
    ///
    /// # Errors
    ///
    /// [`ChatError::Empty`] if it holds no choice.
    pub fn of(body: &Value) -> Result<Self, ChatError> {
        let choice = body["choices"].get(0).ok_or(ChatError::Empty)?;
        let message = &choice["message"];
        if !message.is_object() {
            return Err(ChatError::Empty);
        }
        if let Some(refusal) = message["refusal"].as_str().filter(|text| !text.is_empty()) {
            return Err(ChatError::Refused(refusal.to_owned()));
        }
        Ok(Self {
            text: content(&message["content"]),
            finish_reason: choice["finish_reason"].as_str().unwrap_or_default().to_owned(),
            tokens: body["usage"]["completion_tokens"]
                .as_u64()
                .and_then(|tokens| u32::try_from(tokens).ok()),
            model: body["model"].as_str().map(str::to_owned),
        })
    }

    /// The answer with the text of the page alone: without the thoughts of the model, fences and control characters.
    ///
    /// # Errors
    ///
    /// [`ChatError`] if the model refused, was cut off, or repeats more than `most` of its text.
    pub fn checked(mut self, most: f64) -> Result<Self, ChatError> {
        let text = cleaned(&self.text);
        let score = repetition(text.as_deref().unwrap_or(&self.text));
        if score >= most {
            return Err(ChatError::Looped {
                text: self.text,
                score,
            });
        }
        let Some(text) = text.filter(|_| self.finish_reason != "length") else {
            return Err(ChatError::Truncated(self.text));
        };
        if self.finish_reason == "content_filter" || is_refusal(&text) {
            return Err(ChatError::Refused(self.text));
        }
        self.text = text;
        Ok(self)
    }
}

/// Text of a message, which is a text or a list of parts.
fn content(content: &Value) -> String {
    match content {
        Value::String(text) => text.clone(),
        Value::Array(parts) => parts.iter().filter_map(|part| part["text"].as_str()).collect(),
        _ => String::new(),
    }
}

/// The text without thoughts, fences and control characters; `None` where the thoughts have no end.
fn cleaned(text: &str) -> Option<String> {
    let text = text.trim();
    let text = match text.strip_prefix("<think>") {
        Some(thoughts) => thoughts.split_once("</think>")?.1.trim(),
        None => text,
    };
    let fenced = text.strip_prefix("```").and_then(|text| text.strip_suffix("```"));
    // Behind the opening fence stands the name of a language.
    let text = fenced.map_or(text, |text| text.split_once('\n').map_or("", |(_, text)| text));
    let is_text = |c: &char| !c.is_control() || *c == '\n' || *c == '\t';
    let text: String = text.chars().filter(is_text).collect();
    Some(text.trim().to_owned())
}

fn is_refusal(text: &str) -> bool {
    let has_tibetan = text.chars().any(|c| ('\u{0F40}'..='\u{0FBC}').contains(&c));
    let start = text.to_lowercase();
    !has_tibetan && REFUSALS.iter().any(|refusal| start.starts_with(refusal))
}

/// Tokens that an exchange took, as the server counts them; none where it does not.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Tokens {
    pub input: u64,
    pub output: u64,
}

/// Largest number of tokens that is believed of one exchange, a thousand times that of the largest models.
const MOST_TOKENS: u64 = 1_000_000_000;

pub fn tokens(body: &Value) -> Tokens {
    let number = |name: &str| body["usage"][name].as_u64().unwrap_or_default().min(MOST_TOKENS);
    Tokens {
        input: number("prompt_tokens"),
        output: number("completion_tokens"),
    }
}

/// Names of the models that a server lists at `/v1/models`.
pub fn served_models(body: &Value) -> Vec<String> {
    let models = body["data"].as_array().into_iter().flatten();
    models
        .filter_map(|model| model["id"].as_str())
        .map(str::to_owned)
        .collect()
}

/// Version that a vLLM server tells at `/version`.
pub fn server_version(body: &Value) -> Option<String> {
    body["version"].as_str().map(str::to_owned)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::json;

    use super::*;
    use crate::golden::shared;

    fn body(text: Value, finish: &str) -> Value {
        json!({
            "id": "chatcmpl-1", "object": "chat.completion", "model": "qwen",
            "choices": [{"index": 0, "message": {"role": "assistant", "content": text}, "finish_reason": finish}],
            "usage": {"prompt_tokens": 1500, "completion_tokens": 7, "total_tokens": 1507},
        })
    }

    fn read(text: &str, finish: &str) -> Result<String, ChatError> {
        let answer = ChatAnswer::of(&body(json!(text), finish))?;
        answer.checked(0.5).map(|answer| answer.text)
    }

    /// Rows: 84.
    #[test]
    fn the_text_of_a_page_is_what_is_left_without_the_words_around_it() {
        let answer = ChatAnswer::of(&body(json!("བོད།"), "stop")).unwrap();
        let counted = Tokens {
            input: 1500,
            output: 7,
        };
        assert_eq!(tokens(&body(json!(""), "stop")), counted);
        assert_eq!(
            tokens(&json!({"usage": {"prompt_tokens": "many"}})),
            Tokens::default()
        );
        assert_eq!((answer.tokens, answer.model.as_deref()), (Some(7), Some("qwen")));
        for text in [
            "བོད།",
            " \nབོད།\n",
            "<think>\n\n</think>\n\nབོད།",
            "```text\nབོད།\n```",
            "བོ\u{0}ད།",
        ] {
            assert_eq!(read(text, "stop"), Ok("བོད།".to_owned()), "{text}");
        }
        assert_eq!(read("", "stop"), Ok(String::new()), "a blank page");
        let parts = body(
            json!([{"type": "text", "text": "བོད"}, {"type": "text", "text": "།"}]),
            "stop",
        );
        assert_eq!(ChatAnswer::of(&parts).unwrap().text, "བོད།");
        assert_eq!(ChatAnswer::of(&json!({"choices": []})), Err(ChatError::Empty));
    }

    /// Rows: 84.
    #[test]
    fn what_is_no_text_of_a_page_is_an_error_that_keeps_it() {
        let refusal = "I'm sorry, I cannot transcribe this image.";
        assert_eq!(read(refusal, "stop"), Err(ChatError::Refused(refusal.to_owned())));
        assert_eq!(read("I cannot ཀ", "stop"), Ok("I cannot ཀ".to_owned()));
        let cut = read("བོད་ཀྱི", "length").unwrap_err();
        assert_eq!((cut.text(), cut.may_differ()), ("བོད་ཀྱི", true));
        assert!(matches!(read("<think>so", "stop"), Err(ChatError::Truncated(_))));
        let looped = read(&"ན་མོ་".repeat(60), "length").unwrap_err();
        assert!(
            matches!(looped, ChatError::Looped { score, .. } if score > 0.9),
            "{looped}"
        );
        assert!(matches!(read("ཀ", "content_filter"), Err(ChatError::Refused(_))));
        let mut own = body(Value::Null, "stop");
        own["choices"][0]["message"]["refusal"] = json!("No.");
        assert_eq!(ChatAnswer::of(&own), Err(ChatError::Refused("No.".to_owned())));
    }

    /// The archive's program stores loops and refusals as good pages.
    ///
    /// Rows: 84.
    #[test]
    fn loops_and_refusals_of_the_archive_are_errors_here() {
        let Some(path) = shared("qwen/volumes/loops_and_refusals_kept.json") else {
            return;
        };
        let volume: Value = serde_json::from_str(&std::fs::read_to_string(path).unwrap()).unwrap();
        for page in volume["inputs"]["pages"].as_array().unwrap() {
            let output = &page["engine_output"];
            let found = read(
                output["text"].as_str().unwrap(),
                output["finish_reason"].as_str().unwrap(),
            );
            match page["kind"].as_str().unwrap() {
                "loop" => assert!(matches!(found, Err(ChatError::Looped { .. })), "{found:?}"),
                "refusal" => assert!(matches!(found, Err(ChatError::Refused(_))), "{found:?}"),
                _ => assert!(found.is_ok(), "{found:?}"),
            }
        }
    }

    #[test]
    fn a_server_tells_its_models_and_its_version() {
        let models = json!({"object": "list", "data": [{"id": "a", "object": "model"}, {"object": "model"}]});
        assert_eq!(served_models(&models), ["a"]);
        assert!(served_models(&json!({"data": 3})).is_empty());
        assert_eq!(
            server_version(&json!({"version": "0.20.2"})).as_deref(),
            Some("0.20.2")
        );
    }

    proptest! {
        #[test]
        fn no_text_panics(text in "\\PC{0,80}", finish in "stop|length|") {
            let _ = read(&text, &finish);
            let _ = read(&format!("<think>{text}"), &finish);
            let _ = read(&format!("```{text}```"), &finish);
        }
    }
}
