//! Google Vision. Pages that wait for their turn at the same time go in one request; one that fails within it is asked for again alone.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, PoisonError};

use bytes::Bytes;
use parkhang_answers::batches::{BatchLimits, batches};
use parkhang_answers::vision::{Feature, REQUEST, annotate_body, encoded_size, responses};
use parkhang_core::domain::Usage;
use parkhang_service::{ServiceError, VisionClient};
use serde_json::Value;
use tokio::sync::oneshot;

use super::VisionReading;
use super::error::Failure;
use super::pace::Pace;
use crate::detached;

#[derive(Debug)]
pub(super) struct VisionEngine {
    client: VisionClient,
    pub(super) feature: Feature,
    limits: BatchLimits,
    pub(super) pace: Pace,
    waiting: Mutex<VecDeque<Waiting>>,
}

/// Page that waits for a request.
#[derive(Debug)]
struct Waiting {
    picture: Bytes,
    answer: oneshot::Sender<Result<Value, Failure>>,
}

impl VisionEngine {
    pub(super) fn new(client: VisionClient, reading: VisionReading, pace: Pace) -> Self {
        Self {
            client,
            feature: reading.feature,
            limits: BatchLimits {
                images: reading.pages.clamp(1, REQUEST.images),
                ..REQUEST
            },
            pace,
            waiting: Mutex::default(),
        }
    }

    /// Asks for the text of a page: first with others, then alone where that came to nothing.
    pub(super) async fn read(self: &Arc<Self>, picture: &Bytes, usage: &mut Usage) -> Result<Value, Failure> {
        let mut answer = self.with_others(picture).await;
        let mut tries = 1;
        loop {
            let failure = match answer {
                Ok(answer) => {
                    // Images with an error are not charged for.
                    *usage = usage.plus(Usage::CALL);
                    return Ok(answer);
                }
                Err(failure) => failure,
            };
            let is_over = match &failure {
                Some(Failure::Image(error)) if error.may_pass() => {
                    !self.pace.may_ask_again(&error.to_string(), tries)
                }
                // Another page may have made it so.
                Some(Failure::Service(error)) => error.is_of_the_service() || tries > 1,
                Some(_) => true,
                // The caller that sent the request was stopped.
                None => false,
            };
            if let Some(failure) = failure.filter(|_| is_over) {
                return Err(failure);
            }
            tries += 1;
            answer = self.alone(picture).await.map_err(Some);
        }
    }

    /// The answer to a request with the pages that wait meanwhile; no failure if the request came to nothing.
    async fn with_others(self: &Arc<Self>, picture: &Bytes) -> Result<Value, Option<Failure>> {
        let (answer, told) = oneshot::channel();
        let picture = picture.clone();
        self.lock().push_back(Waiting { picture, answer });
        // As a task of its own: the others in the request must not lose it when this page is given up.
        detached::spawn(self.clone().send_next());
        match told.await {
            Ok(answer) => answer.map_err(Some),
            Err(_) => Err(None),
        }
    }

    /// Sends the pages that wait when a request may be sent.
    async fn send_next(self: Arc<Self>) {
        let (batch, left_alone) = {
            let turn = self.pace.turn().await;
            (self.take(), turn.err())
        };
        if batch.is_empty() {
            return;
        }
        let pictures: Vec<Bytes> = batch.iter().map(|page| page.picture.clone()).collect();
        let answers = match left_alone {
            Some(failure) => Err(failure),
            None => self.pace.ask(|| self.ask(&pictures)).await,
        };
        let answers = answers.unwrap_or_else(|failure| vec![Err(failure); batch.len()]);
        for (page, answer) in batch.into_iter().zip(answers) {
            // The page may have been given up.
            let _ = page.answer.send(answer);
        }
    }

    /// The pages of the next request. None is left if others were quicker.
    fn take(&self) -> Vec<Waiting> {
        let mut waiting = self.lock();
        // Those that were given up need no answer.
        waiting.retain(|page| !page.answer.is_closed());
        let sizes: Vec<usize> = waiting
            .iter()
            .map(|page| encoded_size(page.picture.len()))
            .collect();
        let first = batches(&sizes, self.limits)
            .into_iter()
            .next()
            .unwrap_or_default();
        waiting.drain(first).collect()
    }

    async fn alone(&self, picture: &Bytes) -> Result<Value, Failure> {
        let pictures = [picture.clone()];
        let answers = self.pace.ask(|| self.ask(&pictures)).await?;
        let none = || Err(Failure::Service(ServiceError::NoContent));
        answers.into_iter().next().unwrap_or_else(none)
    }

    async fn ask(&self, pictures: &[Bytes]) -> Result<Vec<Result<Value, Failure>>, ServiceError> {
        let body = annotate_body(pictures, &self.feature);
        let answer = self.client.annotate(&body, pictures.len()).await?;
        let answers = responses(answer, pictures.len()).map_err(ServiceError::Malformed)?;
        Ok(answers
            .into_iter()
            .map(|answer| answer.map_err(Failure::Image))
            .collect())
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, VecDeque<Waiting>> {
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
