//! Requests that are joined: those that come while others are under way go out together after them, so that the cost of a round trip,
//! or of a transaction that waits for the disk, is shared by as many as there are, and one that comes alone waits for nobody.

use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use async_trait::async_trait;
use tokio::sync::oneshot;

use crate::detached;

/// Work that is done for many requests at about the cost of one.
#[async_trait]
pub(super) trait Together: Send + Sync + 'static {
    type Request: Send + 'static;
    type Answer: Send + 'static;
    /// Most requests that are carried out together.
    const MOST: usize;

    /// Carries the requests out, and answers each of them by itself, in their order.
    async fn carry_out(&self, requests: Vec<Self::Request>) -> Vec<Self::Answer>;
}

/// Requests that wait, each with the way back to whoever asks.
type Waiting<T> = Vec<(<T as Together>::Request, oneshot::Sender<<T as Together>::Answer>)>;

/// Entrance to work that is done together.
pub(super) struct Joined<T: Together>(Arc<Shared<T>>);

struct Shared<T: Together> {
    work: T,
    waiting: Mutex<Waiting<T>>,
    /// Held while requests are carried out.
    turn: tokio::sync::Mutex<()>,
}

impl<T: Together> Joined<T> {
    pub(super) fn new(work: T) -> Self {
        Self(Arc::new(Shared {
            work,
            waiting: Mutex::default(),
            turn: tokio::sync::Mutex::default(),
        }))
    }

    /// Carries a request out, with those that wait beside it; `None` if that ended in a panic. It is carried out although the caller
    /// goes away, as others wait for the same transaction.
    pub(super) async fn ask(&self, request: T::Request) -> Option<T::Answer> {
        let (sender, answer) = oneshot::channel();
        self.0.waiting().push((request, sender));
        detached::spawn(self.0.clone().carry_out_waiting());
        answer.await.ok()
    }
}

impl<T: Together> Shared<T> {
    fn waiting(&self) -> MutexGuard<'_, Waiting<T>> {
        // Entries are added and taken whole, so a panic elsewhere leaves none half done.
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Carries out what waits when its turn comes: nothing, if an earlier turn has taken it along.
    async fn carry_out_waiting(self: Arc<Self>) {
        let _turn = self.turn.lock().await;
        let (requests, senders): (Vec<_>, Vec<_>) = {
            let mut waiting = self.waiting();
            let number = waiting.len().min(T::MOST);
            waiting.drain(..number).unzip()
        };
        if requests.is_empty() {
            return;
        }
        let answers = self.work.carry_out(requests).await;
        for (sender, answer) in senders.into_iter().zip(answers) {
            // The caller may have gone away.
            let _ = sender.send(answer);
        }
    }
}

impl<T: Together> fmt::Debug for Joined<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Joined").finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use futures::future::join_all;

    use super::*;

    /// Work that notes what came together, and panics at a zero.
    #[derive(Default)]
    struct Squares(Mutex<Vec<usize>>);

    #[async_trait]
    impl Together for Squares {
        type Request = u32;
        type Answer = u32;
        const MOST: usize = 10;

        async fn carry_out(&self, numbers: Vec<u32>) -> Vec<u32> {
            self.0.lock().unwrap().push(numbers.len());
            tokio::task::yield_now().await;
            assert!(!numbers.contains(&0), "zero");
            numbers.iter().map(|number| number * number).collect()
        }
    }

    #[tokio::test]
    async fn requests_that_come_together_go_together_and_get_an_answer_each() {
        let squares = Joined::new(Squares::default());
        assert_eq!(squares.ask(7).await, Some(49), "one alone waits for nobody");
        let numbers: Vec<u32> = (1..=25).collect();
        let answers = join_all(numbers.iter().map(|number| squares.ask(*number))).await;
        let expected: Vec<Option<u32>> = numbers.iter().map(|number| Some(number * number)).collect();
        assert_eq!(answers, expected);
        assert_eq!(*squares.0.work.0.lock().unwrap(), [1, 10, 10, 5]);
    }

    #[tokio::test]
    async fn a_panic_is_told_to_those_it_met_and_to_nobody_after_them() {
        let squares = Joined::new(Squares::default());
        assert_eq!(join_all([squares.ask(3), squares.ask(0)]).await, [None, None]);
        assert_eq!(squares.ask(3).await, Some(9));
    }

    #[tokio::test]
    async fn whoever_goes_away_takes_no_answer_from_the_others() {
        let squares = Joined::new(Squares::default());
        let mut leaves = Box::pin(squares.ask(2));
        assert!(futures::poll!(&mut leaves).is_pending());
        let stays = squares.ask(3);
        drop(leaves);
        assert_eq!(stays.await, Some(9));
    }
}
