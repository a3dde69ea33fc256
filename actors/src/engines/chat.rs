//! Language models that see a page, and models that embed texts.

use bytes::Bytes;
use parkhang_answers::chat::{ChatAnswer, Sampling, page_body, text_body, tokens};
use parkhang_answers::clean::INSTRUCTION;
use parkhang_answers::embeddings::{embeddings, embeddings_body};
use parkhang_core::domain::Usage;
use parkhang_service::ChatClient;
use serde_json::Value;

use super::ChatReading;
use super::error::Failure;
use super::pace::Pace;

/// Temperatures at which a page is asked for again whose answer repeats itself or was cut off.
const WARMER: [f64; 2] = [0.4, 0.8];

#[derive(Debug)]
pub(super) struct ChatEngine {
    pub(super) client: ChatClient,
    pub(super) reading: ChatReading,
    pub(super) pace: Pace,
}

impl ChatEngine {
    pub(super) async fn read(&self, png: &Bytes, usage: &mut Usage) -> Result<Value, Failure> {
        let ChatReading {
            model,
            prompt,
            sampling,
            most_repetition,
            ..
        } = &self.reading;
        let warmer = WARMER.into_iter().filter(|warmer| *warmer > sampling.temperature);
        let mut temperatures = std::iter::once(sampling.temperature).chain(warmer).peekable();
        loop {
            let temperature = temperatures.next().unwrap_or(sampling.temperature);
            let body = page_body(
                model,
                prompt,
                png,
                Sampling {
                    temperature,
                    ..*sampling
                },
            );
            let answer = self.ask(&body, usage).await?;
            match ChatAnswer::of(&answer).and_then(|read| read.checked(*most_repetition)) {
                Ok(_) => return Ok(answer),
                Err(error) if error.may_differ() && temperatures.peek().is_some() => {}
                Err(error) => return Err(Failure::Answer(error, Box::new(answer))),
            }
        }
    }

    /// Asks for the correction of a text. One that repeats itself is one too, as the text may do so.
    pub(super) async fn correct(&self, text: &str, usage: &mut Usage) -> Result<String, Failure> {
        let ChatReading {
            model,
            prompt,
            sampling,
            ..
        } = &self.reading;
        let prompt = if prompt.is_empty() { INSTRUCTION } else { prompt };
        let answer = self
            .ask(&text_body(model, prompt, text, *sampling), usage)
            .await?;
        let read = ChatAnswer::of(&answer).and_then(|read| read.checked(f64::INFINITY));
        match read {
            Ok(read) => Ok(read.text),
            Err(error) => Err(Failure::Answer(error, Box::new(answer))),
        }
    }

    /// Asks for the vectors of texts.
    pub(super) async fn embed(&self, texts: &[&str], usage: &mut Usage) -> Result<Vec<Vec<f32>>, Failure> {
        let body = embeddings_body(&self.reading.model, texts);
        let answer = self.pace.ask(|| self.client.embed(&body)).await?;
        let tokens = tokens(&answer);
        *usage = usage.plus(Usage {
            input_tokens: tokens.input,
            output_tokens: tokens.output,
            ..Usage::CALL
        });
        embeddings(&answer, texts.len()).map_err(Failure::Vectors)
    }

    async fn ask(&self, body: &Value, usage: &mut Usage) -> Result<Value, Failure> {
        let answer = self.pace.ask(|| self.client.complete(body)).await?;
        let tokens = tokens(&answer);
        *usage = usage.plus(Usage {
            input_tokens: tokens.input,
            output_tokens: tokens.output,
            ..Usage::CALL
        });
        Ok(answer)
    }
}
