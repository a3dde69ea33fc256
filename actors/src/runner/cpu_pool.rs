use std::fmt;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread;

use crossbeam_channel::{Receiver, Sender};
use tokio::sync::{OwnedSemaphorePermit, Semaphore, oneshot};

use super::item_clock::off_the_clock;
use super::panic_message;
use parkhang_core::domain::ErrorCategory;

/// Limit on given-up closures that still run, for each thread of the pool: each holds its memory and competes for the cores.
const HUNG_PER_THREAD: usize = 4;

/// Pool of threads for blocking work, which the async threads must not do.
///
/// At most as many closures run as the pool has threads; the others wait in their callers. Dropping the future of
/// [`run`](Self::run) frees the place of its closure at once: a blocking call cannot be stopped from outside, so its thread is
/// written off, another one is started instead, and the result of the closure, if it ever returns, is thrown away.
#[derive(Clone)]
pub struct CpuPool {
    jobs: Sender<Job>,
    shared: Arc<Shared>,
}

/// Counts of a pool's threads at one moment.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PoolStats {
    /// Threads that the pool was made with.
    pub threads: usize,
    /// Threads that run a closure somebody waits for.
    pub busy: usize,
    /// Written-off threads whose closure still runs.
    pub hung: usize,
    /// Threads written off since the pool was made.
    pub written_off: usize,
}

/// Reason why a pool returns no result.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum PoolError {
    /// The closure panicked, with this message.
    #[error("the computation panicked: {0}")]
    Panicked(String),
    /// So many given-up closures still run that the pool starts no other.
    #[error(
        "{hung} threads of pool {pool} hang in computations that were given up; no more than {limit} may"
    )]
    TooManyHung { pool: String, hung: usize, limit: usize },
    /// All threads of the pool have ended.
    #[error("no thread of pool {pool} is left")]
    Closed { pool: String },
}

impl PoolError {
    /// The category of the error: a panic lies in the computation, and missing threads in the node, where no other item does better.
    pub const fn category(&self) -> ErrorCategory {
        match self {
            Self::Panicked(_) => ErrorCategory::Runtime,
            Self::TooManyHung { .. } | Self::Closed { .. } => ErrorCategory::Node,
        }
    }
}

/// Flag by which a closure finds out that nobody waits for its result any more.
#[derive(Debug, Clone, Default)]
pub struct CancelFlag(Arc<AtomicBool>);

impl CancelFlag {
    /// Returns whether the closure was given up. One that takes long asks from time to time, and returns early.
    pub fn is_cancelled(&self) -> bool {
        self.0.load(Ordering::Relaxed)
    }
}

/// A computation, which returns the closure that hands its result over.
type Work = Box<dyn FnOnce() -> Box<dyn FnOnce() + Send> + Send>;

struct Job {
    work: Work,
    ticket: Arc<Ticket>,
}

struct Shared {
    name: String,
    threads: usize,
    inbox: Receiver<Job>,
    /// One permit for each thread that is not at work.
    idle: Arc<Semaphore>,
    hung: AtomicUsize,
    written_off: AtomicUsize,
    next_thread: AtomicUsize,
}

impl CpuPool {
    /// Starts a pool of `threads` threads (at least one), which carry `name`.
    ///
    /// # Errors
    ///
    /// When the system gives no thread.
    pub fn new(threads: usize, name: impl Into<String>) -> std::io::Result<Self> {
        let threads = threads.max(1);
        let (jobs, inbox) = crossbeam_channel::unbounded();
        let shared = Arc::new(Shared {
            name: name.into(),
            threads,
            inbox,
            idle: Arc::new(Semaphore::new(threads)),
            hung: AtomicUsize::new(0),
            written_off: AtomicUsize::new(0),
            next_thread: AtomicUsize::new(0),
        });
        for _ in 0..threads {
            spawn_thread(&shared)?;
        }
        Ok(Self { jobs, shared })
    }

    /// Counts the threads as they are now.
    pub fn stats(&self) -> PoolStats {
        PoolStats {
            threads: self.shared.threads,
            busy: self
                .shared
                .threads
                .saturating_sub(self.shared.idle.available_permits()),
            hung: self.shared.hung.load(Ordering::Relaxed),
            written_off: self.shared.written_off.load(Ordering::Relaxed),
        }
    }

    /// Runs `work` on a thread of the pool, once one is free.
    ///
    /// # Errors
    ///
    /// When `work` panics, or when four given-up closures still run for each thread of the pool.
    pub async fn run<T: Send + 'static>(
        &self,
        work: impl FnOnce(&CancelFlag) -> T + Send + 'static,
    ) -> Result<T, PoolError> {
        let closed = || PoolError::Closed {
            pool: self.shared.name.clone(),
        };
        self.refuse_if_hung()?;
        // The wait is here and not in the channel, which never holds more than there are idle threads: a caller that gives up
        // while it waits leaves no thread to be written off, and the clock of its item stands meanwhile.
        let idle = self.shared.idle.clone().acquire_owned();
        let permit = off_the_clock(idle).await.map_err(|_| closed())?;
        // Those ahead in the queue may have been given up in the meantime.
        self.refuse_if_hung()?;
        let (sender, receiver) = oneshot::channel();
        let flag = CancelFlag::default();
        let ticket = Arc::new(Ticket {
            flag: flag.clone(),
            state: Mutex::new(State::Waiting(permit)),
        });
        let guard = Guard {
            shared: self.shared.clone(),
            ticket: ticket.clone(),
        };
        let work: Work = Box::new(move || {
            let result = catch_unwind(AssertUnwindSafe(|| work(&flag)));
            let result = result.map_err(|panic| PoolError::Panicked(panic_message(&*panic)));
            // Handing over is a step of its own, as the thread counts as idle again before the caller sees the result.
            Box::new(move || drop(sender.send(result)))
        });
        self.jobs.send(Job { work, ticket }).map_err(|_| closed())?;
        // Where this future is dropped at the await, the guard gives the job up.
        let result = receiver.await;
        drop(guard);
        result.unwrap_or_else(|_| Err(closed()))
    }

    /// Returns whether the pool takes work.
    ///
    /// # Errors
    ///
    /// [`PoolError::TooManyHung`], as for [`CpuPool::run`].
    pub fn check(&self) -> Result<(), PoolError> {
        self.refuse_if_hung()
    }

    fn refuse_if_hung(&self) -> Result<(), PoolError> {
        let hung = self.shared.hung.load(Ordering::Relaxed);
        let limit = self.shared.threads * HUNG_PER_THREAD;
        if hung < limit {
            return Ok(());
        }
        Err(PoolError::TooManyHung {
            pool: self.shared.name.clone(),
            hung,
            limit,
        })
    }
}

impl fmt::Debug for CpuPool {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("CpuPool")
            .field("name", &self.shared.name)
            .field("stats", &self.stats())
            .finish_non_exhaustive()
    }
}

/// State of a job. The permit of its thread lies in it, so it is returned exactly when the job leaves its thread.
#[derive(Default)]
enum State {
    Waiting(OwnedSemaphorePermit),
    Running(OwnedSemaphorePermit),
    /// Nobody waits any more. `replaced` says that another thread was started in place of the job's.
    GivenUp {
        replaced: bool,
    },
    #[default]
    Finished,
}

struct Ticket {
    flag: CancelFlag,
    state: Mutex<State>,
}

impl Ticket {
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Marks the job as running; false if nobody wants it any more.
    fn begin(&self) -> bool {
        let mut state = self.state();
        match std::mem::take(&mut *state) {
            State::Waiting(permit) => {
                *state = State::Running(permit);
                true
            }
            other => {
                *state = other;
                false
            }
        }
    }
}

/// Guard of a caller that waits; dropped, it gives the job up unless it has finished.
struct Guard {
    shared: Arc<Shared>,
    ticket: Arc<Ticket>,
}

impl Drop for Guard {
    fn drop(&mut self) {
        let mut state = self.ticket.state();
        match std::mem::take(&mut *state) {
            // No thread has begun the job: the permit returns here, and the thread that takes the job passes
            // it over.
            State::Waiting(_) => *state = State::GivenUp { replaced: false },
            State::Running(permit) => {
                // Counted under the lock of the ticket, so that the thread, should it come back now, counts
                // down only after.
                self.shared.hung.fetch_add(1, Ordering::Relaxed);
                self.shared.written_off.fetch_add(1, Ordering::Relaxed);
                let replacement = spawn_thread(&self.shared);
                *state = State::GivenUp {
                    replaced: replacement.is_ok(),
                };
                // With a replacement the permit is returned as it is dropped here: there is an idle thread for it.
                if let Err(error) = replacement {
                    // The pool is a thread short until the written-off one comes back.
                    tracing::error!(pool = self.shared.name, %error, "cannot start a thread to replace one that hangs");
                    permit.forget();
                }
            }
            other => {
                *state = other;
                return;
            }
        }
        self.ticket.flag.0.store(true, Ordering::Relaxed);
    }
}

fn spawn_thread(shared: &Arc<Shared>) -> std::io::Result<()> {
    let number = shared.next_thread.fetch_add(1, Ordering::Relaxed);
    let shared = shared.clone();
    let thread = thread::Builder::new().name(format!("{}-{number}", shared.name));
    thread.spawn(move || work_until_replaced(&shared)).map(drop)
}

fn work_until_replaced(shared: &Shared) {
    while let Ok(Job { work, ticket }) = shared.inbox.recv() {
        if !ticket.begin() {
            continue;
        }
        let hand_over = work();
        match std::mem::take(&mut *ticket.state()) {
            State::GivenUp { replaced } => {
                shared.hung.fetch_sub(1, Ordering::Relaxed);
                if replaced {
                    return;
                }
                // The guard forgot the permit, as it found no thread to take this one's place.
                shared.idle.add_permits(1);
            }
            // The place is free before the caller can see the result.
            finished => drop(finished),
        }
        hand_over();
    }
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc;
    use std::time::Duration;

    use super::*;

    /// Longer than any step here takes; a test that reaches it has failed.
    const LONG: Duration = Duration::from_secs(30);

    /// A closure that says that it has started and ends when told to.
    fn hanging() -> (
        mpsc::Receiver<()>,
        mpsc::Sender<()>,
        impl FnOnce(&CancelFlag) -> bool + Send,
    ) {
        let (started, has_started) = mpsc::channel();
        let (release, released) = mpsc::channel::<()>();
        let work = move |flag: &CancelFlag| {
            started.send(()).unwrap();
            let _ = released.recv();
            flag.is_cancelled()
        };
        (has_started, release, work)
    }

    /// Runs `work` and gives it up once it has started.
    async fn give_up(
        pool: &CpuPool,
        has_started: mpsc::Receiver<()>,
        work: impl FnOnce(&CancelFlag) -> bool + Send + 'static,
    ) {
        let started = tokio::task::spawn_blocking(move || has_started.recv().unwrap());
        tokio::select! {
            _ = pool.run(work) => panic!("the closure hangs"),
            started = started => started.unwrap(),
        }
    }

    /// Rows: F28.
    #[tokio::test]
    async fn results_and_panics_come_back() {
        let pool = CpuPool::new(2, "cpu").unwrap();
        assert_eq!(pool.run(|_| 6 * 7).await, Ok(42));
        let error = pool.run(|_| -> i32 { panic!("page {}", 7) }).await.unwrap_err();
        assert_eq!(error, PoolError::Panicked("page 7".to_owned()));
        for _ in 0..4 {
            assert_eq!(pool.run(|flag| flag.is_cancelled()).await, Ok(false));
        }
        assert_eq!(
            pool.stats(),
            PoolStats {
                threads: 2,
                busy: 0,
                hung: 0,
                written_off: 0
            }
        );
    }

    #[tokio::test]
    async fn a_closure_given_up_frees_its_place_at_once() {
        let pool = CpuPool::new(1, "cpu").unwrap();
        let (has_started, release, work) = hanging();
        let (ended, has_ended) = mpsc::channel();
        let work = move |flag: &CancelFlag| {
            let was_cancelled = work(flag);
            ended.send(was_cancelled).unwrap();
            was_cancelled
        };
        give_up(&pool, has_started, work).await;
        assert_eq!(
            pool.stats(),
            PoolStats {
                threads: 1,
                busy: 0,
                hung: 1,
                written_off: 1
            }
        );
        release.send(()).unwrap();
        assert!(
            has_ended.recv_timeout(LONG).unwrap(),
            "the flag tells the closure"
        );
        while pool.stats().hung > 0 {
            tokio::task::yield_now().await;
        }
        assert_eq!(pool.run(|_| 1).await, Ok(1));
        assert_eq!(
            pool.stats(),
            PoolStats {
                threads: 1,
                busy: 0,
                hung: 0,
                written_off: 1
            }
        );
    }

    /// Rows: 216.
    #[tokio::test]
    async fn the_pool_keeps_its_size_until_too_many_hang() {
        let pool = CpuPool::new(1, "cpu").unwrap();
        let mut releases = Vec::new();
        for hung in 0..HUNG_PER_THREAD {
            assert_eq!(pool.run(move |_| hung).await, Ok(hung));
            let (has_started, release, work) = hanging();
            give_up(&pool, has_started, work).await;
            releases.push(release);
        }
        let error = pool.run(|_| ()).await.unwrap_err();
        assert!(
            matches!(
                error,
                PoolError::TooManyHung {
                    hung: 4,
                    limit: 4,
                    ..
                }
            ),
            "{error}"
        );
        releases.pop();
        while pool.stats().hung == HUNG_PER_THREAD {
            tokio::task::yield_now().await;
        }
        assert_eq!(pool.run(|_| 3).await, Ok(3));
    }

    /// Rows: 187, F28.
    #[tokio::test]
    async fn no_more_closures_run_than_there_are_threads() {
        let pool = CpuPool::new(3, "cpu").unwrap();
        let (running, most) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicUsize::new(0)));
        let jobs = (0..50).map(|_| {
            let (running, most) = (running.clone(), most.clone());
            pool.run(move |_| {
                most.fetch_max(running.fetch_add(1, Ordering::SeqCst) + 1, Ordering::SeqCst);
                thread::yield_now();
                running.fetch_sub(1, Ordering::SeqCst);
            })
        });
        for done in futures::future::join_all(jobs).await {
            done.unwrap();
        }
        assert!((1..=3).contains(&most.load(Ordering::SeqCst)));
    }

    #[tokio::test]
    async fn a_waiting_closure_that_is_given_up_never_runs() {
        let pool = CpuPool::new(1, "cpu").unwrap();
        let (has_started, release, work) = hanging();
        let busy = tokio::spawn({
            let pool = pool.clone();
            async move { pool.run(work).await }
        });
        tokio::task::spawn_blocking(move || has_started.recv().unwrap())
            .await
            .unwrap();
        let ran = Arc::new(AtomicBool::new(false));
        let waiting = pool.run({
            let ran = ran.clone();
            move |_| ran.store(true, Ordering::SeqCst)
        });
        tokio::select! {
            biased;
            _ = waiting => panic!("the only thread is busy"),
            () = std::future::ready(()) => {}
        }
        drop(release);
        assert_eq!(busy.await.unwrap(), Ok(false));
        assert_eq!(pool.run(|_| 1).await, Ok(1));
        assert!(!ran.load(Ordering::SeqCst));
    }
}
