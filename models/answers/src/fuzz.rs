//! Answers that no service should give: each is read or refused, soon.

use parkhang_fuzz::Fuzz;
use serde_json::{Value, json};

use crate::chat::{ChatAnswer, repetition, served_models, server_version, tokens};
use crate::clean::corrected;
use crate::embeddings::embeddings;
use crate::vision::{
    ArchiveRow, VisionPage, operation_name, operation_responses, operation_state, responses, responses_in,
};

fn vision() -> Value {
    let corners = |x: i32| json!({"vertices": [{"x": x, "y": 10}, {"x": x + 20, "y": 10}, {"x": x + 20, "y": 30}, {"x": x, "y": 30}]});
    let symbol = |text: &str, behind: &str| json!({"text": text, "confidence": 0.9, "property": {"detectedBreak": {"type": behind}}});
    let word = |x: i32| json!({"boundingBox": corners(x), "confidence": 0.8, "symbols": [symbol("ཀ", "SPACE"), symbol("ཁ", "LINE_BREAK")]});
    let block = json!({"blockType": "TEXT", "paragraphs": [{"words": [word(10), word(40)]}]});
    json!({"responses": [
        {"fullTextAnnotation": {"text": "ཀ ཁ\n", "pages": [{"width": 100, "height": 50, "confidence": 0.7, "blocks": [block],
            "property": {"detectedLanguages": [{"languageCode": "bo", "confidence": 0.5}]}}]}},
        {"error": {"code": 8, "message": "quota"}},
    ]})
}

#[test]
fn fuzz_answers_of_vision() {
    let operation = json!({"name": "operations/1", "done": true, "response": vision()});
    Fuzz::of_texts("answers-of-vision", [vision().to_string(), operation.to_string()]).feeds_texts(|text| {
        let _ = responses_in(text);
        let Ok(answer) = serde_json::from_str::<Value>(text) else {
            return;
        };
        let _ = (
            operation_name(&answer),
            operation_state(&answer),
            operation_responses(answer.clone()),
        );
        for page in responses(answer, 2).into_iter().flatten().flatten() {
            let _ = (VisionPage::of(&page), ArchiveRow::of(&page));
        }
    });
}

#[test]
fn fuzz_answers_of_models() {
    let chat = json!({"id": "1", "model": "m", "choices": [{"index": 0, "finish_reason": "stop", "message":
        {"role": "assistant", "content": "1: ཀ་ཁ\n2: ག་ང ག་ང ག་ང", "refusal": null}}], "usage": {"prompt_tokens": 7, "completion_tokens": 9}});
    let vectors =
        json!({"data": [{"index": 0, "embedding": [0.5, -0.25]}, {"index": 1, "embedding": [1.0, 0.0]}]});
    let models = json!({"data": [{"id": "m"}], "version": "0.9"});
    let corpus = [chat, vectors, models].map(|answer| answer.to_string());
    Fuzz::of_texts("answers-of-models", corpus).feeds_texts(|text| {
        let _ = (repetition(text), corrected(&["ཀ་ཁ", "ག་ང"], text, 0.5));
        let Ok(answer) = serde_json::from_str::<Value>(text) else {
            return;
        };
        let _ = (
            tokens(&answer),
            served_models(&answer),
            server_version(&answer),
            embeddings(&answer, 2),
        );
        if let Ok(answer) = ChatAnswer::of(&answer) {
            let _ = answer.checked(0.5);
        }
    });
}
