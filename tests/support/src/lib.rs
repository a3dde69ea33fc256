//! Parts that the tests of all crates share: waiting for what another thread, task or process brings about, and the comparison of
//! generated pages of the documentation.
//!
//! A loop without a pause takes the processor from what it waits for, and one without an end hides a hang. [`Wait`] pauses between
//! looks, gives up in the end, and says then what it waited for and what it saw last.

#![allow(clippy::panic, reason = "test code fails by panicking")]

mod documented;

use std::fmt::{self, Debug};
use std::panic::Location;
use std::thread;
use std::time::{Duration, Instant};

pub use documented::assert_documented;

/// Longest wait, unless [`Wait::at_most`] says otherwise: several times what a busy machine of two cores needs to start a process.
pub const TIMEOUT: Duration = Duration::from_secs(60);

const FIRST_PAUSE: Duration = Duration::from_millis(20);
const LONGEST_PAUSE: Duration = Duration::from_millis(200);

/// A wait that has yet to begin: `Wait::until("the worker is known").sees(|| nodes(), |nodes| nodes.contains(&name))`.
#[derive(Debug, Clone)]
#[must_use]
pub struct Wait<'a> {
    what: &'a str,
    place: &'static Location<'static>,
    timeout: Duration,
    pause: Duration,
    longest_pause: Duration,
}

impl<'a> Wait<'a> {
    /// A wait for `what`, which goes on with "until" in the message of its failure.
    #[track_caller]
    pub fn until(what: &'a str) -> Self {
        Self {
            what,
            place: Location::caller(),
            timeout: TIMEOUT,
            pause: FIRST_PAUSE,
            longest_pause: LONGEST_PAUSE,
        }
    }

    pub fn at_most(self, timeout: Duration) -> Self {
        Self { timeout, ..self }
    }

    /// Equal pauses instead of growing ones, for a state that soon passes.
    pub fn looking_every(self, pause: Duration) -> Self {
        Self {
            pause,
            longest_pause: pause,
            ..self
        }
    }

    /// Looks until what it sees is so, and returns that.
    ///
    /// # Panics
    ///
    /// When the time is over.
    pub fn sees<S: Debug>(self, mut look: impl FnMut() -> S, is_so: impl Fn(&S) -> bool) -> S {
        let mut pauses = Pauses::of(&self);
        loop {
            let seen = look();
            if is_so(&seen) {
                return seen;
            }
            match pauses.next() {
                Some(pause) => thread::sleep(pause),
                None => panic!("{}", self.gives_up(&seen)),
            }
        }
    }

    /// The same among tasks. It pauses in real time, also where the test has paused the clock, which stands still meanwhile.
    ///
    /// # Panics
    ///
    /// When the time is over.
    pub async fn sees_async<S: Debug>(self, look: impl AsyncFnMut() -> S, is_so: impl Fn(&S) -> bool) -> S {
        match self.try_sees(look, is_so).await {
            Ok(seen) => seen,
            Err(error) => panic!("{error}"),
        }
    }

    /// As [`Wait::sees_async`], for a test that knows more to say of a failure.
    ///
    /// # Errors
    ///
    /// When the time is over.
    pub async fn try_sees<S: Debug>(
        self,
        mut look: impl AsyncFnMut() -> S,
        is_so: impl Fn(&S) -> bool,
    ) -> Result<S, WaitedTooLong> {
        let mut pauses = Pauses::of(&self);
        loop {
            let seen = look().await;
            if is_so(&seen) {
                return Ok(seen);
            }
            let Some(pause) = pauses.next() else {
                return Err(self.gives_up(&seen));
            };
            // Only a runtime that is shut down drops the pause, and with it this wait.
            let _ = tokio::task::spawn_blocking(move || thread::sleep(pause)).await;
        }
    }

    fn gives_up(&self, last: &impl Debug) -> WaitedTooLong {
        WaitedTooLong(format!(
            "{}: waited {:?} until {}; seen last: {last:?}",
            self.place, self.timeout, self.what
        ))
    }
}

/// Failure of a wait: its place in the source, what it waited for, and what it saw last.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct WaitedTooLong(String);

impl fmt::Display for WaitedTooLong {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for WaitedTooLong {}

/// The pauses of a wait; none after its deadline.
struct Pauses {
    deadline: Instant,
    next: Duration,
    longest: Duration,
}

impl Pauses {
    fn of(wait: &Wait) -> Self {
        Self {
            deadline: Instant::now() + wait.timeout,
            next: wait.pause,
            longest: wait.longest_pause,
        }
    }

    fn next(&mut self) -> Option<Duration> {
        let left = self.deadline.saturating_duration_since(Instant::now());
        let pause = self.next;
        self.next = (pause * 2).min(self.longest);
        (!left.is_zero()).then(|| pause.min(left))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_seen_is_returned() {
        let mut looks = 0;
        let look = || {
            looks += 1;
            looks
        };
        assert_eq!(Wait::until("it is three").sees(look, |seen| *seen == 3), 3);
    }

    #[test]
    fn pauses_grow_to_their_limit_and_end_at_the_deadline() {
        let mut pauses = Pauses::of(&Wait::until("never"));
        let some: Vec<u128> = (0..6)
            .filter_map(|_| pauses.next())
            .map(|pause| pause.as_millis())
            .collect();
        assert_eq!(some, [20, 40, 80, 160, 200, 200]);
        let every = Wait::until("never").looking_every(Duration::from_millis(5));
        let mut pauses = Pauses::of(&every);
        assert_eq!(pauses.next(), pauses.next());
        let mut pauses = Pauses::of(&Wait::until("never").at_most(Duration::ZERO));
        assert_eq!(pauses.next(), None);
    }

    #[tokio::test(start_paused = true)]
    async fn a_failure_names_what_was_awaited_and_what_was_seen() {
        let begin = tokio::time::Instant::now();
        let wait = Wait::until("it is even").at_most(Duration::from_millis(30));
        let error = wait
            .try_sees(async || 7, |seen| seen % 2 == 0)
            .await
            .unwrap_err()
            .to_string();
        assert!(error.contains("src/lib.rs:"), "{error}");
        assert!(
            error.ends_with("waited 30ms until it is even; seen last: 7"),
            "{error}"
        );
        assert_eq!(begin.elapsed(), Duration::ZERO, "paused time stands still");
    }
}
