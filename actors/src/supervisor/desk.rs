use std::collections::VecDeque;
use std::fmt;
use std::sync::{Arc, OnceLock};

use async_trait::async_trait;
use tokio::sync::Mutex;

use parkhang_core::domain::{ActorRecord, NodeOrder, OrderOutcome};

/// Limit on outcomes that are remembered, for orders that are sent again.
const REMEMBERED: usize = 64;

/// A node as operators see it: its actors, and the orders that it takes.
#[async_trait]
pub trait NodeDesk: Send + Sync + fmt::Debug {
    /// Describes the node's actors, parents before their children.
    async fn actors(&self) -> Vec<ActorRecord>;

    /// Carries the order out; returns when that is done, or has begun where it takes long.
    async fn carry_out(&self, order: NodeOrder) -> OrderOutcome;
}

/// Carries each order out once, however often it is sent: the leader repeats an order until it has the answer, which may have
/// been lost. Clones share the outcomes that they remember.
#[derive(Debug, Clone, Default)]
pub struct OrderBook(Arc<Book>);

#[derive(Debug, Default)]
struct Book {
    desk: OnceLock<Arc<dyn NodeDesk>>,
    answered: Mutex<VecDeque<(i64, OrderOutcome)>>,
}

impl OrderBook {
    /// Lets `desk` answer from now on. To be called once; until then there are no actors, and every order is refused.
    pub fn open(&self, desk: Arc<dyn NodeDesk>) {
        // Fails where it was called before: the first desk stays.
        let _ = self.0.desk.set(desk);
    }

    /// Describes the node's actors; none before the node has started.
    pub async fn actors(&self) -> Vec<ActorRecord> {
        match self.0.desk.get() {
            Some(desk) => desk.actors().await,
            None => Vec::new(),
        }
    }

    /// Carries out an order, one after the other; one that is sent again gets the answer that it had.
    pub async fn carry_out(&self, id: i64, order: NodeOrder) -> OrderOutcome {
        let Some(desk) = self.0.desk.get() else {
            return OrderOutcome::refused("the node has not started yet");
        };
        // Held until the order is carried out: the same order, sent again meanwhile, waits for the outcome of the first.
        let mut answered = self.0.answered.lock().await;
        if let Some((_, outcome)) = answered.iter().find(|(known, _)| *known == id) {
            return outcome.clone();
        }
        let outcome = desk.carry_out(order).await;
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
    impl NodeDesk for Counting {
        async fn actors(&self) -> Vec<ActorRecord> {
            Vec::new()
        }

        async fn carry_out(&self, _: NodeOrder) -> OrderOutcome {
            let before = self.0.fetch_add(1, Ordering::Relaxed);
            tokio::task::yield_now().await;
            OrderOutcome::done(before.to_string())
        }
    }

    #[tokio::test]
    async fn an_order_that_is_sent_again_is_carried_out_once() {
        let (book, desk) = (OrderBook::default(), Arc::new(Counting::default()));
        assert!(matches!(
            book.carry_out(1, NodeOrder::Drain).await,
            OrderOutcome::Refused { .. }
        ));
        book.open(desk.clone());
        let twice = tokio::join!(
            book.carry_out(7, NodeOrder::Drain),
            book.carry_out(7, NodeOrder::Drain)
        );
        assert_eq!(twice, (OrderOutcome::done("0"), OrderOutcome::done("0")));
        assert_eq!(book.carry_out(8, NodeOrder::Drain).await, OrderOutcome::done("1"));
        assert_eq!(desk.0.load(Ordering::Relaxed), 2);
    }
}
