use std::time::Duration;

use futures::future::join_all;
use parkhang_core::domain::ErrorCategory;
use serde_json::json;

use super::testing::{Said, Scripted};
use super::*;

fn settings(url: &str, reading: Reading) -> EngineSettings {
    EngineSettings {
        name: "reader".to_owned(),
        url: url.to_owned(),
        credential: None,
        timeout: Duration::from_secs(20),
        max_body: 100_000,
        in_flight: 1,
        rate: None,
        backoff: Duration::from_millis(1),
        prices: Prices::default(),
        reading,
    }
}

fn chat(server: &Scripted) -> Engine {
    let reading = Reading::Chat(ChatReading {
        model: "qwen".to_owned(),
        prompt: String::new(),
        sampling: Sampling::of_archive(),
        picture: PictureBounds::of_archive(),
        most_repetition: 0.5,
        most_change: 0.2,
    });
    Engine::new(
        settings(&format!("{}/v1", server.url), reading),
        Transport::new().unwrap(),
    )
    .unwrap()
}

fn vision(server: &Scripted) -> Engine {
    let feature = Feature {
        model: "builtin/weekly".to_owned(),
        languages: Vec::new(),
    };
    let reading = Reading::Vision(VisionReading { feature, pages: 8 });
    Engine::new(settings(&server.url, reading), Transport::new().unwrap()).unwrap()
}

fn completion(text: &str, finish: &str) -> Said {
    let body = json!({
        "id": "chatcmpl-1", "object": "chat.completion", "model": "qwen",
        "choices": [{"index": 0, "message": {"role": "assistant", "content": text}, "finish_reason": finish}],
        "usage": {"prompt_tokens": 1500, "completion_tokens": 7, "total_tokens": 1507},
    });
    (200, body.to_string())
}

async fn read_page(engine: &Engine, page: &Bytes) -> Result<Value, EngineError> {
    let mut usage = Usage::default();
    let read = engine.read(page, &mut usage).await;
    // Images with an error are not charged for.
    assert_eq!(usage.calls, u64::from(read.is_ok()));
    read
}

fn picture(name: &str) -> Bytes {
    Bytes::copy_from_slice(name.as_bytes())
}

/// Rows: 84, 200.
#[tokio::test]
async fn a_page_that_repeats_itself_is_asked_for_again_warmer() {
    let server = Scripted::saying([
        completion(&"ན་མོ་".repeat(100), "length"),
        completion("བོད།", "stop"),
    ])
    .await;
    let engine = chat(&server);
    let mut usage = Usage::default();
    let answer = engine.read(&picture("a"), &mut usage).await.unwrap();
    // Both answers are paid for.
    assert_eq!(
        (usage.calls, usage.input_tokens, usage.output_tokens),
        (2, 3000, 14)
    );
    assert_eq!(engine.text(&answer), Ok(PageText::Plain("བོད།".to_owned())));
    let temperatures: Vec<f64> = server
        .asked()
        .iter()
        .filter_map(|body| body["temperature"].as_f64())
        .collect();
    assert_eq!(temperatures, [0.0, 0.4]);

    let looping = Scripted::saying([completion(&"ན་མོ་".repeat(100), "length")]).await;
    let error = chat(&looping)
        .read(&picture("a"), &mut Usage::default())
        .await
        .unwrap_err();
    assert_eq!(looping.asked().len(), 3);
    let EngineError::Page {
        category,
        answer: Some(answer),
        reason,
        ..
    } = error
    else {
        panic!("{error:?}");
    };
    assert_eq!(category, ErrorCategory::Input);
    assert!(
        reason.contains("repeats itself") && answer.to_string().contains("ན་མོ་"),
        "{reason}"
    );
}

/// Rows: 84.
#[tokio::test]
async fn a_refusal_is_asked_for_once_and_its_text_is_kept() {
    let server = Scripted::saying([completion("I'm sorry, I cannot transcribe this image.", "stop")]).await;
    let error = chat(&server)
        .read(&picture("a"), &mut Usage::default())
        .await
        .unwrap_err();
    assert_eq!(server.asked().len(), 1);
    let shown = "service reader: the model refused: I'm sorry, I cannot transcribe this image.";
    assert_eq!(error.to_string(), shown);
}

/// Rows: 84.
#[tokio::test]
async fn a_text_is_corrected_by_the_instruction_of_the_service_or_ours() {
    let server = Scripted::saying([
        completion("1\tབོད།", "stop"),
        completion("I cannot do that.", "stop"),
    ])
    .await;
    let corrector = chat(&server).corrector().unwrap();
    assert_eq!(
        corrector.correct("1\tབོད", &mut Usage::default()).await.unwrap(),
        "1\tབོད།"
    );
    let messages = &server.asked()[0]["messages"];
    assert_eq!(
        messages[0],
        json!({"role": "system", "content": parkhang_answers::clean::INSTRUCTION})
    );
    assert_eq!(messages[1]["content"], "1\tབོད");
    assert!(corrector.correct("1\tབོད", &mut Usage::default()).await.is_err());
    assert!(vision(&server).corrector().is_none());
}

/// Rows: 235.
#[tokio::test]
async fn a_service_that_is_busy_is_waited_for_and_one_that_stays_so_is_away() {
    let busy = || (429, "{\"error\": {\"message\": \"slow down\"}}".to_owned());
    let broken = || (200, "{\"choices\": [".to_owned());
    let server = Scripted::saying([busy(), (503, String::new()), broken(), completion("ཀ", "stop")]).await;
    chat(&server)
        .read(&picture("a"), &mut Usage::default())
        .await
        .unwrap();
    assert_eq!(server.asked().len(), 4);
    let away = |error: EngineError| match error {
        EngineError::Away { category, .. } => category,
        other => panic!("{other:?}"),
    };
    let server = Scripted::saying([busy()]).await;
    let error = chat(&server)
        .read(&picture("a"), &mut Usage::default())
        .await
        .unwrap_err();
    assert_eq!((away(error), server.asked().len()), (ErrorCategory::Service, 5));
    let shut = Scripted::saying([(401, String::new())]).await;
    let error = chat(&shut)
        .read(&picture("a"), &mut Usage::default())
        .await
        .unwrap_err();
    assert_eq!((away(error), shut.asked().len()), (ErrorCategory::Config, 1));
    let too_long =
        Scripted::saying([(400, "{\"error\": \"the picture has too many tokens\"}".to_owned())]).await;
    let error = chat(&too_long)
        .read(&picture("a"), &mut Usage::default())
        .await
        .unwrap_err();
    assert!(
        matches!(
            error,
            EngineError::Page {
                category: ErrorCategory::Input,
                ..
            }
        ),
        "{error:?}"
    );
}

/// Rows: 200.
#[tokio::test]
async fn a_server_is_asked_once_for_its_models_and_its_version() {
    let server = Scripted::by(|path, _| match path {
        "/v1/models" => (
            200,
            json!({"object": "list", "data": [{"id": "qwen"}, {"id": "other"}]}).to_string(),
        ),
        "/version" => (200, json!({"version": "0.20.2"}).to_string()),
        _ => (404, String::new()),
    })
    .await;
    let engine = chat(&server);
    let served = engine.served().await;
    assert_eq!((served.kind.as_str(), served.model.as_str()), ("openai", "qwen"));
    assert_eq!(
        (served.served_models.len(), served.version.as_deref()),
        (2, Some("0.20.2"))
    );
    engine.served().await;
    assert_eq!(server.asked().len(), 2);
    let silent = Scripted::saying([(500, String::new())]).await;
    assert_eq!(chat(&silent).served().await.version, None);
}

/// Response of a page whose text is what its picture says.
fn seen(content: &Value) -> Value {
    json!({"fullTextAnnotation": {"text": content, "pages": [{"blocks": []}]}})
}

/// Rows: 84.
#[tokio::test]
async fn pages_share_a_request_and_one_that_failed_is_asked_for_alone() {
    let mut failures = 2;
    let server = Scripted::by(move |_, body| {
        let respond = |request: &Value| {
            let content = &request["image"]["content"];
            // "YmFk" and "bG9zdA==" are "bad" and "lost".
            match content.as_str().unwrap() {
                "YmFk" => json!({"error": {"code": 3, "message": "Bad image data."}}),
                "bG9zdA==" if failures > 0 => {
                    failures -= 1;
                    json!({"error": {"code": 14, "message": "unavailable"}})
                }
                _ => seen(content),
            }
        };
        let responses: Vec<Value> = body["requests"].as_array().unwrap().iter().map(respond).collect();
        (200, json!({ "responses": responses }).to_string())
    })
    .await;
    let engine = vision(&server);
    let pages: Vec<Bytes> = ["one", "bad", "lost", "two"].into_iter().map(picture).collect();
    let read = join_all(pages.iter().map(|page| read_page(&engine, page))).await;
    assert!(read[0].is_ok() && read[2].is_ok() && read[3].is_ok(), "{read:?}");
    let error = read[1].clone().unwrap_err().to_string();
    assert_eq!(error, "service reader: error 3 of Google Vision: Bad image data.");
    let sizes: Vec<usize> = server
        .asked()
        .iter()
        .map(|body| body["requests"].as_array().unwrap().len())
        .collect();
    assert_eq!(
        (sizes.iter().sum::<usize>(), sizes.iter().max()),
        (6, sizes.first()),
        "{sizes:?}"
    );
    assert!(sizes[1..].iter().all(|size| *size == 1), "{sizes:?}");
}

/// Rows: 84.
#[tokio::test]
async fn a_request_that_one_page_spoils_is_not_the_end_of_the_others() {
    let server = Scripted::by(|_, body| match body.to_string().contains("YmFk") {
        true => (
            400,
            "{\"error\": {\"code\": 400, \"status\": \"INVALID_ARGUMENT\"}}".to_owned(),
        ),
        false => {
            let requests = body["requests"].as_array().unwrap();
            let responses: Vec<Value> = requests
                .iter()
                .map(|request| seen(&request["image"]["content"]))
                .collect();
            (200, json!({ "responses": responses }).to_string())
        }
    })
    .await;
    let engine = vision(&server);
    let pages: Vec<Bytes> = ["one", "bad", "two"].into_iter().map(picture).collect();
    let read = join_all(pages.iter().map(|page| read_page(&engine, page))).await;
    assert!(read[0].is_ok() && read[2].is_ok(), "{read:?}");
    assert!(
        matches!(
            read[1],
            Err(EngineError::Page {
                category: ErrorCategory::Input,
                ..
            })
        ),
        "{read:?}"
    );
}

#[test]
fn what_decides_about_readings_is_in_the_digest_of_the_engine() {
    let vision = |model: &str| {
        Reading::Vision(VisionReading {
            feature: Feature {
                model: model.to_owned(),
                languages: Vec::new(),
            },
            pages: 4,
        })
    };
    let digest = |reading: Reading, url: &str| {
        let engine = Engine::new(settings(url, reading), Transport::new().unwrap());
        engine.unwrap().model().digest
    };
    let one = digest(vision("builtin/weekly"), "http://a");
    assert_eq!(one, digest(vision("builtin/weekly"), "http://b"));
    assert_ne!(one, digest(vision("builtin/stable"), "http://a"));
}

/// Answer of a server that embeds each text as its length and 1, in an order of its own.
fn vectors(body: &Value) -> Said {
    let texts = body["input"].as_array().unwrap();
    let entry = |(index, text): (usize, &Value)| {
        let length = text.as_str().unwrap().len();
        json!({"object": "embedding", "index": index, "embedding": [length, 1]})
    };
    let data: Vec<Value> = texts.iter().enumerate().rev().map(entry).collect();
    let body = json!({"object": "list", "data": data, "model": "e5", "usage": {"prompt_tokens": 9, "total_tokens": 9}});
    (200, body.to_string())
}

/// Rows: 202, 234, 235.
#[tokio::test]
async fn texts_are_embedded_in_their_order_by_a_service_that_is_busy_at_first() {
    let mut busy = 2;
    let server = Scripted::by(move |path, body| {
        assert_eq!(path, "/v1/embeddings");
        if busy > 0 {
            busy -= 1;
            return (429, "{\"error\": {\"message\": \"slow down\"}}".to_owned());
        }
        vectors(body)
    })
    .await;
    let embedder = chat(&server).embedder().unwrap();
    let mut usage = Usage::default();
    let read = embedder.embed(&["", "four"], &mut usage).await.unwrap();
    assert_eq!(read[0], [0.0, 1.0]);
    assert!((read[1][0] - 4.0 / 17.0_f32.sqrt()).abs() < 1e-6, "{read:?}");
    assert_eq!((usage.input_tokens, server.asked().len()), (9, 3));
    assert_eq!(server.asked()[2]["model"], "qwen");
    assert!(vision(&server).embedder().is_none());
}

/// Rows: 202.
#[tokio::test]
async fn an_answer_without_the_vectors_of_the_texts_is_an_error_of_the_page() {
    for (data, reason) in [
        (json!([]), "0 vectors for 2 texts"),
        (
            json!([{"index": 0, "embedding": [1.0]}, {"index": 1, "embedding": [1.0, 2.0]}]),
            "2 numbers, not 1",
        ),
        (
            json!([{"index": 0, "embedding": [1.0]}, {"index": 1, "embedding": ["NaN"]}]),
            "finite numbers",
        ),
    ] {
        let server = Scripted::saying([(200, json!({ "data": data }).to_string())]).await;
        let embedder = chat(&server).embedder().unwrap();
        let mut usage = Usage::default();
        let error = embedder.embed(&["a", "b"], &mut usage).await.unwrap_err();
        assert!(matches!(error, EngineError::Page { .. }), "{error}");
        assert!(error.to_string().contains(reason), "{error}");
    }
    let down = Scripted::saying([(503, String::new())]).await;
    let away = chat(&down).embedder().unwrap();
    let error = away.embed(&["a"], &mut Usage::default()).await.unwrap_err();
    assert!(matches!(error, EngineError::Away { .. }), "{error}");
    assert_eq!(down.asked().len(), 5);
    let shut = Scripted::saying([(401, String::new())]).await;
    let away = chat(&shut).embedder().unwrap();
    let error = away.embed(&["a"], &mut Usage::default()).await.unwrap_err();
    let config = ErrorCategory::Config;
    assert!(matches!(error, EngineError::Away { category, .. } if category == config));
}

const PAGE: &str = "<doctag><title><loc_50><loc_50><loc_450><loc_100>A title</title>\n\
    <otsl><loc_50><loc_200><loc_450><loc_300><ched>a<ched>b<nl><fcel>1<fcel>2<nl></otsl>\n</doctag>";

/// Rows: 84.
#[tokio::test]
async fn a_page_that_is_no_doctags_is_asked_for_again_and_then_kept_with_its_error() {
    let cut = "<doctag><title><loc_50><loc_50><loc_450><loc_100>A ti";
    let server = Scripted::saying([completion(cut, "stop"), completion(PAGE, "stop")]).await;
    let converter = chat(&server).converter().unwrap();
    let mut usage = Usage::default();
    let answer = converter.convert(&picture("a"), &mut usage).await.unwrap();
    let page = Page {
        size: [600.0, 800.0],
        ..Page::default()
    };
    let blocks = converter.blocks(&answer, &page).unwrap();
    assert_eq!(blocks[0].lines, ["A title"]);
    assert_eq!(blocks[0].bounds, [60.0, 80.0, 540.0, 160.0]);
    assert_eq!(blocks[1].table.as_ref().unwrap().cells().len(), 4);
    let asked = server.asked();
    let temperatures: Vec<f64> = asked
        .iter()
        .map(|body| body["temperature"].as_f64().unwrap())
        .collect();
    assert_eq!((temperatures, usage.calls), (vec![0.0, 0.4], 2));
    assert_eq!(asked[0]["skip_special_tokens"], false);

    for (said, finish, reason) in [
        (
            cut,
            "stop",
            "the answer is no page in DocTags: the text ends within <title>: <doctag><title>",
        ),
        (cut, "length", "the answer was cut off"),
        (
            "I see a page.",
            "stop",
            "the text has no tags of DocTags: I see a page.",
        ),
    ] {
        let server = Scripted::saying([completion(said, finish)]).await;
        let converter = chat(&server).converter().unwrap();
        let failed = converter.convert(&picture("a"), &mut usage).await.unwrap_err();
        assert!(failed.to_string().contains(reason), "{failed}");
        let EngineError::Page { category, answer, .. } = failed else {
            panic!("the service is not away");
        };
        assert_eq!(category, ErrorCategory::Input);
        assert_eq!(answer.unwrap()["choices"][0]["message"]["content"], said);
        assert_eq!(server.asked().len(), 3);
    }
}
