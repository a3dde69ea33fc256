//! Commands to nodes and their outcomes, as documents.

use super::message::{Command, CommandReply};
use super::translate::Unusable;
use parkhang_core::domain::{CommandOutcome, Epoch, NodeCommand};

impl Command {
    pub(crate) fn new(epoch: Epoch, id: i64, command: &NodeCommand) -> Result<Self, Unusable> {
        let command = serde_json::to_string(command).map_err(|error| Unusable::new("order", error))?;
        Ok(Self { epoch, id, command })
    }

    pub(crate) fn command(&self) -> Result<NodeCommand, Unusable> {
        serde_json::from_str(&self.command).map_err(|error| Unusable::new("order", error))
    }
}

impl CommandReply {
    pub(crate) fn new(outcome: &CommandOutcome) -> Result<Self, Unusable> {
        let outcome =
            serde_json::to_string(outcome).map_err(|error| Unusable::new("outcome of an order", error))?;
        Ok(Self { outcome })
    }

    pub(crate) fn outcome(&self) -> Result<CommandOutcome, Unusable> {
        serde_json::from_str(&self.outcome).map_err(|error| Unusable::new("outcome of an order", error))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_order_that_a_later_release_gives_is_not_taken_for_another() {
        let command = Command {
            epoch: Epoch(1),
            id: 1,
            command: r#"{"order":"dance","actor":"ocr"}"#.to_owned(),
        };
        let error = command.command().unwrap_err().to_string();
        assert!(error.contains("dance"), "{error}");
        let known = Command::new(Epoch(1), 1, &NodeCommand::Drain).unwrap();
        assert_eq!(known.command().unwrap(), NodeCommand::Drain);
        let outcome = CommandOutcome::refused("it is not there");
        assert_eq!(CommandReply::new(&outcome).unwrap().outcome().unwrap(), outcome);
    }
}
