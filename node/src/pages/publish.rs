//! Requests for pages, sent to a queue.

use std::sync::Arc;

use anyhow::Result;
use chrono::{DateTime, Utc};
use parkhang_actors::intake::{ChunkSize, DocumentPlace, PageMessage};
use parkhang_core::domain::VolumeId;
use parkhang_queue::{NewMessage, QueueKind, SqsOptions, TaskQueue};
use parkhang_store::artifact::Digest;

use crate::config::Sqs;
use crate::queues;

/// Sender of requests.
#[derive(Debug)]
pub struct Publisher {
    queue: Arc<dyn TaskQueue>,
    size: ChunkSize,
}

impl Publisher {
    /// Opens the queue of a name or URL. Behind a URL nothing is asked of the server before the first request.
    ///
    /// # Errors
    ///
    /// If there are no credentials, or no queue of the name.
    pub async fn open(sqs: &Sqs, queue: &str, size: ChunkSize) -> Result<Self> {
        let mut sqs = sqs.clone();
        if queue.contains("://") {
            // What the configuration says of the server wins; the URL says the rest.
            let of_url = SqsOptions::for_queue(queue);
            sqs.endpoint = sqs.endpoint.or(of_url.endpoint);
            sqs.region = sqs.region.or(of_url.region);
        }
        let server = queues::server(&sqs).await?;
        let queue = server.open(queue).await?;
        Ok(Self { queue, size })
    }

    /// Sends the requests for pages of a document; returns their number. A repeat sends the same ones again.
    ///
    /// # Errors
    ///
    /// If the queue does not take one of them; the others may be sent.
    pub async fn publish(
        &self,
        document: &VolumeId,
        place: &DocumentPlace,
        pages: &[u32],
        now: DateTime<Utc>,
    ) -> Result<usize> {
        let messages = PageMessage::chunks(document, place, pages, self.size, now);
        let sent = messages
            .iter()
            .map(|message| new_message(message, self.queue.kind()))
            .collect::<Result<Vec<NewMessage>>>()?;
        for sent in self.queue.send_all(&sent).await {
            sent?;
        }
        Ok(messages.len())
    }
}

/// The request as a message of a queue. In a FIFO queue each is a group by itself, as no order is asked for; a send that is repeated
/// because its answer was lost is known by the whole body, and a later run by its time is another one.
fn new_message(request: &PageMessage, kind: QueueKind) -> Result<NewMessage> {
    let body = request.to_json()?;
    let digest = Digest::of(body.as_bytes()).to_hex();
    let message = NewMessage::new(body);
    Ok(match kind {
        QueueKind::Standard => message,
        QueueKind::Fifo => message.in_group(digest.clone(), digest),
    })
}

#[cfg(test)]
mod tests {
    use parkhang_queue::{MemoryServer, QueueServer, QueueSpec, Receive};
    use parkhang_store::storage::ArtifactKey;
    use proptest::prelude::*;
    use std::collections::BTreeSet;
    use std::time::Duration;

    use super::*;

    fn document() -> VolumeId {
        "HKEX-11805134".parse().unwrap()
    }

    fn place() -> DocumentPlace {
        DocumentPlace {
            bucket: "pdfs".to_owned(),
            key: ArtifactKey::new("hkex/11805134.pdf").unwrap(),
        }
    }

    fn now() -> DateTime<Utc> {
        "2026-02-18T00:00:00Z".parse().unwrap()
    }

    fn pages_of(request: &PageMessage) -> Vec<u32> {
        request.pages.pages().collect()
    }

    /// Rows: 129, 132.
    #[tokio::test]
    async fn a_queue_of_either_kind_gets_a_request_for_each_chunk_of_pages() {
        let server = MemoryServer::default();
        for name in ["ocr-pages", "ocr-pages.fifo"] {
            let queue = server.create(&QueueSpec::new(name)).await.unwrap();
            let size = ChunkSize::new(5).unwrap();
            let publisher = Publisher {
                queue: queue.clone(),
                size,
            };
            let pages: Vec<u32> = (3..=57).collect();
            let sent = publisher
                .publish(&document(), &place(), &pages, now())
                .await
                .unwrap();
            assert_eq!(sent, 11, "more than one request to the server takes");
            let mut asked = BTreeSet::new();
            for _ in 0..2 {
                let request = Receive::one(Duration::from_secs(60)).up_to(10);
                for delivery in queue.receive(request).await.unwrap() {
                    let read = PageMessage::read(&delivery.body).unwrap();
                    assert_eq!(
                        (&read.document, &read.place, read.submitted_at),
                        (&document(), &place(), now())
                    );
                    asked.extend(pages_of(&read));
                }
            }
            assert_eq!(asked.into_iter().collect::<Vec<_>>(), pages, "{name}");
            assert_eq!(
                publisher
                    .publish(&document(), &place(), &[], now())
                    .await
                    .unwrap(),
                0
            );
        }
    }

    proptest! {
        /// Rows: 131.
        #[test]
        fn every_page_is_asked_for_once_and_in_order(
            pages in proptest::collection::btree_set(1u32..90_000, 0..300), size in 5usize..=20,
        ) {
            let pages: Vec<u32> = pages.into_iter().collect();
            let size = ChunkSize::new(size).unwrap();
            let requests = PageMessage::chunks(&document(), &place(), &pages, size, now());
            prop_assert!(requests.iter().all(|request| request.pages.pages().count() <= size.get()));
            let asked: Vec<u32> = requests.iter().flat_map(pages_of).collect();
            prop_assert_eq!(asked, pages);
        }
    }

    #[test]
    fn a_document_may_have_more_broken_pages_than_one_set_holds() {
        let pages: Vec<u32> = (1..=25_000).collect();
        let requests = PageMessage::chunks(&document(), &place(), &pages, ChunkSize::default(), now());
        assert_eq!(requests.iter().flat_map(pages_of).collect::<Vec<_>>(), pages);
    }
}
