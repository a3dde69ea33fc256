//! Messages in the words of the SDK and in ours.

use aws_sdk_sqs::error::BuildError;
use aws_sdk_sqs::primitives::Blob;
use aws_sdk_sqs::types::{
    Message, MessageAttributeValue, MessageSystemAttributeName as System, SendMessageBatchRequestEntry,
};
use bytes::Bytes;
use chrono::DateTime;
use parkhang_core::domain::ErrorCategory;
use tokio::time::Instant;

use super::failure::{Failure, Meaning};
use super::name_of;
use crate::limits::whole_seconds;
use crate::{Attribute, Delivery, FifoKey, NewMessage, Receipt};

impl From<BuildError> for Failure {
    fn from(error: BuildError) -> Self {
        let meaning = Meaning::Failed(ErrorCategory::Config);
        Self::new(meaning, "InvalidRequest", error.to_string())
    }
}

/// A message as the entry `id` of a batch.
pub(super) fn entry(id: usize, message: &NewMessage) -> Result<SendMessageBatchRequestEntry, Failure> {
    let mut entry = SendMessageBatchRequestEntry::builder()
        .id(id.to_string())
        .message_body(&message.body);
    for (name, attribute) in &message.attributes {
        entry = entry.message_attributes(name, value(attribute)?);
    }
    if let Some(key) = &message.fifo {
        entry = entry
            .message_group_id(&key.group)
            .message_deduplication_id(&key.deduplication);
    }
    if !message.delay.is_zero() {
        // Checked against the limit of fifteen minutes.
        let seconds = whole_seconds(message.delay).as_secs();
        entry = entry.delay_seconds(i32::try_from(seconds).unwrap_or(i32::MAX));
    }
    Ok(entry.build()?)
}

fn value(attribute: &Attribute) -> Result<MessageAttributeValue, BuildError> {
    let value = MessageAttributeValue::builder().data_type(attribute.data_type());
    match attribute {
        Attribute::Text(text) | Attribute::Number(text) => value.string_value(text),
        Attribute::Binary(bytes) => value.binary_value(Blob::new(bytes.to_vec())),
    }
    .build()
}

/// An attribute in our words. A label behind its type, as in `Number.int`, is the sender's own and is left out.
fn attribute(value: &MessageAttributeValue) -> Option<Attribute> {
    let kind = value.data_type().split('.').next().unwrap_or_default();
    match kind {
        "Binary" => {
            let bytes = value.binary_value()?.as_ref();
            Some(Attribute::Binary(Bytes::copy_from_slice(bytes)))
        }
        "Number" => Some(Attribute::Number(value.string_value()?.to_owned())),
        _ => Some(Attribute::Text(value.string_value()?.to_owned())),
    }
}

/// A message that arrived at `now`. One without a receipt could be neither held nor deleted, and no server sends it.
pub(super) fn delivery(message: Message, now: Instant) -> Option<Delivery> {
    let handle = message.receipt_handle?;
    let system = message.attributes.unwrap_or_default();
    let text = |name: &System| system.get(name).cloned();
    let fifo = text(&System::MessageGroupId)
        .zip(text(&System::MessageDeduplicationId))
        .map(|(group, deduplication)| FifoKey { group, deduplication });
    let attributes = message.message_attributes.unwrap_or_default();
    let sent =
        text(&System::SentTimestamp).and_then(|millis| DateTime::from_timestamp_millis(millis.parse().ok()?));
    Some(Delivery {
        id: message.message_id.unwrap_or_default(),
        receipt: Receipt {
            handle,
            received: now,
        },
        body: message.body.unwrap_or_default(),
        attributes: attributes
            .into_iter()
            .filter_map(|(name, value)| Some((name, attribute(&value)?)))
            .collect(),
        sequence: text(&System::SequenceNumber),
        fifo,
        receives: text(&System::ApproximateReceiveCount)
            .and_then(|count| count.parse().ok())
            .unwrap_or(1),
        sent,
        moved_from: text(&System::DeadLetterQueueSourceArn).map(|arn| name_of(&arn).to_owned()),
    })
}
