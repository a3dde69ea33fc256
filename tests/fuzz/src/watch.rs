//! Ends the process where a target does not return.

use std::process;
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use super::kept;

/// How often it looks.
const LOOK: Duration = Duration::from_secs(1);

/// Input that the target has, and since when.
type AtWork = Arc<Mutex<Option<(Instant, Vec<u8>)>>>;

/// Thread that watches a target; it ends when this is dropped.
pub(crate) struct Watch {
    at_work: AtWork,
    _alive: Sender<()>,
}

impl Watch {
    pub(crate) fn start(name: &'static str, longest: Duration) -> Self {
        let at_work = AtWork::default();
        let (alive, end) = channel();
        let seen = at_work.clone();
        thread::spawn(move || watch(name, longest, &seen, &end));
        Self {
            at_work,
            _alive: alive,
        }
    }

    pub(crate) fn begins(&self, input: &[u8]) {
        self.set(Some((Instant::now(), input.to_vec())));
    }

    pub(crate) fn ends(&self) {
        self.set(None);
    }

    fn set(&self, at_work: Option<(Instant, Vec<u8>)>) {
        *self.at_work.lock().unwrap_or_else(PoisonError::into_inner) = at_work;
    }
}

fn watch(name: &str, longest: Duration, at_work: &AtWork, end: &Receiver<()>) {
    while end.recv_timeout(LOOK) == Err(RecvTimeoutError::Timeout) {
        let at_work = at_work.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some((begin, input)) = &*at_work
            && begin.elapsed() > longest
        {
            // A thread that does not return cannot be ended by itself.
            eprintln!("fuzz {name}: no end after {longest:?}: {}", kept(name, input));
            process::abort();
        }
    }
}
