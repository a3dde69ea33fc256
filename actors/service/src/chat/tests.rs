use std::time::Duration;

use parkhang_core::domain::FailureKind;
use secrecy::SecretString;
use serde_json::json;

use super::*;
use crate::testing::Answering;

fn client(url: &str) -> ChatClient {
    let bounds = Bounds {
        time: Duration::from_secs(20),
        body: 1000,
    };
    let token = Credential::Bearer(SecretString::from("hunter2"));
    ChatClient::new(url, Some(token), bounds, Transport::new().unwrap()).unwrap()
}

/// An answer as in the reference of OpenAI's interface (platform.openai.com/docs/api-reference/chat/object).
const COMPLETION: &str = r#"{"id": "chatcmpl-1", "object": "chat.completion", "created": 1, "model": "m",
    "choices": [{"index": 0, "message": {"role": "assistant", "content": "x"}, "finish_reason": "stop"}]}"#;

/// Rows: 200.
#[tokio::test]
async fn a_completion_is_asked_for_below_the_base_and_the_version_beside_it() {
    let service = Answering::with(200, &[], COMPLETION).await;
    let client = client(&format!("{}/v1/", service.url));
    let answer = client.complete(&json!({"model": "m"})).await.unwrap();
    assert_eq!(answer["choices"][0]["message"]["content"], "x");
    client.embed(&json!({"input": ["x"]})).await.unwrap();
    client.models().await.unwrap();
    client.version().await.unwrap();
    let seen = service.seen.lock().unwrap().clone();
    let lines: Vec<&str> = seen.iter().map(|(line, _, _)| line.as_str()).collect();
    assert_eq!(
        lines,
        [
            "POST /v1/chat/completions",
            "POST /v1/embeddings",
            "GET /v1/models",
            "GET /version"
        ]
    );
    assert_eq!(seen[0].1["authorization"], "Bearer hunter2");
    assert_eq!(seen[0].2, r#"{"model":"m"}"#);
    assert!(!format!("{client:?}").contains("hunter2"));
}

/// Rows: 234, 235.
#[tokio::test]
async fn bad_servers_give_errors_by_kind_in_bounded_memory() {
    let ask = async |service: &Answering| client(&service.url).complete(&json!({})).await.unwrap_err();
    let busy = ask(&Answering::with(
        429,
        &[("retry-after", "3")],
        "{\"error\": {\"message\": \"slow\"}}",
    )
    .await)
    .await;
    assert_eq!(busy.retry_after(), Some(Duration::from_secs(3)));
    let down = ask(&Answering::with(503, &[], "").await).await;
    assert!(down.kind() == FailureKind::Retriable && down.is_of_the_service());
    let shut = ask(&Answering::with(401, &[], "{\"error\": {\"message\": \"bad key\"}}").await).await;
    assert!(shut.kind() == FailureKind::Hard && shut.is_of_the_service());
    let cut = ask(&Answering::with(200, &[], &COMPLETION[..90]).await).await;
    assert!(matches!(cut, ServiceError::Malformed(_)), "{cut}");
    let huge = ask(&Answering::with(200, &[], &" ".repeat(100 << 20)).await).await;
    assert_eq!(huge, ServiceError::TooLarge { limit: 1000 });
}
