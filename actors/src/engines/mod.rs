//! Engines: services of others that read a page while a request waits, Google Vision and language models that see; and such as correct
//! or embed texts, or tell the blocks of a page.
//!
//! An engine takes the picture of a page and gives the answer of its service, tried again where that may help: after a wait where the
//! service is busy, at a higher temperature where a language model repeats itself, alone where a page failed among others. A call holds no
//! thread. The failure of a page is told from that of the service, which would meet every page. The room knows neither stages nor tables.

mod chat;
mod error;
mod lately;
mod operations;
mod pace;
mod page;
mod permits;
mod picture;
mod vision;

#[cfg(test)]
mod testing;
#[cfg(test)]
mod tests;

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use chrono::{DateTime, Utc};
use image::GrayImage;
use parkhang_answers::chat::{Sampling, served_models, server_version};
use parkhang_answers::picture_size::PictureBounds;
use parkhang_answers::vision::Feature;
use parkhang_core::domain::{EngineRecord, Prices, Usage};
use parkhang_documents::{Block, Page};
use parkhang_service::{Bounds, ChatClient, Credential, InvalidService, Transport, VisionClient};
use parkhang_store::artifact::{Digest, ModelRef, ServiceRef};
use serde_json::{Value, json};
use tokio::sync::OnceCell;
use tracing::warn;

use self::chat::ChatEngine;
use self::error::Failure;
use self::pace::Pace;
use self::vision::VisionEngine;
use crate::services::Rate;

pub use error::EngineError;
pub use operations::{PagesToRead, VisionOperations, asked_about, request_about};
pub use page::{EngineLine, EngineWord, PageText};

/// Settings of an engine.
#[derive(Debug, Clone)]
pub struct EngineSettings {
    /// Name of the service in the configuration.
    pub name: String,
    pub url: String,
    pub credential: Option<Credential>,
    /// Longest time for one exchange.
    pub timeout: Duration,
    /// Largest answer about one page, in bytes.
    pub max_body: usize,
    /// Requests under way at once, of all nodes that ask it.
    pub in_flight: usize,
    /// Most requests in a second, of all nodes that ask it.
    pub rate: Option<Rate>,
    /// Pause after a failure of the service, which doubles with each one in a row.
    pub backoff: Duration,
    pub prices: Prices,
    pub reading: Reading,
}

/// Protocol of an engine, with what decides about its readings.
#[derive(Debug, Clone, PartialEq)]
pub enum Reading {
    Vision(VisionReading),
    Chat(ChatReading),
}

#[derive(Debug, Clone, PartialEq)]
pub struct VisionReading {
    pub feature: Feature,
    /// Pages in one request.
    pub pages: usize,
}

#[derive(Debug, Clone, PartialEq)]
pub struct ChatReading {
    pub model: String,
    /// Text behind the picture, or in front of lines to be corrected; empty is none.
    pub prompt: String,
    pub sampling: Sampling,
    pub picture: PictureBounds,
    /// Share of a text that may repeat itself.
    pub most_repetition: f64,
    /// Share of a line that a correction may change.
    pub most_change: f32,
}

impl Reading {
    /// Digest of all that decides about readings; not of the place, as a server may move.
    pub fn digest(&self) -> Digest {
        let decisive = match self {
            Self::Vision(VisionReading { feature, .. }) => {
                json!(["google_vision", feature.model, feature.languages])
            }
            Self::Chat(chat) => json!([
                "openai",
                chat.model,
                chat.prompt,
                [
                    chat.sampling.temperature,
                    f64::from(chat.sampling.max_tokens),
                    chat.sampling.repetition_penalty
                ],
                [u64::from(chat.picture.side), chat.picture.pixels],
                chat.most_repetition,
                // `most_change` decides about corrections alone, whose stage knows it.
            ]),
        };
        Digest::of(decisive.to_string().as_bytes())
    }
}

/// Engine of a node. Clones are the same one.
#[derive(Debug, Clone)]
pub struct Engine(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    model: ModelRef,
    prices: Prices,
    protocol: Protocol,
    served: OnceCell<ServiceRef>,
}

#[derive(Debug)]
enum Protocol {
    Vision(Arc<VisionEngine>),
    Chat(Arc<ChatEngine>),
}

impl Engine {
    /// Makes an engine; nothing is sent.
    ///
    /// # Errors
    ///
    /// [`InvalidService`] if the settings name no service.
    pub fn new(settings: EngineSettings, transport: Transport) -> Result<Self, InvalidService> {
        let bounds = Bounds {
            time: settings.timeout,
            body: settings.max_body,
        };
        let EngineSettings {
            name,
            url,
            credential,
            reading,
            prices,
            ..
        } = settings;
        let digest = reading.digest();
        let pace = Pace::new(&name, settings.in_flight, settings.rate, settings.backoff);
        let protocol = match reading {
            Reading::Vision(reading) => {
                let client = VisionClient::new(&url, credential, bounds, transport)?;
                Protocol::Vision(Arc::new(VisionEngine::new(client, reading, pace)))
            }
            Reading::Chat(reading) => Protocol::Chat(Arc::new(ChatEngine {
                client: ChatClient::new(&url, credential, bounds, transport)?,
                reading,
                pace,
            })),
        };
        Ok(Self(Arc::new(Inner {
            model: ModelRef { name, digest },
            prices,
            protocol,
            served: OnceCell::new(),
        })))
    }

    /// The engine under the name of its service, with a digest of all that decides about its readings.
    pub fn model(&self) -> &ModelRef {
        &self.0.model
    }

    fn pace(&self) -> &Pace {
        match &self.0.protocol {
            Protocol::Vision(engine) => &engine.pace,
            Protocol::Chat(engine) => &engine.pace,
        }
    }

    /// Describes how the service is doing, as far as this node has found out.
    pub fn record(&self, now: DateTime<Utc>) -> EngineRecord {
        self.pace().record(now)
    }

    /// Has this node ask its part of what so many nodes together may ask, with this one; 0 has it ask nothing before it knows.
    pub fn share(&self, nodes: u32) {
        self.pace().share(nodes);
    }

    pub fn prices(&self) -> &Prices {
        &self.0.prices
    }

    /// True if its answers have places of their own for lines.
    pub fn has_places(&self) -> bool {
        matches!(self.0.protocol, Protocol::Vision(_))
    }

    /// The picture that is sent of a page. Computes.
    ///
    /// # Errors
    ///
    /// With the reason for which there is none.
    pub fn picture(&self, jpeg: &Bytes) -> Result<Bytes, String> {
        match &self.0.protocol {
            Protocol::Vision(_) => picture::within_limits(jpeg),
            Protocol::Chat(engine) => picture::png(jpeg, engine.reading.picture),
        }
    }

    /// Asks for the text of a picture, and waits for the answer. `usage` grows by what the service counts, also for answers that are no
    /// text of the page.
    ///
    /// # Errors
    ///
    /// [`EngineError`] if there is none.
    pub async fn read(&self, picture: &Bytes, usage: &mut Usage) -> Result<Value, EngineError> {
        let read = match &self.0.protocol {
            Protocol::Vision(engine) => engine.read(picture, usage).await,
            Protocol::Chat(engine) => engine.read(picture, usage).await,
        };
        read.map_err(|failure| failure.of(self.0.model.name.clone()))
    }

    /// The text of an answer.
    ///
    /// # Errors
    ///
    /// [`EngineError`] if it holds none.
    pub fn text(&self, answer: &Value) -> Result<PageText, EngineError> {
        let text = match &self.0.protocol {
            Protocol::Vision(_) => Ok(page::of_vision(answer)),
            Protocol::Chat(engine) => page::of_chat(answer, engine.reading.most_repetition),
        };
        text.map_err(|failure| failure.of(self.0.model.name.clone()))
    }

    /// The engine as one that corrects texts; `None` for a service that reads pictures alone.
    pub fn corrector(&self) -> Option<Corrector> {
        match &self.0.protocol {
            Protocol::Vision(_) => None,
            Protocol::Chat(chat) => Some(Corrector {
                engine: self.clone(),
                chat: chat.clone(),
            }),
        }
    }

    /// The engine as one that embeds texts; `None` for a service that reads pictures alone.
    pub fn embedder(&self) -> Option<Embedder> {
        match &self.0.protocol {
            Protocol::Vision(_) => None,
            Protocol::Chat(chat) => Some(Embedder {
                engine: self.clone(),
                chat: chat.clone(),
            }),
        }
    }

    /// The engine as one that tells the blocks of pages; `None` for a service that reads text alone.
    pub fn converter(&self) -> Option<Converter> {
        match &self.0.protocol {
            Protocol::Vision(_) => None,
            Protocol::Chat(chat) => Some(Converter {
                engine: self.clone(),
                chat: chat.clone(),
            }),
        }
    }

    /// The service as it tells of itself, once it has answered; without what it does not tell if it cannot be asked now.
    pub async fn served(&self) -> ServiceRef {
        let (kind, model) = match &self.0.protocol {
            Protocol::Vision(engine) => ("google_vision", &engine.feature.model),
            Protocol::Chat(engine) => ("openai", &engine.reading.model),
        };
        let about = || ServiceRef {
            name: self.0.model.name.clone(),
            kind: kind.to_owned(),
            model: model.clone(),
            served_models: Vec::new(),
            version: None,
        };
        let Protocol::Chat(engine) = &self.0.protocol else {
            return about();
        };
        let asked = self.0.served.get_or_try_init(|| async {
            let models = engine.client.models().await?;
            // Only vLLM tells.
            let version = engine.client.version().await.ok();
            Ok::<_, parkhang_service::ServiceError>(ServiceRef {
                served_models: served_models(&models),
                version: version.as_ref().and_then(server_version),
                ..about()
            })
        });
        match asked.await {
            Ok(served) => served.clone(),
            Err(error) => {
                warn!(service = self.0.model.name, %error, "the service does not tell which models it has");
                about()
            }
        }
    }
}

/// Engine that corrects texts.
#[derive(Debug, Clone)]
pub struct Corrector {
    engine: Engine,
    chat: Arc<ChatEngine>,
}

impl Corrector {
    pub fn engine(&self) -> &Engine {
        &self.engine
    }

    /// Share of a line that a correction may change.
    pub fn most_change(&self) -> f32 {
        self.chat.reading.most_change
    }

    /// Asks for the correction of a text, and waits for it; `usage` grows by what the service counts.
    ///
    /// # Errors
    ///
    /// [`EngineError`] if there is none.
    pub async fn correct(&self, text: &str, usage: &mut Usage) -> Result<String, EngineError> {
        let corrected = self.chat.correct(text, usage).await;
        corrected.map_err(|failure| failure.of(self.engine.model().name.clone()))
    }
}

/// Engine that embeds texts.
#[derive(Debug, Clone)]
pub struct Embedder {
    engine: Engine,
    chat: Arc<ChatEngine>,
}

impl Embedder {
    pub fn engine(&self) -> &Engine {
        &self.engine
    }

    /// Asks for the vectors of texts, and waits for them; `usage` grows by what the service counts. All have the same dimension.
    ///
    /// # Errors
    ///
    /// [`EngineError`] if there is not one for each.
    pub async fn embed(&self, texts: &[&str], usage: &mut Usage) -> Result<Vec<Vec<f32>>, EngineError> {
        let vectors = self.chat.embed(texts, usage).await;
        vectors.map_err(|failure| failure.of(self.engine.model().name.clone()))
    }
}

/// Engine that tells the blocks of pages, in DocTags.
#[derive(Debug, Clone)]
pub struct Converter {
    engine: Engine,
    chat: Arc<ChatEngine>,
}

impl Converter {
    pub fn engine(&self) -> &Engine {
        &self.engine
    }

    /// Name of the model at its server.
    pub fn model(&self) -> &str {
        &self.chat.reading.model
    }

    /// The picture that is sent of a page. Computes.
    ///
    /// # Errors
    ///
    /// With the reason for which there is none.
    pub fn picture(&self, page: GrayImage) -> Result<Bytes, String> {
        picture::png_of(page, self.chat.reading.picture)
    }

    /// Asks for the blocks of a picture, and waits for the answer; `usage` grows by what the service counts, also for answers that have none.
    ///
    /// # Errors
    ///
    /// [`EngineError`] if there is none.
    pub async fn convert(&self, picture: &Bytes, usage: &mut Usage) -> Result<Value, EngineError> {
        let answer = self.chat.convert(picture, usage).await;
        answer.map_err(|failure| failure.of(self.engine.model().name.clone()))
    }

    /// The blocks of an answer, on the page whose picture was sent upright.
    ///
    /// # Errors
    ///
    /// [`EngineError`] if it has none.
    pub fn blocks(&self, answer: &Value, page: &Page<'_>) -> Result<Vec<Block>, EngineError> {
        let blocks = self.chat.blocks(answer, page);
        blocks.map_err(|error| {
            Failure::Answer(error, Box::new(answer.clone())).of(self.engine.model().name.clone())
        })
    }
}
