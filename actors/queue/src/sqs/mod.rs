//! SQS, and servers that speak its protocol.
//!
//! The SDK speaks the JSON protocol; servers that know only the older one of forms and XML answer 415 and cannot be used. Of the
//! emulators, ministack and moto know both, and send the codes of the older protocol along, as AWS does.
//!
//! Retries are our own and not those of the SDK, as for buckets: they end at a deadline, and send again the part of a batch that
//! failed. A receive whose answer was lost has taken messages all the same. AWS gives those of a FIFO queue out once more if the request
//! carries the id of the first try, which ours do; those of a standard queue come back when their visibility is over.
//!
//! The SDK for Rust does not compare the MD5 sums that come with messages; neither do we, as TLS and the length of the answer guard
//! the bytes on the way.

mod batch;
mod client;
mod failure;
mod options;
mod queue;
mod redrive;
mod retry;
mod settings;
#[cfg(test)]
mod tests;
mod translation;

use std::sync::Arc;

use async_trait::async_trait;
use parkhang_store::storage::s3::keys;

use crate::checks::check_spec;
use crate::{QueueError, QueueServer, QueueSpec, TaskQueue};
use client::Link;
use failure::Failure;
use queue::SqsQueue;

pub use options::SqsOptions;
pub use retry::MAX_BACKOFF;

/// Queues of one account and region. Clones share the connections.
#[derive(Debug, Clone)]
pub struct SqsServer {
    link: Arc<Link>,
}

impl SqsServer {
    /// Opens the server with the region and credentials that are found; sends nothing to it.
    ///
    /// # Errors
    ///
    /// [`QueueError::Account`] if there are none.
    pub async fn open_account(options: &SqsOptions) -> Result<Self, QueueError> {
        let link = Arc::new(Link::open(options, None).await?);
        Ok(Self { link })
    }

    /// Opens the server like [`open_account`](Self::open_account), for one whose keys are not where the AWS tools look for them, such as
    /// one of a test.
    ///
    /// # Errors
    ///
    /// Those of [`open_account`](Self::open_account).
    pub async fn open_with_keys(
        options: &SqsOptions,
        access_key: &str,
        secret_key: &str,
    ) -> Result<Self, QueueError> {
        let keys = keys(access_key, secret_key);
        let link = Arc::new(Link::open(options, Some(keys)).await?);
        Ok(Self { link })
    }

    fn queue(&self, url: String) -> Arc<SqsQueue> {
        Arc::new(SqsQueue::new(self.link.clone(), url))
    }

    /// Makes one queue, and gives its address.
    async fn create_one(&self, spec: &QueueSpec, letters: Option<&SqsQueue>) -> Result<String, QueueError> {
        let letters = match letters {
            Some(letters) => Some(letters.arn().await?),
            None => None,
        };
        let attributes = settings::attributes_of(spec, letters.as_deref());
        let created = self.link.retry.run(|| async {
            let request = self.link.client.create_queue().queue_name(&spec.name);
            let answer = request.set_attributes(Some(attributes.clone())).send().await?;
            Ok(answer.queue_url.unwrap_or_default())
        });
        created
            .await
            .map_err(|refusal| refusal.into_error("create", &spec.name))
    }
}

#[async_trait]
impl QueueServer for SqsServer {
    async fn create(&self, spec: &QueueSpec) -> Result<Arc<dyn TaskQueue>, QueueError> {
        check_spec(spec)?;
        let letters = match spec.of_dead_letters() {
            Some(letters) => Some(self.queue(self.create_one(&letters, None).await?)),
            None => None,
        };
        let url = self.create_one(spec, letters.as_deref()).await?;
        Ok(self.queue(url))
    }

    async fn open(&self, name_or_url: &str) -> Result<Arc<dyn TaskQueue>, QueueError> {
        let url = if name_or_url.contains("://") {
            name_or_url.to_owned()
        } else {
            self.link.find(name_or_url).await?
        };
        Ok(self.queue(url))
    }

    async fn list(&self, prefix: &str) -> Result<Vec<String>, QueueError> {
        let mut names = Vec::new();
        let mut next = None;
        loop {
            let listed = self.link.retry.run(|| async {
                // Without a number of results AWS stops after a thousand and does not say so.
                let request = self.link.client.list_queues().max_results(1000);
                let request = request.set_queue_name_prefix((!prefix.is_empty()).then(|| prefix.to_owned()));
                let answer = request.set_next_token(next.clone()).send().await?;
                Ok::<_, Failure>((answer.queue_urls.unwrap_or_default(), answer.next_token))
            });
            let (urls, token) = listed
                .await
                .map_err(|refusal| refusal.into_error("list queues of", prefix))?;
            names.extend(urls.iter().map(|url| name_of(url).to_owned()));
            match token.filter(|token| !token.is_empty()) {
                Some(token) => next = Some(token),
                None => break,
            }
        }
        names.sort_unstable();
        // A server may list a queue twice whose creation was asked for again while it was under way; names are unique.
        names.dedup();
        Ok(names)
    }
}

/// Name in the URL or ARN of a queue.
fn name_of(address: &str) -> &str {
    address.rsplit(['/', ':']).next().unwrap_or(address)
}
