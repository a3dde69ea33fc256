//! Clock of the time that the work on an item takes itself. Waits for what items share (threads, devices, the storage) do not
//! count: these have deadlines of their own, and an item that waits for them is not slow.

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::watch;
use tokio::time::{Instant, sleep_until};

tokio::task_local! {
    static CLOCK: Arc<ItemClock>;
}

/// Awaits `wait` without counting the time against the timeout of the item that this task works on, if it works on one.
pub async fn off_the_clock<T>(wait: impl Future<Output = T>) -> T {
    let Ok(clock) = CLOCK.try_with(Arc::clone) else {
        return wait.await;
    };
    let _pause = Pause::of(clock);
    wait.await
}

/// Stopwatch of one try, which stands while the try waits. A watch channel, since the timeout has to be computed anew with each
/// wait that begins or ends.
#[derive(Debug)]
pub(super) struct ItemClock(watch::Sender<ClockReading>);

#[derive(Debug, Clone, Copy)]
struct ClockReading {
    /// Time counted up to `since`.
    counted: Duration,
    since: Instant,
    /// Waits under way; the clock runs while there is none.
    waits: usize,
}

impl ItemClock {
    pub(super) fn start() -> Arc<Self> {
        Arc::new(Self(watch::Sender::new(ClockReading {
            counted: Duration::ZERO,
            since: Instant::now(),
            waits: 0,
        })))
    }

    /// Runs `work` with this clock as its own.
    pub(super) async fn measure<T>(self: Arc<Self>, work: impl Future<Output = T>) -> T {
        CLOCK.scope(self, work).await
    }

    /// Returns once the work has taken this long.
    pub(super) async fn has_counted(&self, limit: Duration) {
        let mut changes = self.0.subscribe();
        loop {
            let ClockReading {
                counted,
                since,
                waits,
            } = *changes.borrow_and_update();
            let over = async {
                match waits {
                    0 => sleep_until(since + limit.saturating_sub(counted)).await,
                    // The clock stands, and the end of the wait is a change of the reading.
                    _ => std::future::pending().await,
                }
            };
            tokio::select! {
                () = over => return,
                // The sender is this clock.
                _ = changes.changed() => {}
            }
        }
    }

    fn change(&self, waits: impl FnOnce(usize) -> usize) {
        self.0.send_modify(|reading| {
            let now = Instant::now();
            if reading.waits == 0 {
                reading.counted += now - reading.since;
            }
            reading.since = now;
            reading.waits = waits(reading.waits);
        });
    }
}

/// Guard that stops a clock for as long as it lives.
struct Pause(Arc<ItemClock>);

impl Pause {
    fn of(clock: Arc<ItemClock>) -> Self {
        clock.change(|waits| waits + 1);
        Self(clock)
    }
}

impl Drop for Pause {
    fn drop(&mut self) {
        self.0.change(|waits| waits - 1);
    }
}

#[cfg(test)]
mod tests {
    use tokio::time::{sleep, timeout};

    use super::*;

    const LIMIT: Duration = Duration::from_secs(10);

    /// How long it takes until `work` has used up its limit.
    async fn until_over(work: impl Future<Output = ()>) -> Duration {
        let (clock, began) = (ItemClock::start(), Instant::now());
        tokio::select! {
            () = clock.clone().measure(work) => panic!("the work came to its end"),
            () = clock.has_counted(LIMIT) => began.elapsed(),
        }
    }

    #[tokio::test(start_paused = true)]
    async fn only_its_own_time_is_counted() {
        let work = async {
            for _ in 0..4 {
                sleep(Duration::from_secs(3)).await;
                off_the_clock(sleep(Duration::from_secs(100))).await;
            }
        };
        assert_eq!(until_over(work).await, Duration::from_secs(310));
    }

    #[tokio::test(start_paused = true)]
    async fn waits_may_lie_within_each_other_and_be_given_up() {
        let work = async {
            off_the_clock(off_the_clock(sleep(Duration::from_secs(50)))).await;
            let given_up = off_the_clock(std::future::pending::<()>());
            timeout(Duration::from_secs(50), given_up).await.unwrap_err();
            sleep(Duration::from_secs(100)).await;
        };
        assert_eq!(until_over(work).await, Duration::from_secs(110));
    }

    #[tokio::test]
    async fn without_a_clock_a_wait_is_a_wait() {
        assert_eq!(off_the_clock(async { 7 }).await, 7);
    }
}
