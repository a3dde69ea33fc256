//! What became of an operator's command, and how it travels in parts.

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use super::message::Command;
use super::translate::Unusable;

/// Bytes of an answer in one message, which has room for its other fields besides.
const PART: usize = 60 * 1024;
/// Bytes of an answer. Nobody reads more of it at once.
const MAX_ANSWER: usize = 8 << 20;

/// What an operator is answered.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "outcome", rename_all = "snake_case")]
pub enum CommandOutcome {
    Done {
        /// For programs.
        data: Value,
        /// For people.
        text: String,
        /// Whether what was asked about has failed.
        failed: bool,
    },
    /// It was not carried out.
    Refused {
        /// A word for programs, such as `not_found`.
        error: String,
        message: String,
    },
}

impl Command {
    pub(crate) fn arguments(&self) -> Result<Map<String, Value>, Unusable> {
        serde_json::from_str(&self.arguments).map_err(|error| Unusable::new("arguments of a command", error))
    }
}

impl CommandOutcome {
    /// Most parts that an answer has.
    pub(crate) const MAX_PARTS: u32 = (MAX_ANSWER / (PART - 3) + 1) as u32;

    pub fn refused(error: &str, message: impl Into<String>) -> Self {
        Self::Refused {
            error: error.to_owned(),
            message: message.into(),
        }
    }

    /// As JSON, in parts that fit a message each. One that is too long becomes a refusal.
    pub(crate) fn into_parts(self) -> Result<Vec<String>, Unusable> {
        let unusable = |error| Unusable::new("outcome of a command", error);
        let mut text = serde_json::to_string(&self).map_err(unusable)?;
        if text.len() > MAX_ANSWER {
            let message = format!(
                "the answer has {} bytes and may have {MAX_ANSWER}: ask for less of it",
                text.len()
            );
            text = serde_json::to_string(&Self::refused("too_large", message)).map_err(unusable)?;
        }
        let mut rest = text.as_str();
        let mut parts = Vec::new();
        while rest.len() > PART {
            let (part, next) = rest.split_at(rest.floor_char_boundary(PART));
            parts.push(part.to_owned());
            rest = next;
        }
        parts.push(rest.to_owned());
        Ok(parts)
    }

    pub(crate) fn from_parts(parts: &[String]) -> Result<Self, Unusable> {
        serde_json::from_str(&parts.concat()).map_err(|error| Unusable::new("outcome of a command", error))
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::wire::{CommandPartReply, CommandReply, Envelope};

    fn done(text: String) -> CommandOutcome {
        CommandOutcome::Done {
            data: Value::from(vec![1.5, 2.0]),
            text,
            failed: false,
        }
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(32))]
        #[test]
        fn an_answer_of_any_length_arrives_whole(text in "[a\u{f40}\"]{1,40}", times in 1..20_000_usize) {
            let outcome = done(text.repeat(times));
            let parts = outcome.clone().into_parts().unwrap();
            prop_assert!(parts.len() <= CommandOutcome::MAX_PARTS as usize);
            for text in &parts {
                let text = text.clone();
                let further = Envelope::seal(&CommandPartReply { text: Some(text.clone()) });
                let first = Envelope::seal(&CommandReply { answer: u64::MAX, parts: u32::MAX, text });
                prop_assert!(first.is_ok() && further.is_ok());
            }
            prop_assert_eq!(CommandOutcome::from_parts(&parts).unwrap(), outcome);
        }
    }

    #[test]
    fn an_answer_that_nobody_would_read_is_refused() {
        let parts = done("x".repeat(MAX_ANSWER)).into_parts().unwrap();
        match CommandOutcome::from_parts(&parts).unwrap() {
            CommandOutcome::Refused { error, message } => {
                assert_eq!(error, "too_large");
                assert!(message.contains("ask for less"), "{message}");
            }
            outcome => panic!("{outcome:?}"),
        }
        assert!(CommandOutcome::from_parts(&parts[..0]).is_err());
    }
}
