//! Comparison of what is about to be sent with the quotas: a server that refuses one message of a batch says less about it, and one in
//! memory or in a test may not refuse at all.

use std::time::Duration;

use super::limits::{
    LimitError, MAX_ATTRIBUTE_NAME, MAX_ATTRIBUTES, MAX_BATCH, MAX_BYTES, MAX_DELAY, MAX_ID, MAX_NAME,
    MAX_RETENTION, MAX_VISIBILITY, MAX_WAIT, MIN_RETENTION, MOST_RECEIVES, is_carried,
};
use super::{Attribute, NewMessage, QueueKind, QueueSpec, Receive};

fn within(what: &'static str, value: Duration, least: Duration, most: Duration) -> Result<(), LimitError> {
    if (least..=most).contains(&value) {
        return Ok(());
    }
    Err(LimitError::Time {
        what,
        value,
        least,
        most,
    })
}

const SECOND: Duration = Duration::from_secs(1);

/// Checks the time for which a delivery is to be held.
pub(crate) fn check_visibility(visibility: Duration) -> Result<(), LimitError> {
    within("visibility", visibility, Duration::ZERO, MAX_VISIBILITY)
}

/// Checks a receive. One that holds nothing is refused, as it would make two holders of one message.
pub(crate) fn check_receive(receive: &Receive) -> Result<(), LimitError> {
    if !(1..=MAX_BATCH).contains(&receive.max) {
        return Err(LimitError::Batch { max: receive.max });
    }
    within("wait", receive.wait, Duration::ZERO, MAX_WAIT)?;
    within("visibility", receive.visibility, SECOND, MAX_VISIBILITY)
}

/// Checks a message for a queue of `kind`.
pub(crate) fn check_message(message: &NewMessage, kind: QueueKind) -> Result<(), LimitError> {
    if message.body.is_empty() {
        return Err(LimitError::Empty);
    }
    check_text("the body", &message.body)?;
    match (kind, &message.fifo) {
        (QueueKind::Fifo, None) => return Err(LimitError::Ungrouped),
        (QueueKind::Standard, Some(_)) => return Err(LimitError::Grouped),
        (QueueKind::Fifo, Some(key)) => {
            check_id("group", &key.group)?;
            check_id("deduplication id", &key.deduplication)?;
            if !message.delay.is_zero() {
                return Err(LimitError::DelayedInOrder);
            }
        }
        (QueueKind::Standard, None) => within("delay", message.delay, Duration::ZERO, MAX_DELAY)?,
    }
    let count = message.attributes.len();
    if count > MAX_ATTRIBUTES {
        return Err(LimitError::Attributes { count });
    }
    for (name, attribute) in &message.attributes {
        check_attribute(name, attribute)?;
    }
    let bytes = message.bytes();
    if bytes > MAX_BYTES && !message.is_letter {
        return Err(LimitError::TooLong { bytes });
    }
    Ok(())
}

fn check_attribute(name: &str, attribute: &Attribute) -> Result<(), LimitError> {
    let refused = |reason| {
        Err(LimitError::Attribute {
            name: name.to_owned(),
            reason,
        })
    };
    let known = |c: char| c.is_ascii_alphanumeric() || "_-.".contains(c);
    let lower = name.to_ascii_lowercase();
    if name.is_empty() || name.len() > MAX_ATTRIBUTE_NAME || !name.chars().all(known) {
        return refused("is named with other characters than letters, digits, _, - and ., or with too many");
    }
    if lower.starts_with("aws.") || lower.starts_with("amazon.") {
        return refused("has a name that AWS keeps for itself");
    }
    if name.starts_with('.') || name.ends_with('.') || name.contains("..") {
        return refused("has a dot at an end of its name, or two in a row");
    }
    if attribute.is_empty() {
        return refused("is empty");
    }
    match attribute {
        Attribute::Text(text) => check_text("an attribute", text),
        Attribute::Number(number) if number.parse::<f64>().is_err() => refused("is not a number"),
        Attribute::Number(_) | Attribute::Binary(_) => Ok(()),
    }
}

fn check_text(what: &'static str, text: &str) -> Result<(), LimitError> {
    match text.chars().find(|c| !is_carried(*c)) {
        Some(found) => Err(LimitError::Character { what, found }),
        None => Ok(()),
    }
}

fn check_id(what: &'static str, value: &str) -> Result<(), LimitError> {
    if (1..=MAX_ID).contains(&value.len()) && value.chars().all(|c| c.is_ascii_graphic()) {
        return Ok(());
    }
    Err(LimitError::Id {
        what,
        value: value.to_owned(),
    })
}

/// Checks the name of a queue.
pub(crate) fn check_name(name: &str) -> Result<(), LimitError> {
    let stem = name.strip_suffix(".fifo").unwrap_or(name);
    let known = |c: char| c.is_ascii_alphanumeric() || c == '-' || c == '_';
    if !stem.is_empty() && name.len() <= MAX_NAME && stem.chars().all(known) {
        return Ok(());
    }
    Err(LimitError::Name {
        name: name.to_owned(),
    })
}

/// Checks what a queue is to be made like.
pub(crate) fn check_spec(spec: &QueueSpec) -> Result<(), LimitError> {
    check_name(&spec.name)?;
    check_visibility(spec.visibility)?;
    within("retention", spec.retention, MIN_RETENTION, MAX_RETENTION)?;
    if let Some(letters) = &spec.dead_letters {
        check_name(&letters.queue)?;
        if QueueKind::of(&letters.queue) != spec.kind() {
            return Err(LimitError::DeadLetterKind {
                name: spec.name.clone(),
                dead_letters: letters.queue.clone(),
            });
        }
        if !(1..=MOST_RECEIVES).contains(&letters.max_receives) {
            return Err(LimitError::MaxReceives {
                max_receives: letters.max_receives,
            });
        }
    }
    Ok(())
}
