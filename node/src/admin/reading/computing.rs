//! Turns of what commands compute about the lines of pages.

use std::sync::Arc;

use tokio::sync::Semaphore;

/// Number of computations at once. The others wait, so that whoever asks for many takes no more of the machine than this.
const AT_ONCE: usize = 2;

/// Computations on threads that may be kept for long.
#[derive(Debug)]
pub(super) struct Computing {
    turns: Arc<Semaphore>,
}

impl Default for Computing {
    fn default() -> Self {
        Self {
            turns: Arc::new(Semaphore::new(AT_ONCE)),
        }
    }
}

impl Computing {
    /// Computes something in its turn. Nothing ends a computation from outside, so it keeps its turn where nobody waits for it any more.
    ///
    /// # Errors
    ///
    /// If it panics.
    pub(super) async fn run<T: Send + 'static>(
        &self,
        work: impl FnOnce() -> T + Send + 'static,
    ) -> anyhow::Result<T> {
        let turn = self.turns.clone().acquire_owned().await?;
        let computed = tokio::task::spawn_blocking(move || {
            let _turn = turn;
            work()
        });
        Ok(computed.await?)
    }
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc::sync_channel;

    use futures::FutureExt;

    use super::*;

    #[tokio::test]
    async fn the_async_threads_go_on_and_a_turn_ends_with_its_work() {
        let computing = Computing::default();
        let mut ends = Vec::new();
        for _ in 0..AT_ONCE {
            let (begun, begins) = tokio::sync::oneshot::channel();
            let (end, ended) = sync_channel::<()>(1);
            let work = computing.run(move || {
                let _ = begun.send(());
                let _ = ended.recv();
            });
            // The test has one thread, which a computation on it would keep for ever. Then nobody waits for the work any more.
            tokio::select! {
                _ = work => unreachable!("the work ends later"),
                begun = begins => begun.unwrap(),
            }
            ends.push(end);
        }
        let next = computing.run(|| 7);
        tokio::pin!(next);
        assert!(
            next.as_mut().now_or_never().is_none(),
            "work that goes on has lost its turn"
        );
        drop(ends);
        assert_eq!(next.await.unwrap(), 7);
    }

    #[tokio::test]
    async fn a_panic_is_an_error_and_gives_the_turn_back() {
        let computing = Computing::default();
        for _ in 0..=AT_ONCE {
            computing.run(|| panic!("no such line")).await.unwrap_err();
        }
    }
}
