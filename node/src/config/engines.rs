//! Services that read pages.

use std::time::Duration;

use parkhang_actors::engines::{ChatReading, EngineSettings, Reading, VisionReading};
use parkhang_answers::chat::Sampling;
use parkhang_answers::picture_size::PictureBounds;
use parkhang_answers::vision::{Feature, REQUEST};
use parkhang_service::{Credential, check_url, is_account};
use secrecy::{ExposeSecret, SecretString};

use super::entities::{ConfiguredService, ServiceKind};

/// Place of Google Vision.
const GOOGLE: &str = "https://vision.googleapis.com";
/// Wait before a request is tried again for the first time.
const BACKOFF: Duration = Duration::from_secs(1);

impl ConfiguredService {
    /// Settings of the service as an engine; `None` for one that takes jobs.
    pub fn engine(&self, name: &str, token: Option<SecretString>) -> Option<EngineSettings> {
        let reading = match self.kind {
            ServiceKind::Jobs => return None,
            ServiceKind::GoogleVision => Reading::Vision(VisionReading {
                feature: Feature {
                    model: self.model.clone(),
                    languages: self.languages.clone(),
                },
                pages: self.batch,
            }),
            ServiceKind::OpenAi => Reading::Chat(ChatReading {
                model: self.model.clone(),
                prompt: self.prompt.clone(),
                sampling: Sampling {
                    temperature: self.temperature,
                    max_tokens: self.max_tokens,
                    repetition_penalty: self.repetition_penalty,
                },
                picture: PictureBounds {
                    side: self.picture_side,
                    pixels: self.picture_pixels,
                },
                most_repetition: self.most_repetition,
                most_change: self.most_change,
            }),
        };
        let takes_key = self.kind == ServiceKind::GoogleVision && !self.bearer;
        Some(EngineSettings {
            name: name.to_owned(),
            url: self.place().to_owned(),
            credential: token.map(|token| match (self.kind, takes_key) {
                (ServiceKind::GoogleVision, _) if is_account(token.expose_secret()) => {
                    Credential::GoogleAccount(token)
                }
                (_, true) => Credential::GoogleKey(token),
                (_, false) => Credential::Bearer(token),
            }),
            timeout: self.timeout,
            max_body: self.max_body(),
            in_flight: self.max_in_flight as usize,
            rate: self.rate(),
            backoff: BACKOFF,
            prices: self.prices(),
            reading,
        })
    }

    fn place(&self) -> &str {
        match (self.kind, self.url.as_str()) {
            (ServiceKind::GoogleVision, "") => GOOGLE,
            (_, url) => url,
        }
    }
}

/// Tells the keys of a service with the faults of their values.
pub fn faults_of_service(service: &ConfiguredService, mut fault: impl FnMut(&str, String)) {
    if service.max_in_flight == 0 {
        fault("max_in_flight", "must be 1 or more".to_owned());
    }
    for (key, cost) in [
        ("input_cost", service.input_cost),
        ("output_cost", service.output_cost),
    ] {
        if service.kind != ServiceKind::OpenAi && !cost.is_zero() {
            fault(
                key,
                "is for services of the kind openai, which count tokens".to_owned(),
            );
        }
    }
    if service.kind == ServiceKind::Jobs {
        if let Err(error) = service.settings(None).check() {
            fault("url", error.to_string());
        }
        return;
    }
    if let Err(error) = check_url(service.place()) {
        fault("url", error.to_string());
    }
    if service.kind == ServiceKind::OpenAi && service.model.is_empty() {
        fault("model", "must name a model of the server".to_owned());
    }
    let limits = [
        (
            "batch",
            (1..=REQUEST.images).contains(&service.batch),
            format!("must be 1 to {}", REQUEST.images),
        ),
        (
            "temperature",
            (0.0..=2.0).contains(&service.temperature),
            "must be 0 to 2".to_owned(),
        ),
        (
            "max_tokens",
            service.max_tokens >= 64,
            "must be 64 or more".to_owned(),
        ),
        (
            "repetition_penalty",
            (0.0..=2.0).contains(&service.repetition_penalty),
            "must be 0 to 2".to_owned(),
        ),
        (
            "picture_side",
            service.picture_side >= 256,
            "must be 256 or more".to_owned(),
        ),
        (
            "picture_pixels",
            service.picture_pixels >= 65_536,
            "must be 65536 or more".to_owned(),
        ),
        (
            "most_change",
            (0.0..=1.0).contains(&service.most_change),
            "must be 0 to 1".to_owned(),
        ),
        (
            "most_repetition",
            (0.0..=1.0).contains(&service.most_repetition),
            "must be 0 to 1".to_owned(),
        ),
    ];
    for (key, holds, message) in limits {
        if !holds {
            fault(key, message);
        }
    }
}
