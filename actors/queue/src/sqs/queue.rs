use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use aws_sdk_sqs::types::{
    BatchResultErrorEntry, ChangeMessageVisibilityBatchRequestEntry as VisibilityEntry,
    DeleteMessageBatchRequestEntry as DeleteEntry, MessageSystemAttributeName, QueueAttributeName,
};
use futures::stream::{self, StreamExt};
use tokio::sync::OnceCell;
use tokio::time::Instant;
use uuid::Uuid;

use super::client::Link;
use super::failure::{Failure, Meaning};
use super::retry::{Refusal, Settled};
use super::settings::{self, Attributes};
use super::{batch, name_of, redrive, translation};
use crate::checks::{check_message, check_receive, check_spec, check_visibility};
use crate::limits::{MAX_BATCH, whole_seconds};
use crate::{
    Counts, Delivery, Extended, Extension, NewMessage, QueueError, QueueFacts, QueueKind, Receipt,
    ReceiptStatus, Receive, Redrive, Sent, TaskQueue,
};

/// Requests of one call that are under way at a time, where their order does not matter.
const REQUESTS: usize = 8;

/// Queue of SQS.
#[derive(Debug)]
pub(super) struct SqsQueue {
    pub(super) link: Arc<Link>,
    url: String,
    name: String,
    /// Found once; who changes a queue's dead-letter queue restarts its workers.
    letters: OnceCell<Arc<SqsQueue>>,
}

impl SqsQueue {
    pub(super) fn new(link: Arc<Link>, url: String) -> Self {
        Self {
            name: name_of(&url).to_owned(),
            link,
            url,
            letters: OnceCell::new(),
        }
    }

    /// Reads settings or counts.
    async fn attributes(&self, names: &[QueueAttributeName]) -> Result<Attributes, QueueError> {
        let read = self.link.retry.run(|| async {
            let request = self.link.client.get_queue_attributes().queue_url(&self.url);
            let request = request.set_attribute_names(Some(names.to_vec()));
            Ok(request.send().await?.attributes.unwrap_or_default())
        });
        read.await
            .map_err(|refusal| refusal.into_error("read the settings of", &self.name))
    }

    /// Name by which queues are named in settings.
    pub(super) async fn arn(&self) -> Result<String, QueueError> {
        let mut attributes = self.attributes(&[QueueAttributeName::QueueArn]).await?;
        Ok(attributes
            .remove(&QueueAttributeName::QueueArn)
            .unwrap_or_default())
    }

    async fn find_letters(&self) -> Result<Arc<Self>, QueueError> {
        let attributes = self.attributes(&[QueueAttributeName::RedrivePolicy]).await?;
        let (arn, _) = settings::redrive_policy(&attributes).ok_or_else(|| QueueError::NoDeadLetters {
            queue: self.name.clone(),
        })?;
        let name = name_of(&arn);
        let owner = arn.rsplit(':').nth(1).unwrap_or_default();
        let found = self.link.retry.run(|| async {
            let request = self.link.client.get_queue_url().queue_name(name);
            let answer = request.queue_owner_aws_account_id(owner).send().await?;
            Ok(answer.queue_url.unwrap_or_default())
        });
        let url = found.await.map_err(|refusal| refusal.into_error("find", name))?;
        Ok(Arc::new(Self::new(self.link.clone(), url)))
    }

    /// Sends the messages at `places` in one request.
    async fn send_some(&self, messages: &[NewMessage], places: &[usize]) -> Vec<Result<Sent, Refusal>> {
        let send = |open: Vec<usize>| async move {
            let mut request = self.link.client.send_message_batch().queue_url(&self.url);
            for place in open {
                request = request.entries(translation::entry(place, &messages[places[place]])?);
            }
            let answer = request.send().await?;
            let mut settled = failures(answer.failed());
            settled.extend(answer.successful().iter().filter_map(|entry| {
                let sent = Sent {
                    id: entry.message_id().to_owned(),
                    sequence: entry.sequence_number().map(str::to_owned),
                };
                Some((entry.id().parse().ok()?, Ok(sent)))
            }));
            Ok(settled)
        };
        self.link.retry.run_batch(places.len(), send).await
    }

    /// Extends the deliveries of one request.
    async fn extend_some(&self, entries: &[(&Receipt, Duration)]) -> Vec<Result<(), Refusal>> {
        let extend = |open: Vec<usize>| async move {
            let request = self.link.client.change_message_visibility_batch();
            let mut request = request.queue_url(&self.url);
            for place in open {
                let (receipt, visibility) = entries[place];
                let entry = VisibilityEntry::builder().id(place.to_string());
                let entry = entry.receipt_handle(&receipt.handle);
                request = request.entries(entry.visibility_timeout(seconds(visibility)).build()?);
            }
            let answer = request.send().await?;
            let mut settled = failures(answer.failed());
            let done = answer.successful().iter();
            settled.extend(done.filter_map(|entry| Some((entry.id().parse().ok()?, Ok(())))));
            Ok(settled)
        };
        self.link.retry.run_batch(entries.len(), extend).await
    }

    /// Deletes the messages of one request.
    async fn delete_some(&self, receipts: &[Receipt]) -> Vec<Result<(), Refusal>> {
        let delete = |open: Vec<usize>| async move {
            let mut request = self.link.client.delete_message_batch().queue_url(&self.url);
            for place in open {
                let entry = DeleteEntry::builder().id(place.to_string());
                request = request.entries(entry.receipt_handle(&receipts[place].handle).build()?);
            }
            let answer = request.send().await?;
            let mut settled = failures(answer.failed());
            let done = answer.successful().iter();
            settled.extend(done.filter_map(|entry| Some((entry.id().parse().ok()?, Ok(())))));
            Ok(settled)
        };
        self.link.retry.run_batch(receipts.len(), delete).await
    }

    /// The outcome of a request about a receipt.
    fn status(&self, action: &'static str, result: Result<(), Refusal>) -> Result<ReceiptStatus, QueueError> {
        match result {
            Ok(()) => Ok(ReceiptStatus::Honoured),
            Err(refusal) if refusal.failure.meaning == Meaning::Stale => Ok(ReceiptStatus::Stale),
            Err(refusal) => Err(refusal.into_error(action, &self.name)),
        }
    }
}

/// Entries of a batch that failed. Their ids are their places.
fn failures<T>(failed: &[BatchResultErrorEntry]) -> Settled<T> {
    failed
        .iter()
        .filter_map(|entry| Some((entry.id().parse().ok()?, Err(Failure::of_entry(entry)))))
        .collect()
}

/// A time in the whole seconds of the protocol; each of its own limit is far below that of the type.
fn seconds(time: Duration) -> i32 {
    i32::try_from(whole_seconds(time).as_secs()).unwrap_or(i32::MAX)
}

#[async_trait]
impl TaskQueue for SqsQueue {
    fn name(&self) -> &str {
        &self.name
    }

    fn url(&self) -> &str {
        &self.url
    }

    async fn send_all(&self, messages: &[NewMessage]) -> Vec<Result<Sent, QueueError>> {
        let mut results: Vec<Option<Result<Sent, QueueError>>> = Vec::new();
        for message in messages {
            let checked = check_message(message, self.kind());
            results.push(checked.err().map(|limit| Err(QueueError::Limit(limit))));
        }
        let group = |place: usize| messages[place].fifo.as_ref().map(|key| &key.group);
        // A group goes no further than its first failure, found before sending or by it.
        let hold_back = |results: &mut Vec<Option<Result<Sent, QueueError>>>| {
            for place in 0..messages.len() {
                let Some(group) = group(place).filter(|_| matches!(results[place], Some(Err(_)))) else {
                    continue;
                };
                for (later, message) in messages.iter().enumerate().skip(place + 1) {
                    let key = message.fifo.as_ref();
                    if results[later].is_none() && key.is_some_and(|key| key.group == *group) {
                        results[later] = Some(Err(QueueError::HeldBack {
                            queue: self.name.clone(),
                            group: group.clone(),
                        }));
                    }
                }
            }
        };
        hold_back(&mut results);
        let open: Vec<usize> = (0..messages.len())
            .filter(|place| results[*place].is_none())
            .collect();
        for request in batch::requests(messages, &open) {
            let places: Vec<usize> = request
                .into_iter()
                .filter(|place| results[*place].is_none())
                .collect();
            let sent = self.send_some(messages, &places).await;
            for (place, result) in places.into_iter().zip(sent) {
                let result = result.map_err(|refusal| refusal.into_error("send to", &self.name));
                results[place] = Some(result);
            }
            hold_back(&mut results);
        }
        results.into_iter().flatten().collect()
    }

    async fn receive(&self, request: Receive) -> Result<Vec<Delivery>, QueueError> {
        check_receive(&request)?;
        // Under the id of its first try a repeated receive is given the same messages, rather than none while they are invisible.
        let attempt = (self.kind() == QueueKind::Fifo).then(|| Uuid::new_v4().to_string());
        let received = self.link.retry.waiting(request.wait).run(|| async {
            let receive = self.link.client.receive_message().queue_url(&self.url);
            let receive = receive
                .max_number_of_messages(i32::try_from(request.max).unwrap_or(1))
                .wait_time_seconds(seconds(request.wait))
                .visibility_timeout(seconds(request.visibility))
                .message_system_attribute_names(MessageSystemAttributeName::All)
                .message_attribute_names("All")
                .set_receive_request_attempt_id(attempt.clone());
            Ok(receive.send().await?.messages.unwrap_or_default())
        });
        let messages = received
            .await
            .map_err(|refusal| refusal.into_error("receive from", &self.name))?;
        let now = Instant::now();
        Ok(messages
            .into_iter()
            .filter_map(|message| translation::delivery(message, now))
            .collect())
    }

    async fn extend_all(&self, extensions: &[Extension]) -> Vec<Result<Extended, QueueError>> {
        let mut results = Vec::new();
        for extensions in extensions.chunks(MAX_BATCH) {
            let now = Instant::now();
            let checked: Vec<Result<Option<Duration>, QueueError>> = extensions
                .iter()
                .map(|extension| {
                    check_visibility(extension.visibility)?;
                    Ok(extension.capped(now))
                })
                .collect();
            let entries: Vec<(&Receipt, Duration)> = extensions
                .iter()
                .zip(&checked)
                .filter_map(|(extension, checked)| match checked {
                    Ok(Some(visibility)) => Some((&extension.receipt, *visibility)),
                    _ => None,
                })
                .collect();
            let mut extended = self.extend_some(&entries).await.into_iter();
            results.extend(checked.into_iter().map(|checked| {
                let Some(visibility) = checked? else {
                    return Ok(Extended::AtCap);
                };
                match extended.next() {
                    Some(Err(refusal)) if refusal.failure.meaning == Meaning::AtCap => Ok(Extended::AtCap),
                    Some(result) => Ok(match self.status("extend in", result)? {
                        ReceiptStatus::Honoured => Extended::For(visibility),
                        ReceiptStatus::Stale => Extended::Stale,
                    }),
                    None => Ok(Extended::Stale),
                }
            }));
        }
        results
    }

    async fn delete_all(&self, receipts: &[Receipt]) -> Vec<Result<ReceiptStatus, QueueError>> {
        // Deletions have no order, so their requests need not wait for each other.
        let mut requests = Vec::new();
        for receipts in receipts.chunks(MAX_BATCH) {
            requests.push(self.delete_some(receipts));
        }
        let deleted: Vec<Vec<_>> = stream::iter(requests).buffered(REQUESTS).collect().await;
        let results = deleted.into_iter().flatten();
        results
            .map(|result| self.status("delete a message of", result))
            .collect()
    }

    async fn dead_letters(&self) -> Result<Arc<dyn TaskQueue>, QueueError> {
        let letters = self.letters.get_or_try_init(|| self.find_letters()).await?;
        Ok(letters.clone())
    }

    async fn counts(&self) -> Result<Counts, QueueError> {
        let names = [
            QueueAttributeName::ApproximateNumberOfMessages,
            QueueAttributeName::ApproximateNumberOfMessagesNotVisible,
            QueueAttributeName::ApproximateNumberOfMessagesDelayed,
        ];
        Ok(settings::counts_of(&self.attributes(&names).await?))
    }

    async fn facts(&self) -> Result<QueueFacts, QueueError> {
        let names = [
            QueueAttributeName::VisibilityTimeout,
            QueueAttributeName::MessageRetentionPeriod,
            QueueAttributeName::RedrivePolicy,
        ];
        Ok(settings::facts_of(&self.attributes(&names).await?))
    }

    async fn configure(&self, settings: &QueueFacts) -> Result<(), QueueError> {
        check_spec(&settings.of(&self.name))?;
        let letters = match &settings.dead_letters {
            Some(letters) => {
                let url = self.link.find(&letters.queue).await?;
                Some(Self::new(self.link.clone(), url).arn().await?)
            }
            None => None,
        };
        let attributes = settings::changes_of(settings, letters.as_deref());
        let changed = self.link.retry.run(|| async {
            let request = self.link.client.set_queue_attributes().queue_url(&self.url);
            request.set_attributes(Some(attributes.clone())).send().await?;
            Ok(())
        });
        changed
            .await
            .map_err(|refusal| refusal.into_error("change the settings of", &self.name))
    }

    async fn purge(&self) -> Result<(), QueueError> {
        let purged = self.link.retry.run(|| async {
            let request = self.link.client.purge_queue().queue_url(&self.url);
            request.send().await?;
            Ok(())
        });
        purged
            .await
            .map_err(|refusal| refusal.into_error("purge", &self.name))
    }

    async fn redrive(&self, to: &dyn TaskQueue) -> Result<Redrive, QueueError> {
        redrive::redrive(self, to).await
    }
}
