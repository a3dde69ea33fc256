//! The one place where the PDF library is called. It is somebody else's code on untrusted bytes: it may panic, recurse deeply, or
//! never return. So each call runs on a thread of its own with a large stack, its panics are caught, and after its time the thread is
//! given up. The thread of a given-up call ends at the next sign of life that it looks at its [`Watch`]; if it never does, it is
//! counted, and only so many may hang, and fewer of one document.

use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::Arc;
use std::sync::atomic::{AtomicU8, AtomicUsize, Ordering};
use std::sync::mpsc::{RecvTimeoutError, sync_channel};
use std::thread;
use std::time::Duration;

use crate::PdfError;

/// Address space of a stack; pages of it are used only as the calls get deep. Deeper recursion than the library's own limits allow
/// would end the process, so the stack is much larger than these need.
const STACK: usize = 256 << 20;
/// Given-up calls that may still run; each holds memory and competes for the cores.
const MOST_HUNG: usize = 16;
/// Given-up calls that may still run of one document: it is refused before others are.
const MOST_HUNG_OF_ONE: usize = 4;

static HUNG: AtomicUsize = AtomicUsize::new(0);

/// Number of given-up calls of a document that still run.
#[derive(Debug, Clone, Default)]
pub(crate) struct Hung(Arc<AtomicUsize>);

impl Hung {
    fn add(&self) {
        HUNG.fetch_add(1, Ordering::Relaxed);
        self.0.fetch_add(1, Ordering::Relaxed);
    }

    fn remove(&self) {
        HUNG.fetch_sub(1, Ordering::Relaxed);
        self.0.fetch_sub(1, Ordering::Relaxed);
    }

    /// Checks that another thread may be started for the document.
    fn check(&self) -> Result<(), PdfError> {
        let threads = self.0.load(Ordering::Relaxed);
        if threads >= MOST_HUNG_OF_ONE {
            return Err(PdfError::Hangs { threads });
        }
        let threads = HUNG.load(Ordering::Relaxed);
        if threads >= MOST_HUNG {
            return Err(PdfError::Busy { threads });
        }
        Ok(())
    }
}

/// States of a call: somebody waits for it, nobody does, or it has ended.
const AWAITED: u8 = 0;
const GIVEN_UP: u8 = 1;
const ENDED: u8 = 2;

/// Sign by which a running call learns that nobody waits for it any more.
#[derive(Debug, Clone)]
pub(crate) struct Watch {
    state: Arc<AtomicU8>,
}

/// Payload of the unwinding that ends a call before its end.
struct Stop(PdfError);

impl Watch {
    /// Ends the call if it was given up. The library has no way to be told, so the stack is unwound.
    pub(crate) fn check(&self) {
        if self.state.load(Ordering::Relaxed) == GIVEN_UP {
            Self::stop(PdfError::TimedOut { seconds: 0 });
        }
    }

    /// Ends the call with this error, from within the library.
    pub(crate) fn stop(error: PdfError) -> ! {
        // Without the panic hook: this is no fault of the program.
        resume_unwind(Box::new(Stop(error)))
    }
}

/// Runs a call into the library about a document, for `time` at most.
///
/// # Errors
///
/// That of the call, [`PdfError::Damaged`] if it panicked, [`PdfError::TimedOut`], [`PdfError::Hangs`], [`PdfError::Busy`],
/// [`PdfError::NoThread`].
pub(crate) fn guarded<T: Send + 'static>(
    time: Duration,
    hung: &Hung,
    call: impl FnOnce(&Watch) -> Result<T, PdfError> + Send + 'static,
) -> Result<T, PdfError> {
    hung.check()?;
    let watch = Watch {
        state: Arc::new(AtomicU8::new(AWAITED)),
    };
    let (sender, receiver) = sync_channel(1);
    let (inner, of_thread) = (watch.clone(), hung.clone());
    let started = thread::Builder::new()
        .name("pdf".to_owned())
        .stack_size(STACK)
        .spawn(move || {
            let result = catch_unwind(AssertUnwindSafe(|| call(&inner)));
            let result = result.unwrap_or_else(|payload| Err(refusal(&*payload)));
            if inner.state.swap(ENDED, Ordering::AcqRel) == GIVEN_UP {
                of_thread.remove();
            } else {
                // Whoever waits has a place for one result, so this does not block; that nobody waits cannot be here.
                let _ = sender.send(result);
            }
        });
    if let Err(error) = started {
        return Err(PdfError::NoThread {
            reason: error.to_string(),
        });
    }
    let gone = || Err(PdfError::damaged("its thread ended without a result"));
    match receiver.recv_timeout(time) {
        Ok(result) => result,
        Err(RecvTimeoutError::Disconnected) => gone(),
        Err(RecvTimeoutError::Timeout) => {
            hung.add();
            let given_up =
                watch
                    .state
                    .compare_exchange(AWAITED, GIVEN_UP, Ordering::AcqRel, Ordering::Acquire);
            if given_up.is_ok() {
                let seconds = time.as_secs();
                return Err(PdfError::TimedOut { seconds });
            }
            // It ended at this moment, and its result is on the way.
            hung.remove();
            receiver.recv().unwrap_or_else(|_| gone())
        }
    }
}

fn refusal(payload: &(dyn std::any::Any + Send)) -> PdfError {
    if let Some(Stop(error)) = payload.downcast_ref::<Stop>() {
        return error.clone();
    }
    let message = payload
        .downcast_ref::<&str>()
        .map(|message| (*message).to_owned())
        .or_else(|| payload.downcast_ref::<String>().cloned());
    PdfError::damaged(format!(
        "the reader failed: {}",
        message.as_deref().unwrap_or("without a message")
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_panic_is_an_error_of_the_document() {
        let error = guarded::<()>(Duration::from_secs(5), &Hung::default(), |_| {
            panic!("out of range")
        })
        .unwrap_err();
        assert_eq!(error, PdfError::damaged("the reader failed: out of range"));
    }

    #[test]
    fn a_call_that_does_not_end_is_given_up_and_its_thread_ends() {
        let (ended, end) = sync_channel::<()>(1);
        let error = guarded::<()>(Duration::from_millis(20), &Hung::default(), move |watch| {
            let _ended = ended;
            loop {
                watch.check();
            }
        })
        .unwrap_err();
        assert!(matches!(error, PdfError::TimedOut { .. }), "{error}");
        assert_eq!(
            end.recv_timeout(Duration::from_secs(20)),
            Err(RecvTimeoutError::Disconnected)
        );
    }

    #[test]
    fn a_document_is_refused_before_others_are() {
        let (slow, other) = (Hung::default(), Hung::default());
        let mut ends = Vec::new();
        let mut hangs = || {
            let (end, ended) = sync_channel::<()>(1);
            ends.push(end);
            guarded::<()>(Duration::from_millis(1), &slow, move |_| {
                let _ = ended.recv();
                Ok(())
            })
        };
        for _ in 0..MOST_HUNG_OF_ONE {
            assert!(matches!(hangs(), Err(PdfError::TimedOut { .. })));
        }
        assert_eq!(
            hangs(),
            Err(PdfError::Hangs {
                threads: MOST_HUNG_OF_ONE
            })
        );
        assert_eq!(guarded(Duration::from_secs(20), &other, |_| Ok(7)), Ok(7));
        drop(ends);
    }

    #[test]
    fn deep_recursion_has_room() {
        fn depth(left: u32) -> u32 {
            let frame = std::hint::black_box([0_u8; 1024]);
            if left == 0 {
                u32::from(frame[0])
            } else {
                1 + depth(left - 1)
            }
        }
        assert_eq!(
            guarded(Duration::from_secs(20), &Hung::default(), |_| Ok(depth(50_000))),
            Ok(50_000)
        );
    }
}
