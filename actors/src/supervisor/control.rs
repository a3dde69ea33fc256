use std::collections::VecDeque;
use std::fmt;
use std::sync::{Arc, OnceLock};

use async_trait::async_trait;
use tokio::sync::Mutex;

use parkhang_core::domain::{ActorRecord, CommandOutcome, NodeCommand};

/// Limit on outcomes that are remembered, for commands that are sent again.
const REMEMBERED: usize = 64;

/// A node as operators see it: its actors, and the commands that it takes.
#[async_trait]
pub trait NodeControl: Send + Sync + fmt::Debug {
    /// Describes the node's actors, parents before their children.
    async fn actors(&self) -> Vec<ActorRecord>;

    /// Carries the command out; returns when that is done, or has begun where it takes long.
    async fn carry_out(&self, command: NodeCommand) -> CommandOutcome;
}

/// Carries each order out once, however often it is sent: the leader repeats a command until it has the answer, which may have
/// been lost. Clones share the outcomes that they remember.
#[derive(Debug, Clone, Default)]
pub struct IdempotentExecutor(Arc<Book>);

#[derive(Debug, Default)]
struct Book {
    control: OnceLock<Arc<dyn NodeControl>>,
    answered: Mutex<VecDeque<(i64, CommandOutcome)>>,
}

impl IdempotentExecutor {
    /// Lets `control` answer from now on. To be called once; until then there are no actors, and every order is refused.
    pub fn open(&self, control: Arc<dyn NodeControl>) {
        // Fails where it was called before: the first control stays.
        let _ = self.0.control.set(control);
    }

    /// Describes the node's actors; none before the node has started.
    pub async fn actors(&self) -> Vec<ActorRecord> {
        match self.0.control.get() {
            Some(control) => control.actors().await,
            None => Vec::new(),
        }
    }

    /// Carries out a command, one after the other; one that is sent again gets the answer that it had.
    pub async fn carry_out(&self, id: i64, command: NodeCommand) -> CommandOutcome {
        let Some(control) = self.0.control.get() else {
            return CommandOutcome::refused("the node has not started yet");
        };
        // Held until the command is carried out: the same order, sent again meanwhile, waits for the outcome of the first.
        let mut answered = self.0.answered.lock().await;
        if let Some((_, outcome)) = answered.iter().find(|(known, _)| *known == id) {
            return outcome.clone();
        }
        let outcome = control.carry_out(command).await;
        if answered.len() == REMEMBERED {
            answered.pop_front();
        }
        answered.push_back((id, outcome.clone()));
        outcome
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicU64, Ordering};

    use super::*;

    #[derive(Debug, Default)]
    struct Counting(AtomicU64);

    #[async_trait]
    impl NodeControl for Counting {
        async fn actors(&self) -> Vec<ActorRecord> {
            Vec::new()
        }

        async fn carry_out(&self, _: NodeCommand) -> CommandOutcome {
            let before = self.0.fetch_add(1, Ordering::Relaxed);
            tokio::task::yield_now().await;
            CommandOutcome::done(before.to_string())
        }
    }

    #[tokio::test]
    async fn an_order_that_is_sent_again_is_carried_out_once() {
        let (book, control) = (IdempotentExecutor::default(), Arc::new(Counting::default()));
        assert!(matches!(
            book.carry_out(1, NodeCommand::Drain).await,
            CommandOutcome::Refused { .. }
        ));
        book.open(control.clone());
        let twice = tokio::join!(
            book.carry_out(7, NodeCommand::Drain),
            book.carry_out(7, NodeCommand::Drain)
        );
        assert_eq!(twice, (CommandOutcome::done("0"), CommandOutcome::done("0")));
        assert_eq!(
            book.carry_out(8, NodeCommand::Drain).await,
            CommandOutcome::done("1")
        );
        assert_eq!(control.0.load(Ordering::Relaxed), 2);
    }
}
