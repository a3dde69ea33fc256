use std::time::Duration;

use secrecy::SecretString;
use serde_json::json;

use super::*;
use crate::testing::Answering;

fn client(service: &Answering, credential: Credential) -> VisionClient {
    let bounds = Bounds {
        time: Duration::from_secs(20),
        body: 100,
    };
    VisionClient::new(&service.url, Some(credential), bounds, Transport::new().unwrap()).unwrap()
}

/// Rows: 84.
#[tokio::test]
async fn images_are_asked_for_with_the_key_or_the_token_of_a_project() {
    let service = Answering::with(200, &[], "{\"responses\": [{}]}").await;
    let key = || SecretString::from("hunter2");
    let by_key = client(&service, Credential::GoogleKey(key()));
    let answer = by_key.annotate(&json!({"requests": []}), 1).await.unwrap();
    assert_eq!(answer, json!({"responses": [{}]}));
    let by_token = client(&service, Credential::Bearer(key()));
    by_token.annotate(&json!({}), 1).await.unwrap();
    let seen = service.seen.lock().unwrap().clone();
    assert_eq!(seen[0].0, "POST /v1/images:annotate");
    assert_eq!(seen[0].1["x-goog-api-key"], "hunter2");
    assert_eq!(seen[1].1["authorization"], "Bearer hunter2");
    assert!(!format!("{by_key:?}{by_token:?}").contains("hunter2"));
}

/// Rows: 84, 235.
#[tokio::test]
async fn an_answer_has_its_bound_for_each_image() {
    let service = Answering::with(200, &[], &format!("\"{}\"", " ".repeat(150))).await;
    let client = client(&service, Credential::Bearer(SecretString::from("t")));
    let one = client.annotate(&json!({}), 1).await.unwrap_err();
    assert_eq!(one, ServiceError::TooLarge { limit: 100 });
    assert!(client.annotate(&json!({}), 2).await.is_ok());
    // The answer of the documentation to a request over the quota.
    let body =
        "{\"error\": {\"code\": 429, \"message\": \"Quota exceeded\", \"status\": \"RESOURCE_EXHAUSTED\"}}";
    let busy = Answering::with(429, &[], body).await;
    let client = self::client(&busy, Credential::Bearer(SecretString::from("t")));
    let error = client.annotate(&json!({}), 1).await.unwrap_err();
    assert!(
        error.is_of_the_service() && error.to_string().contains("RESOURCE_EXHAUSTED"),
        "{error}"
    );
}

/// Rows: 84, 241.
#[tokio::test]
async fn an_operation_is_begun_asked_about_and_cancelled_by_its_name() {
    let service = Answering::with(200, &[], "{\"name\": \"operations/7\"}").await;
    let client = client(&service, Credential::GoogleKey(SecretString::from("hunter2")));
    let begun = client.begin(&json!({"requests": []})).await.unwrap();
    assert_eq!(begun["name"], "operations/7");
    client.operation("operations/7").await.unwrap();
    client.cancel("operations/7").await.unwrap();
    let seen = service.seen.lock().unwrap().clone();
    let asked: Vec<&str> = seen.iter().map(|(request, ..)| request.as_str()).collect();
    assert_eq!(
        asked,
        [
            "POST /v1/images:asyncBatchAnnotate",
            "GET /v1/operations/7",
            "POST /v1/operations/7:cancel"
        ]
    );
    assert!(
        seen.iter()
            .all(|(_, headers, _)| headers["x-goog-api-key"] == "hunter2")
    );
}
