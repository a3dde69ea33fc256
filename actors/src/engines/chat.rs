//! Language models that see a page, and models that embed texts.

use bytes::Bytes;
use parkhang_answers::chat::{ChatAnswer, ChatError, Sampling, doctags_body, page_body, text_body, tokens};
use parkhang_answers::clean::INSTRUCTION;
use parkhang_answers::embeddings::{embeddings, embeddings_body};
use parkhang_core::domain::Usage;
use parkhang_documents::{Block, Page, blocks_of_doctags};
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
    /// Asks for the text of a page.
    pub(super) async fn read(&self, png: &Bytes, usage: &mut Usage) -> Result<Value, Failure> {
        let most = self.reading.most_repetition;
        let check = |answer: &Value| ChatAnswer::of(answer)?.checked(most).map(drop);
        self.read_as(page_body, check, png, usage).await
    }

    /// Asks for a page in DocTags.
    pub(super) async fn convert(&self, png: &Bytes, usage: &mut Usage) -> Result<Value, Failure> {
        let check = |answer: &Value| self.blocks(answer, &Page::default()).map(drop);
        self.read_as(doctags_body, check, png, usage).await
    }

    /// The blocks of an answer in DocTags.
    pub(super) fn blocks(&self, answer: &Value, page: &Page<'_>) -> Result<Vec<Block>, ChatError> {
        let text = ChatAnswer::of(answer)?
            .checked(self.reading.most_repetition)?
            .text;
        blocks_of_doctags(&text, page).map_err(|error| ChatError::Malformed {
            reason: format!("the answer is no page in DocTags: {error}"),
            text,
        })
    }

    /// Asks about a page until an answer passes the check, at a higher temperature where another answer may.
    async fn read_as(
        &self,
        body: impl Fn(&str, &str, &[u8], Sampling) -> Value,
        check: impl Fn(&Value) -> Result<(), ChatError>,
        png: &Bytes,
        usage: &mut Usage,
    ) -> Result<Value, Failure> {
        let ChatReading {
            model,
            prompt,
            sampling,
            ..
        } = &self.reading;
        let warmer = WARMER.into_iter().filter(|warmer| *warmer > sampling.temperature);
        let mut temperatures = std::iter::once(sampling.temperature).chain(warmer).peekable();
        loop {
            let temperature = temperatures.next().unwrap_or(sampling.temperature);
            let body = body(
                model,
                prompt,
                png,
                Sampling {
                    temperature,
                    ..*sampling
                },
            );
            let answer = self.ask(&body, usage).await?;
            match check(&answer) {
                Ok(()) => return Ok(answer),
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
