use parkhang_actors::engines::{Reading, VisionReading};
use parkhang_service::Credential;
use secrecy::ExposeSecret;

use super::*;

const ENGINES: &str = "[service.vision]\nkind = \"google_vision\"\nmodel = \"builtin/weekly\"\nbatch = 8\n\
    [service.qwen]\nkind = \"openai\"\nurl = \"http://localhost:8000/v1\"\nmodel = \"m\"\nmax_tokens = 2000\n\
    [service.scraper]\nurl = \"http://localhost:3000\"\n";

/// Rows: 84.
#[test]
fn services_that_read_pages_are_configuration() {
    let fixture = Fixture::new();
    let file = fixture.file(ENGINES);
    let variables = [("VISION_AUTH_TOKEN", "hunter2"), ("QWEN_AUTH_TOKEN", "hunter3")];
    let loaded = load(Some(&file), &variables, &[]).validated().unwrap();
    let engine = |name: &str| {
        let token = loaded.secrets.tokens.get(name).map(|token| token.text.clone());
        loaded.config.service[name].engine(name, token)
    };
    let vision = engine("vision").unwrap();
    assert_eq!(vision.url, "https://vision.googleapis.com");
    assert!(
        matches!(vision.credential, Some(Credential::GoogleKey(key)) if key.expose_secret() == "hunter2")
    );
    let Reading::Vision(VisionReading { feature, pages }) = vision.reading else {
        panic!("{:?}", vision.reading);
    };
    assert_eq!((feature.model.as_str(), pages), ("builtin/weekly", 8));
    let qwen = engine("qwen").unwrap();
    assert!(matches!(qwen.credential, Some(Credential::Bearer(_))));
    let Reading::Chat(chat) = qwen.reading else {
        panic!("{:?}", qwen.reading);
    };
    assert_eq!((chat.sampling.max_tokens, chat.sampling.temperature), (2000, 0.0));
    assert_eq!(
        (chat.prompt.as_str(), chat.most_repetition, chat.most_change),
        ("", 0.5, 0.2)
    );
    assert!(engine("scraper").is_none());
    let key = fixture.write("key.json", 0o600, "{\n  \"type\": \"service_account\"\n}\n");
    let flag = format!("service.vision.token_file={}", key.display());
    let of_account = load(Some(&file), &[], &[&flag]).validated().unwrap();
    let token = of_account.secrets.tokens["vision"].text.clone();
    let vision = of_account.config.service["vision"].engine("vision", Some(token));
    assert!(matches!(
        vision.unwrap().credential,
        Some(Credential::GoogleAccount(_))
    ));
    assert!(!format!("{loaded:?}").contains("hunter"));
}

#[test]
fn an_engine_that_cannot_read_is_refused_with_its_place() {
    let fixture = Fixture::new();
    let file = fixture.file(ENGINES);
    for (flag, problem) in [
        (
            "service.qwen.model=",
            "--set: service.qwen.model: must name a model of the server",
        ),
        (
            "service.qwen.url=x",
            "--set: service.qwen.url: \"x\" is no URL of a service",
        ),
        (
            "service.qwen.temperature=3.0",
            "--set: service.qwen.temperature: must be 0 to 2",
        ),
        (
            "service.vision.batch=17",
            "--set: service.vision.batch: must be 1 to 16",
        ),
        (
            "service.vision.max_in_flight=0",
            "--set: service.vision.max_in_flight: must be 1 or more",
        ),
        ("service.vision.kind=google", "--set: service.vision.kind:"),
        (
            "entity.leads.stages=a",
            "--set: entity.leads.stage.a.service: must name a service of the kind jobs",
        ),
    ] {
        let flags = [flag, "entity.leads.stage.a.service=qwen"];
        let flags = if flag.starts_with("entity") {
            &flags[..]
        } else {
            &flags[..1]
        };
        let found = problems(Some(&file), &[], flags);
        assert!(
            found.iter().any(|found| found.starts_with(problem)),
            "{flag}: {found:?}"
        );
    }
}
