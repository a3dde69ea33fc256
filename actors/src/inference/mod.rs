//! The thread that owns a network. Callers on the async side send small requests through a bounded inbox and await the
//! answer; the thread joins whatever waits into one batch, so that pages and volumes share a device. Forward passes
//! happen nowhere else.
//!
//! A network has a thread of its own, because a forward pass blocks, and neither dropping a future nor killing an actor can
//! stop one that hangs in a driver. Such a thread is left behind ([`Inference::renew`]) and another one takes its requests; as a
//! thread that hangs keeps its memory for good, only a bounded number is left behind before the process has to end. The inbox is
//! bounded, so that a slow device slows down the stages in front of it instead of filling the memory.
//!
//! A pass that fails is judged here, since nobody else has both the inputs and the device: where there is too little memory the
//! batch is halved and the size remembered; where even a known input fails, the device is at fault and no page is blamed. The
//! consequences are drawn elsewhere: the room knows neither pages, stages nor leases, and of networks only the traits of
//! `parkhang_models::inference`, so that it batches any of them, and one of three lines in tests.

mod batch;
mod embedding;
mod layout;
mod print;
mod recognition;
mod segmentation;
#[cfg(test)]
mod testing;

use std::fmt;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Instant;

use chrono::{DateTime, Utc};
use parkhang_models::inference::InferenceError;
use tokio::sync::{mpsc, oneshot};

use self::batch::{as_fault_of_the_device, run_batch, sound};
use crate::telemetry::{BatchInferred, at_step};
use parkhang_core::domain::PageStep;
use parkhang_core::failpoint::Failpoint;

pub use batch::{BatchModel, DeviceMemory};
pub use embedding::EmbeddingThreads;
pub use layout::LayoutThreads;
pub use print::{PictureNetwork, Pictures, PrintThreads};
pub use recognition::LineRecognition;
pub use segmentation::{PageSegmentation, PageTiles};

/// Limit on threads of one network that are alive at once: the one in use, and those left behind in a pass that hangs. Each
/// holds its batch and its stack, and whatever the driver holds for it.
const MAX_THREADS: usize = 8;

struct InferenceRequest<M: BatchModel> {
    input: M::Input,
    reply: oneshot::Sender<Result<M::Output, InferenceError>>,
}

/// Cheap handle on a device thread; the thread ends when the last handle is dropped.
pub struct Inference<M: BatchModel>(Arc<Device<M>>);

struct Device<M: BatchModel> {
    name: String,
    model: Arc<M>,
    memory: DeviceMemory,
    /// Limit on requests that wait.
    capacity: usize,
    /// The thread in use.
    thread: Mutex<Thread<M>>,
    passes: Arc<AtomicU64>,
    renewals: AtomicU64,
    /// Threads that have not ended, those left behind included.
    alive: Arc<AtomicUsize>,
}

/// A thread that owns the network.
struct Thread<M: BatchModel> {
    inbox: mpsc::Sender<InferenceRequest<M>>,
    /// A forward pass is under way.
    busy: Arc<AtomicBool>,
    since: DateTime<Utc>,
}

/// A device thread as it is now.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DeviceStatus {
    pub name: String,
    /// Name of the device, as in `--device`.
    pub device: String,
    /// Requests in its inbox.
    pub waiting: usize,
    /// Limit on requests in its inbox.
    pub capacity: usize,
    /// A forward pass is under way.
    pub busy: bool,
    /// Start of the thread in use.
    pub since: DateTime<Utc>,
    /// Number of times that the thread was replaced.
    pub renewals: u64,
}

impl<M: BatchModel> Clone for Inference<M> {
    fn clone(&self) -> Self {
        Self(self.0.clone())
    }
}

impl<M: BatchModel> fmt::Debug for Inference<M> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Inference")
            .field("passes", &self.passes())
            .finish_non_exhaustive()
    }
}

impl<M: BatchModel> Inference<M> {
    /// Starts the thread. `inbox` bounds the requests that wait; further callers wait to send.
    ///
    /// # Errors
    ///
    /// When the system gives no thread.
    pub fn start(name: &str, model: M, memory: DeviceMemory, inbox: usize) -> std::io::Result<Self> {
        let (model, capacity, passes) = (Arc::new(model), inbox.max(1), Arc::default());
        let alive = Arc::default();
        Ok(Self(Arc::new(Device {
            thread: Mutex::new(spawn(name, &model, &memory, capacity, &passes, &alive)?),
            name: name.to_owned(),
            model,
            memory,
            capacity,
            passes,
            renewals: AtomicU64::new(0),
            alive,
        })))
    }

    /// Leaves the thread behind and starts another one, for a pass that hangs cannot be stopped. Requests that wait for the old
    /// thread are answered when its pass returns, or never; after that it ends.
    ///
    /// # Errors
    ///
    /// When the system gives no thread, or too many were left behind and hang.
    pub fn renew(&self) -> std::io::Result<()> {
        let device = &*self.0;
        let alive = device.alive.load(Ordering::Relaxed);
        if alive >= MAX_THREADS {
            let message = format!(
                "{alive} threads of {} hang; only the end of the process ends them",
                device.name
            );
            return Err(std::io::Error::other(message));
        }
        *self.thread() = spawn(
            &device.name,
            &device.model,
            &device.memory,
            device.capacity,
            &device.passes,
            &device.alive,
        )?;
        device.renewals.fetch_add(1, Ordering::Relaxed);
        Ok(())
    }

    /// Asks the network its probe. Does not return while the thread hangs.
    ///
    /// # Errors
    ///
    /// [`InferenceError::Device`] when the device does not compute, or computes something else than numbers.
    pub async fn check(&self) -> Result<(), InferenceError> {
        let model = &self.0.model;
        let answer = self.infer(model.probe()).await;
        sound(&**model, &answer.map_err(as_fault_of_the_device)?)
    }

    /// Has the network answer `input`, in a batch with whatever else waits.
    ///
    /// # Errors
    ///
    /// The error of the pass: the input's own, or [`InferenceError::Device`] where no input could be answered.
    pub async fn infer(&self, input: M::Input) -> Result<M::Output, InferenceError> {
        at_step(PageStep::Inferring);
        let (reply, answer) = oneshot::channel();
        // Cloned, so that the lock is not held while this waits for room: renewing the thread has to get at it.
        let inbox = self.thread().inbox.clone();
        inbox
            .send(InferenceRequest { input, reply })
            .await
            .map_err(|_| gone())?;
        answer.await.map_err(|_| gone())?
    }

    /// Blocking form of [`infer`](Self::infer), for a thread that may block: never one of the async runtime.
    ///
    /// # Errors
    ///
    /// Those of [`infer`](Self::infer).
    pub fn infer_blocking(&self, input: M::Input) -> Result<M::Output, InferenceError> {
        let (reply, answer) = oneshot::channel();
        let inbox = self.thread().inbox.clone();
        inbox
            .blocking_send(InferenceRequest { input, reply })
            .map_err(|_| gone())?;
        answer.blocking_recv().map_err(|_| gone())?
    }

    /// Forward passes so far; a device that makes progress counts up.
    pub fn passes(&self) -> u64 {
        self.0.passes.load(Ordering::Relaxed)
    }

    /// Describes the device thread as it is now.
    pub fn status(&self) -> DeviceStatus {
        let thread = self.thread();
        DeviceStatus {
            name: self.0.name.clone(),
            device: self.0.memory.network.device.clone(),
            waiting: thread.inbox.max_capacity() - thread.inbox.capacity(),
            capacity: self.0.capacity,
            busy: thread.busy.load(Ordering::Relaxed),
            since: thread.since,
            renewals: self.0.renewals.load(Ordering::Relaxed),
        }
    }

    fn thread(&self) -> MutexGuard<'_, Thread<M>> {
        self.0.thread.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn gone() -> InferenceError {
    InferenceError::Device("its thread has ended".to_owned())
}

fn spawn<M: BatchModel>(
    name: &str,
    model: &Arc<M>,
    memory: &DeviceMemory,
    capacity: usize,
    passes: &Arc<AtomicU64>,
    alive: &Arc<AtomicUsize>,
) -> std::io::Result<Thread<M>> {
    let (inbox, requests) = mpsc::channel(capacity);
    let (network, model, passes) = (name.to_owned(), model.clone(), passes.clone());
    let memory = memory.clone();
    let busy = Arc::new(AtomicBool::new(false));
    let is_busy = busy.clone();
    let counted = Counted::one_more(alive);
    std::thread::Builder::new().name(name.to_owned()).spawn(move || {
        let _counted = counted;
        serve(&network, &*model, &memory, requests, &passes, &is_busy);
    })?;
    Ok(Thread {
        inbox,
        busy,
        since: Utc::now(),
    })
}

/// Guard that counts as one for as long as it lives.
struct Counted(Arc<AtomicUsize>);

impl Counted {
    fn one_more(number: &Arc<AtomicUsize>) -> Self {
        number.fetch_add(1, Ordering::Relaxed);
        Self(number.clone())
    }
}

impl Drop for Counted {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

/// Answers requests until the last handle is dropped. Whatever waits when a pass begins shares it: a lone request is answered
/// at once, and batches grow by themselves while the device is the bottleneck.
fn serve<M: BatchModel>(
    network: &str,
    model: &M,
    memory: &DeviceMemory,
    mut inbox: mpsc::Receiver<InferenceRequest<M>>,
    passes: &AtomicU64,
    busy: &AtomicBool,
) {
    // A channel cannot take a request back, so the one that did not fit into a batch begins the next one.
    let mut held: Option<InferenceRequest<M>> = None;
    loop {
        let Some(first) = held.take().or_else(|| inbox.blocking_recv()) else {
            return;
        };
        let mut weight = model.weight(&first.input);
        let mut batch = vec![first];
        while let Ok(next) = inbox.try_recv() {
            weight += model.weight(&next.input);
            if weight > memory.allowed(model.capacity()) || !model.compatible(&batch[0].input, &next.input) {
                held = Some(next);
                break;
            }
            batch.push(next);
        }
        let (requests, began) = (batch.len(), Instant::now());
        busy.store(true, Ordering::Relaxed);
        Failpoint::DevicePass.pass();
        answer(network, model, memory, batch);
        let took = began.elapsed();
        BatchInferred {
            network,
            requests,
            took,
        }
        .emit();
        passes.fetch_add(1, Ordering::Relaxed);
        busy.store(false, Ordering::Relaxed);
    }
}

fn answer<M: BatchModel>(network: &str, model: &M, memory: &DeviceMemory, batch: Vec<InferenceRequest<M>>) {
    let (inputs, replies): (Vec<_>, Vec<_>) = batch
        .into_iter()
        .map(|request| (request.input, request.reply))
        .unzip();
    let outputs = run_batch(network, model, memory, &inputs);
    for (reply, output) in replies.into_iter().zip(outputs) {
        // A caller that timed out no longer listens; its answer is dropped.
        let _ = reply.send(output);
    }
}

#[cfg(test)]
mod tests;
