//! Settings and counts of queues, in the words of the protocol.

use std::collections::HashMap;
use std::time::Duration;

use aws_sdk_sqs::types::QueueAttributeName as Name;
use serde_json::{Value, json};

use super::name_of;
use crate::{Counts, DeadLetters, QueueFacts, QueueKind, QueueSpec};

/// Settings as the protocol has them.
pub(super) type Attributes = HashMap<Name, String>;

/// Settings of a queue that is to be made, with the ARN of its dead-letter queue.
pub(super) fn attributes_of(spec: &QueueSpec, letters: Option<&str>) -> Attributes {
    let mut attributes = changes_of(&spec.facts(), letters);
    // AWS makes no queue with a policy that is empty.
    attributes.retain(|name, value| *name != Name::RedrivePolicy || !value.is_empty());
    if spec.kind() == QueueKind::Fifo {
        attributes.insert(Name::FifoQueue, "true".to_owned());
    }
    attributes
}

/// Settings for a queue that is there, with the ARN of its dead-letter queue. The kind of a queue cannot be changed, and is not told again;
/// an empty policy detaches a dead-letter queue.
pub(super) fn changes_of(facts: &QueueFacts, letters: Option<&str>) -> Attributes {
    let seconds = |time: Duration| time.as_secs().to_string();
    let policy = letters.zip(facts.dead_letters.as_ref()).map(|(arn, letters)| {
        json!({ "deadLetterTargetArn": arn, "maxReceiveCount": letters.max_receives }).to_string()
    });
    Attributes::from([
        (Name::VisibilityTimeout, seconds(facts.visibility)),
        (Name::MessageRetentionPeriod, seconds(facts.retention)),
        (Name::RedrivePolicy, policy.unwrap_or_default()),
    ])
}

/// Settings of a queue that is there.
pub(super) fn facts_of(attributes: &Attributes) -> QueueFacts {
    QueueFacts {
        visibility: Duration::from_secs(number(attributes, &Name::VisibilityTimeout)),
        retention: Duration::from_secs(number(attributes, &Name::MessageRetentionPeriod)),
        dead_letters: redrive_policy(attributes).map(|(arn, max_receives)| DeadLetters {
            queue: name_of(&arn).to_owned(),
            max_receives,
        }),
    }
}

/// ARN of the dead-letter queue, and the receives before a message goes there. Servers write the number as one or as a text.
pub(super) fn redrive_policy(attributes: &Attributes) -> Option<(String, u32)> {
    let policy: Value = serde_json::from_str(attributes.get(&Name::RedrivePolicy)?).ok()?;
    let arn = policy.get("deadLetterTargetArn")?.as_str()?.to_owned();
    let receives = policy.get("maxReceiveCount")?;
    let receives = match receives.as_str() {
        Some(text) => text.parse().ok()?,
        None => u32::try_from(receives.as_u64()?).ok()?,
    };
    Some((arn, receives))
}

pub(super) fn counts_of(attributes: &Attributes) -> Counts {
    Counts {
        visible: number(attributes, &Name::ApproximateNumberOfMessages),
        in_flight: number(attributes, &Name::ApproximateNumberOfMessagesNotVisible),
        delayed: number(attributes, &Name::ApproximateNumberOfMessagesDelayed),
    }
}

fn number(attributes: &Attributes, name: &Name) -> u64 {
    let text = attributes.get(name);
    text.and_then(|text| text.parse().ok()).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_redrive_policy_is_read_as_it_is_written() {
        let spec = QueueSpec::new("ocr-ocr.fifo");
        let arn = "arn:aws:sqs:us-east-1:123456789012:ocr-ocr-dlq.fifo";
        let mut attributes = attributes_of(&spec, Some(arn));
        let facts = facts_of(&attributes);
        assert_eq!(facts.dead_letters, spec.dead_letters);
        assert_eq!(
            (facts.visibility, facts.retention),
            (spec.visibility, spec.retention)
        );
        // The console writes the number as a text.
        let policy = format!(r#"{{"deadLetterTargetArn":"{arn}","maxReceiveCount":"5"}}"#);
        attributes.insert(Name::RedrivePolicy, policy);
        assert_eq!(facts_of(&attributes).dead_letters, spec.dead_letters);
        for bad in ["", "5", "{}", r#"{"deadLetterTargetArn":"a"}"#] {
            attributes.insert(Name::RedrivePolicy, bad.to_owned());
            assert_eq!(facts_of(&attributes).dead_letters, None, "{bad}");
        }
    }
}
