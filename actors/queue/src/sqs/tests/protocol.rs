//! The JSON protocol of SQS from the server's side, in front of queues in memory.

use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use serde_json::{Map, Value, json};
use tokio::time::Instant;

use crate::{
    Attribute, DeadLetters, Delivery, Extended, Extension, MemoryServer, NewMessage, QueueError, QueueFacts,
    QueueServer, QueueSpec, Receipt, ReceiptStatus, Receive, TaskQueue,
};

/// Code and message of an error.
pub(super) type Refused = (&'static str, String);

const ACCOUNT: &str = "arn:aws:sqs:us-east-1:000000000000";

/// Server of the protocol.
#[derive(Debug)]
pub(super) struct Protocol {
    pub(super) queues: MemoryServer,
    url: String,
    /// Answers to receives from FIFO queues, which are given again to who asks again under the same id.
    attempts: Mutex<HashMap<String, Value>>,
}

impl Protocol {
    pub(super) fn new(url: &str) -> Self {
        Self {
            queues: MemoryServer::new(),
            url: format!("{url}/000000000000"),
            attempts: Mutex::default(),
        }
    }

    /// Carries out a request.
    pub(super) async fn call(&self, action: &str, request: &Value) -> Result<Value, Refused> {
        let answer = match action {
            "CreateQueue" => self.create(request).await,
            "GetQueueUrl" => {
                let queue = self.queues.open(text(&request["QueueName"])).await;
                queue.map(|queue| json!({ "QueueUrl": self.address(queue.name()) }))
            }
            "ListQueues" => return self.list(request).await,
            "StartMessageMoveTask" => self.start_move(request).await,
            _ => {
                let queue = self.open(text(&request["QueueUrl"])).await;
                let queue = queue.map_err(refused)?;
                match action {
                    "GetQueueAttributes" => attributes(&*queue).await,
                    "SetQueueAttributes" => {
                        let changed = queue.configure(&settings(&request["Attributes"])).await;
                        changed.map(|()| json!({}))
                    }
                    "PurgeQueue" => queue.purge().await.map(|()| json!({})),
                    "ReceiveMessage" => self.receive(&*queue, request).await,
                    "SendMessageBatch" => Ok(send(&*queue, &request["Entries"]).await),
                    "DeleteMessageBatch" => Ok(delete(&*queue, &request["Entries"]).await),
                    "ChangeMessageVisibilityBatch" => Ok(extend(&*queue, &request["Entries"]).await),
                    _ => return Err(("InvalidAction", format!("{action} is not an action"))),
                }
            }
        };
        answer.map_err(refused)
    }

    fn address(&self, name: &str) -> String {
        format!("{}/{name}", self.url)
    }

    async fn open(&self, url: &str) -> Result<std::sync::Arc<dyn TaskQueue>, QueueError> {
        self.queues.open(url.rsplit('/').next().unwrap_or(url)).await
    }

    async fn create(&self, request: &Value) -> Result<Value, QueueError> {
        let spec = settings(&request["Attributes"]).of(text(&request["QueueName"]));
        // What makes the dead-letter queue here would be the second to make it.
        let is_there = self.queues.open(&spec.name).await.is_ok();
        let letters = spec.dead_letters.as_ref().map(|letters| letters.queue.clone());
        if let (Some(letters), false) = (letters, is_there) {
            let facts = self.queues.open(&letters).await?.facts().await?;
            let visibility = facts.visibility;
            let own = QueueSpec {
                visibility,
                ..spec.clone()
            };
            assert_eq!(own, spec, "the two are made alike");
        }
        let queue = self.queues.create(&spec).await?;
        Ok(json!({ "QueueUrl": self.address(queue.name()) }))
    }

    /// Two names a page, whatever is asked for.
    async fn list(&self, request: &Value) -> Result<Value, Refused> {
        let names = self.queues.list(text(&request["QueueNamePrefix"])).await;
        let names = names.map_err(refused)?;
        let from: usize = request["NextToken"]
            .as_str()
            .map_or(0, |token| token.parse().unwrap());
        let page = names.iter().skip(from).take(2);
        let page: Vec<String> = page.map(|name| self.address(name)).collect();
        let next = (from + 2 < names.len()).then(|| (from + 2).to_string());
        Ok(json!({ "QueueUrls": page, "NextToken": next }))
    }

    async fn start_move(&self, request: &Value) -> Result<Value, QueueError> {
        let queue = |arn: &str| name_of(text(&request[arn])).to_owned();
        let from = self.queues.open(&queue("SourceArn")).await?;
        let to = self.queues.open(&queue("DestinationArn")).await?;
        from.redrive(&*to).await?;
        Ok(json!({ "TaskHandle": "the only one" }))
    }

    async fn receive(&self, queue: &dyn TaskQueue, request: &Value) -> Result<Value, QueueError> {
        let attempts = || self.attempts.lock().unwrap_or_else(PoisonError::into_inner);
        let attempt = request["ReceiveRequestAttemptId"].as_str();
        if let Some(answer) = attempt.and_then(|attempt| attempts().get(attempt).cloned()) {
            return Ok(answer);
        }
        let seconds = |name: &str| Duration::from_secs(request[name].as_u64().unwrap());
        let receive = Receive {
            max: request["MaxNumberOfMessages"].as_u64().unwrap() as usize,
            wait: seconds("WaitTimeSeconds"),
            visibility: seconds("VisibilityTimeout"),
        };
        let deliveries = queue.receive(receive).await?;
        let messages: Vec<Value> = deliveries.iter().map(message).collect();
        let answer = json!({ "Messages": messages });
        if let Some(attempt) = attempt {
            attempts().insert(attempt.to_owned(), answer.clone());
        }
        Ok(answer)
    }
}

fn text(value: &Value) -> &str {
    value.as_str().unwrap_or_default()
}

fn name_of(arn: &str) -> &str {
    arn.rsplit(':').next().unwrap_or(arn)
}

fn refused(error: QueueError) -> Refused {
    let code = match &error {
        QueueError::NotFound { .. } => "QueueDoesNotExist",
        QueueError::Exists { .. } => "QueueNameExists",
        QueueError::PurgedLately { .. } => "PurgeQueueInProgress",
        QueueError::InFlight { .. } => "OverLimit",
        _ => "InvalidParameterValue",
    };
    (code, error.to_string())
}

/// Settings that a request gives to a queue.
fn settings(attributes: &Value) -> QueueFacts {
    let seconds = |name: &str| Duration::from_secs(text(&attributes[name]).parse().unwrap());
    let policy = attributes["RedrivePolicy"]
        .as_str()
        .filter(|policy| !policy.is_empty());
    QueueFacts {
        visibility: seconds("VisibilityTimeout"),
        retention: seconds("MessageRetentionPeriod"),
        dead_letters: policy.map(|policy| {
            let policy: Value = serde_json::from_str(policy).unwrap();
            DeadLetters {
                queue: name_of(text(&policy["deadLetterTargetArn"])).to_owned(),
                max_receives: policy["maxReceiveCount"].as_u64().unwrap() as u32,
            }
        }),
    }
}

async fn attributes(queue: &dyn TaskQueue) -> Result<Value, QueueError> {
    let (facts, counts) = (queue.facts().await?, queue.counts().await?);
    let policy = facts.dead_letters.map(|letters| {
        let arn = format!("{ACCOUNT}:{}", letters.queue);
        json!({ "deadLetterTargetArn": arn, "maxReceiveCount": letters.max_receives }).to_string()
    });
    let mut attributes = json!({
        "QueueArn": format!("{ACCOUNT}:{}", queue.name()),
        "VisibilityTimeout": facts.visibility.as_secs().to_string(),
        "MessageRetentionPeriod": facts.retention.as_secs().to_string(),
        "ApproximateNumberOfMessages": counts.visible.to_string(),
        "ApproximateNumberOfMessagesNotVisible": counts.in_flight.to_string(),
        "ApproximateNumberOfMessagesDelayed": counts.delayed.to_string(),
    });
    if let Some(policy) = policy {
        attributes["RedrivePolicy"] = policy.into();
    }
    Ok(json!({ "Attributes": attributes }))
}

fn message(delivery: &Delivery) -> Value {
    let mut system = Map::new();
    let mut add = |name: &str, value: Option<String>| {
        system.extend(value.map(|value| (name.to_owned(), Value::String(value))));
    };
    let key = delivery.fifo.as_ref();
    add("MessageGroupId", key.map(|key| key.group.clone()));
    add("MessageDeduplicationId", key.map(|key| key.deduplication.clone()));
    add("SequenceNumber", delivery.sequence.clone());
    add("ApproximateReceiveCount", Some(delivery.receives.to_string()));
    add(
        "SentTimestamp",
        delivery.sent.map(|sent| sent.timestamp_millis().to_string()),
    );
    let source = delivery
        .moved_from
        .as_ref()
        .map(|name| format!("{ACCOUNT}:{name}"));
    add("DeadLetterQueueSourceArn", source);
    let attribute = |(name, attribute): (&String, &Attribute)| {
        let value = match attribute {
            Attribute::Text(text) => json!({ "DataType": "String", "StringValue": text }),
            Attribute::Number(text) => json!({ "DataType": "Number.int", "StringValue": text }),
            Attribute::Binary(bytes) => {
                json!({ "DataType": "Binary", "BinaryValue": BASE64_STANDARD.encode(bytes) })
            }
        };
        (name.clone(), value)
    };
    json!({
        "MessageId": delivery.id,
        "ReceiptHandle": delivery.receipt.handle,
        "Body": delivery.body,
        "Attributes": system,
        "MessageAttributes": delivery.attributes.iter().map(attribute).collect::<Map<_, _>>(),
    })
}

fn new_message(entry: &Value) -> NewMessage {
    let mut message = NewMessage::new(text(&entry["MessageBody"]));
    for (name, value) in entry["MessageAttributes"].as_object().into_iter().flatten() {
        let string = text(&value["StringValue"]).to_owned();
        let attribute = match text(&value["DataType"]) {
            "Number" => Attribute::Number(string),
            "Binary" => {
                let bytes = BASE64_STANDARD.decode(text(&value["BinaryValue"])).unwrap();
                Attribute::Binary(bytes.into())
            }
            _ => Attribute::Text(string),
        };
        message = message.with_attribute(name, attribute);
    }
    if let Some(group) = entry["MessageGroupId"].as_str() {
        message = message.in_group(group, text(&entry["MessageDeduplicationId"]));
    }
    message.delayed(Duration::from_secs(entry["DelaySeconds"].as_u64().unwrap_or(0)))
}

/// Answer to a batch, of the result of each entry.
fn batch(entries: &Value, results: Vec<Result<Value, Refused>>) -> Value {
    let (mut successful, mut failed) = (Vec::new(), Vec::new());
    for (entry, result) in entries.as_array().into_iter().flatten().zip(results) {
        match result {
            Ok(mut done) => {
                done["Id"] = entry["Id"].clone();
                successful.push(done);
            }
            Err((code, message)) => failed.push(json!({
                "Id": entry["Id"], "Code": code, "Message": message, "SenderFault": true,
            })),
        }
    }
    json!({ "Successful": successful, "Failed": failed })
}

async fn send(queue: &dyn TaskQueue, entries: &Value) -> Value {
    let messages: Vec<NewMessage> = entries
        .as_array()
        .into_iter()
        .flatten()
        .map(new_message)
        .collect();
    let results = queue.send_all(&messages).await.into_iter().map(|sent| {
        let sent = sent.map_err(refused)?;
        Ok(json!({ "MessageId": sent.id, "SequenceNumber": sent.sequence, "MD5OfMessageBody": "" }))
    });
    batch(entries, results.collect())
}

fn receipts(entries: &Value) -> Vec<Receipt> {
    let receipt = |entry: &Value| Receipt {
        handle: text(&entry["ReceiptHandle"]).to_owned(),
        received: Instant::now(),
    };
    entries.as_array().into_iter().flatten().map(receipt).collect()
}

fn stale() -> Refused {
    ("ReceiptHandleIsInvalid", "the receipt is stale".to_owned())
}

async fn delete(queue: &dyn TaskQueue, entries: &Value) -> Value {
    let deleted = queue.delete_all(&receipts(entries)).await;
    let results = deleted
        .into_iter()
        .map(|deleted| match deleted.map_err(refused)? {
            ReceiptStatus::Honoured => Ok(json!({})),
            ReceiptStatus::Stale => Err(stale()),
        });
    batch(entries, results.collect())
}

async fn extend(queue: &dyn TaskQueue, entries: &Value) -> Value {
    let times = entries.as_array().into_iter().flatten();
    let times = times.map(|entry| Duration::from_secs(entry["VisibilityTimeout"].as_u64().unwrap()));
    let extensions: Vec<Extension> = receipts(entries)
        .into_iter()
        .zip(times)
        .map(|(receipt, visibility)| Extension { receipt, visibility })
        .collect();
    let extended = queue.extend_all(&extensions).await;
    let results = extended
        .into_iter()
        .map(|extended| match extended.map_err(refused)? {
            Extended::For(_) => Ok(json!({})),
            Extended::Stale | Extended::AtCap => Err(stale()),
        });
    batch(entries, results.collect())
}
