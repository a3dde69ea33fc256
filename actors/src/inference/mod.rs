//! The thread that owns a network. Callers on the async side send small requests through a bounded inbox and await the
//! answer; the thread joins whatever waits into one batch, so that pages and volumes share a device. Forward passes
//! happen nowhere else.

mod recognition;
mod segmentation;

use std::fmt;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Instant;

use chrono::{DateTime, Utc};
use parkhang_models::inference::InferenceError;
use tokio::sync::{mpsc, oneshot};

use crate::domain::PageStep;
use crate::failpoint::Failpoint;
use crate::policy::batch_size::{BatchSizes, NetworkOnDevice};
use crate::telemetry::{BatchHalved, BatchInferred, at_step};

pub use recognition::LineRecognition;
pub use segmentation::{PageSegmentation, PageTiles};

/// A network seen as a batch job: which requests may share a forward pass, and the pass itself.
pub trait BatchModel: Send + Sync + 'static {
    type Input: Send + 'static;
    type Output: Send + 'static;

    /// Cost of a request, in the unit of [`BatchModel::capacity`].
    fn weight(&self, input: &Self::Input) -> usize;

    /// Largest total weight of one forward pass. A heavier single request still goes, alone.
    fn capacity(&self) -> usize;

    fn compatible(&self, first: &Self::Input, other: &Self::Input) -> bool;

    /// The least weight that can go through the network at once, as part of these inputs.
    fn smallest(&self, inputs: &[Self::Input]) -> usize;

    /// One answer per input, in order. No more than `limit` goes through the network at once, or the smallest part if that
    /// is more: an input heavier than that goes in parts.
    fn run(&self, inputs: &[Self::Input], limit: usize) -> Result<Vec<Self::Output>, InferenceError>;
}

/// The device that a network is on, and what is known of its memory. Clones share what they learn.
#[derive(Debug, Clone)]
pub struct DeviceMemory {
    pub network: NetworkOnDevice,
    pub sizes: Arc<Mutex<BatchSizes>>,
}

impl DeviceMemory {
    fn allowed(&self, capacity: usize) -> usize {
        self.sizes().allowed(&self.network, capacity)
    }

    fn out_of_memory(&self, tried: usize, smallest: usize) -> Option<usize> {
        self.sizes().out_of_memory(&self.network, tried, smallest)
    }

    fn sizes(&self) -> MutexGuard<'_, BatchSizes> {
        self.sizes.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

struct Request<M: BatchModel> {
    input: M::Input,
    reply: oneshot::Sender<Result<M::Output, InferenceError>>,
}

/// A cheap handle on a device thread; the thread ends when the last handle is dropped.
pub struct Inference<M: BatchModel>(Arc<Device<M>>);

struct Device<M: BatchModel> {
    name: String,
    model: Arc<M>,
    memory: DeviceMemory,
    /// Requests that wait at most.
    capacity: usize,
    /// The one in use.
    thread: Mutex<Thread<M>>,
    passes: Arc<AtomicU64>,
    renewals: AtomicU64,
}

/// A thread that owns the network.
struct Thread<M: BatchModel> {
    inbox: mpsc::Sender<Request<M>>,
    /// A forward pass is under way.
    busy: Arc<AtomicBool>,
    since: DateTime<Utc>,
}

/// A device thread as it is now.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DeviceStanding {
    pub name: String,
    /// Requests in its inbox, and how many there may be.
    pub waiting: usize,
    pub capacity: usize,
    pub busy: bool,
    pub since: DateTime<Utc>,
    /// How often another thread has taken the place of one.
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
    pub fn start(name: &str, model: M, memory: DeviceMemory, inbox: usize) -> std::io::Result<Self> {
        let (model, capacity, passes) = (Arc::new(model), inbox.max(1), Arc::default());
        Ok(Self(Arc::new(Device {
            thread: Mutex::new(spawn(name, &model, &memory, capacity, &passes)?),
            name: name.to_owned(),
            model,
            memory,
            capacity,
            passes,
            renewals: AtomicU64::new(0),
        })))
    }

    /// Leaves the thread to itself and starts another one, for a pass that hangs cannot be stopped. What waits for the old
    /// thread is answered when it comes back, or never; if it does come back, it ends.
    pub fn renew(&self) -> std::io::Result<()> {
        let device = &*self.0;
        *self.thread() = spawn(
            &device.name,
            &device.model,
            &device.memory,
            device.capacity,
            &device.passes,
        )?;
        device.renewals.fetch_add(1, Ordering::Relaxed);
        Ok(())
    }

    pub async fn infer(&self, input: M::Input) -> Result<M::Output, InferenceError> {
        at_step(PageStep::Inferring);
        let gone = || InferenceError::Failed("the device thread has ended".to_owned());
        let (reply, answer) = oneshot::channel();
        let inbox = self.thread().inbox.clone();
        inbox.send(Request { input, reply }).await.map_err(|_| gone())?;
        answer.await.map_err(|_| gone())?
    }

    /// Forward passes so far: a device that makes progress counts up.
    pub fn passes(&self) -> u64 {
        self.0.passes.load(Ordering::Relaxed)
    }

    pub fn standing(&self) -> DeviceStanding {
        let thread = self.thread();
        DeviceStanding {
            name: self.0.name.clone(),
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

fn spawn<M: BatchModel>(
    name: &str,
    model: &Arc<M>,
    memory: &DeviceMemory,
    capacity: usize,
    passes: &Arc<AtomicU64>,
) -> std::io::Result<Thread<M>> {
    let (inbox, requests) = mpsc::channel(capacity);
    let (network, model, passes) = (name.to_owned(), model.clone(), passes.clone());
    let memory = memory.clone();
    let busy = Arc::new(AtomicBool::new(false));
    let is_busy = busy.clone();
    std::thread::Builder::new()
        .name(name.to_owned())
        .spawn(move || serve(&network, &*model, &memory, requests, &passes, &is_busy))?;
    Ok(Thread {
        inbox,
        busy,
        since: Utc::now(),
    })
}

fn serve<M: BatchModel>(
    network: &str,
    model: &M,
    memory: &DeviceMemory,
    mut inbox: mpsc::Receiver<Request<M>>,
    passes: &AtomicU64,
    busy: &AtomicBool,
) {
    let mut held: Option<Request<M>> = None;
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

fn answer<M: BatchModel>(network: &str, model: &M, memory: &DeviceMemory, batch: Vec<Request<M>>) {
    let (inputs, replies): (Vec<_>, Vec<_>) = batch
        .into_iter()
        .map(|request| (request.input, request.reply))
        .unzip();
    let outputs = run_halving(network, model, memory, &inputs);
    for (reply, output) in replies.into_iter().zip(outputs) {
        // A caller that timed out no longer listens; its answer is dropped.
        let _ = reply.send(output);
    }
}

/// Runs the batch; where the device runs out of memory, with half as much of it at once, and so with all batches from then
/// on.
fn run_halving<M: BatchModel>(
    network: &str,
    model: &M,
    memory: &DeviceMemory,
    inputs: &[M::Input],
) -> Vec<Result<M::Output, InferenceError>> {
    let weight: usize = inputs.iter().map(|input| model.weight(input)).sum();
    let mut limit = memory.allowed(weight);
    let failure = loop {
        match model.run(inputs, limit) {
            Ok(outputs) if outputs.len() == inputs.len() => return outputs.into_iter().map(Ok).collect(),
            Ok(outputs) => {
                let message = format!("network answered {} of {} requests", outputs.len(), inputs.len());
                break InferenceError::Failed(message);
            }
            Err(InferenceError::OutOfMemory(message)) => {
                match memory.out_of_memory(limit, model.smallest(inputs)) {
                    Some(next) => limit = next,
                    None => break InferenceError::OutOfMemory(message),
                }
                BatchHalved { network, limit }.emit();
            }
            Err(error) => break error,
        }
    };
    inputs.iter().map(|_| Err(failure.clone())).collect()
}

#[cfg(test)]
mod tests {
    use futures::FutureExt;
    use futures::future::join_all;

    use super::*;

    /// Doubles numbers; a pass of more than `memory` of them does not fit the device.
    struct Doubling {
        memory: usize,
    }

    impl BatchModel for Doubling {
        type Input = u32;
        type Output = u32;

        fn weight(&self, _: &u32) -> usize {
            1
        }

        fn capacity(&self) -> usize {
            8
        }

        fn compatible(&self, first: &u32, other: &u32) -> bool {
            first % 2 == other % 2
        }

        fn smallest(&self, _: &[u32]) -> usize {
            1
        }

        fn run(&self, inputs: &[u32], limit: usize) -> Result<Vec<u32>, InferenceError> {
            assert!(
                inputs.iter().all(|n| n % 2 == inputs[0] % 2),
                "incompatible requests in one pass"
            );
            if inputs.len().min(limit) > self.memory {
                return Err(InferenceError::OutOfMemory("full".into()));
            }
            Ok(inputs.iter().map(|n| n * 2).collect())
        }
    }

    fn memory() -> DeviceMemory {
        DeviceMemory {
            network: NetworkOnDevice {
                model: "doubling".to_owned(),
                device: "cpu".to_owned(),
            },
            sizes: Arc::default(),
        }
    }

    #[tokio::test]
    async fn every_caller_gets_its_own_answer() {
        let inference = Inference::start("doubling", Doubling { memory: 8 }, memory(), 4).unwrap();
        let answers = join_all((0..50).map(|n| inference.infer(n))).await;
        assert_eq!(answers, (0..50).map(|n| Ok(n * 2)).collect::<Vec<_>>());
        assert!(inference.passes() >= 7);
    }

    /// The first pass waits until it is let go.
    struct Hanging {
        hangs: AtomicBool,
        entered: std::sync::mpsc::Sender<()>,
        let_go: Mutex<std::sync::mpsc::Receiver<()>>,
        capacity: usize,
        passes: Arc<Mutex<Vec<Vec<u32>>>>,
    }

    impl BatchModel for Hanging {
        type Input = u32;
        type Output = u32;

        fn weight(&self, _: &u32) -> usize {
            1
        }

        fn capacity(&self) -> usize {
            self.capacity
        }

        fn compatible(&self, _: &u32, _: &u32) -> bool {
            true
        }

        fn smallest(&self, _: &[u32]) -> usize {
            1
        }

        fn run(&self, inputs: &[u32], _: usize) -> Result<Vec<u32>, InferenceError> {
            self.passes.lock().unwrap().push(inputs.to_vec());
            if self.hangs.swap(false, Ordering::Relaxed) {
                self.entered.send(()).unwrap();
                self.let_go.lock().unwrap().recv().unwrap();
            }
            Ok(inputs.to_vec())
        }
    }

    #[tokio::test]
    async fn a_thread_that_hangs_is_left_behind_and_ends_when_it_comes_back() {
        let (entered, has_entered) = std::sync::mpsc::channel();
        let (go, let_go) = std::sync::mpsc::channel();
        let model = Hanging {
            hangs: AtomicBool::new(true),
            entered,
            let_go: Mutex::new(let_go),
            capacity: 1,
            passes: Arc::default(),
        };
        let inference = Inference::start("hanging", model, memory(), 4).unwrap();
        let model = Arc::downgrade(&inference.0.model);
        let hung = tokio::spawn({
            let inference = inference.clone();
            async move { inference.infer(1).await }
        });
        tokio::task::spawn_blocking(move || has_entered.recv().unwrap())
            .await
            .unwrap();
        let standing = inference.standing();
        assert_eq!((standing.waiting, standing.capacity, standing.busy), (0, 4, true));
        inference.renew().unwrap();
        assert_eq!(inference.infer(2).await, Ok(2));
        assert_eq!(inference.standing().renewals, 1);
        go.send(()).unwrap();
        assert_eq!(hung.await.unwrap(), Ok(1));
        drop(inference);
        // Both threads let go of the model.
        while model.strong_count() > 0 {
            tokio::task::yield_now().await;
        }
    }

    /// Rows: F29.
    #[tokio::test]
    async fn requests_that_wait_for_the_device_are_joined_into_one_batch() {
        for (capacity, batches) in [
            (3, vec![vec![1], vec![2, 3, 4]]),
            (2, vec![vec![1], vec![2, 3], vec![4]]),
        ] {
            let (entered, has_entered) = std::sync::mpsc::channel();
            let (go, let_go) = std::sync::mpsc::channel();
            let passes = Arc::default();
            let model = Hanging {
                hangs: AtomicBool::new(true),
                entered,
                let_go: Mutex::new(let_go),
                capacity,
                passes: Arc::clone(&passes),
            };
            let inference = Inference::start("busy", model, memory(), 4).unwrap();
            let mut first = Box::pin(inference.infer(1));
            assert_eq!(first.as_mut().now_or_never(), None);
            tokio::task::spawn_blocking(move || has_entered.recv().unwrap())
                .await
                .unwrap();
            // Of pages of several volumes, say.
            let mut others = Box::pin(join_all([2, 3, 4].map(|n| inference.infer(n))));
            assert_eq!(others.as_mut().now_or_never(), None);
            assert_eq!(inference.standing().waiting, 3);
            go.send(()).unwrap();
            assert_eq!(first.await, Ok(1));
            assert_eq!(others.await, [Ok(2), Ok(3), Ok(4)]);
            assert_eq!(*passes.lock().unwrap(), batches);
        }
    }

    /// Rows: F29.
    #[test]
    fn a_batch_too_large_for_the_device_is_halved_and_its_size_remembered() {
        let (model, memory) = (Doubling { memory: 2 }, memory());
        let inputs = [2, 4, 6, 8, 10];
        assert_eq!(
            run_halving("doubling", &model, &memory, &inputs),
            [4, 8, 12, 16, 20].map(Ok)
        );
        assert_eq!(memory.allowed(model.capacity()), 2);
        // A clone knows it as well, and another network of the device does not.
        assert_eq!(memory.clone().allowed(model.capacity()), 2);
        let other = DeviceMemory {
            network: NetworkOnDevice {
                model: "other".to_owned(),
                ..memory.network.clone()
            },
            ..memory
        };
        assert_eq!(other.allowed(model.capacity()), 8);
    }

    #[test]
    fn what_does_not_fit_alone_fails_and_nothing_else_does() {
        let memory = memory();
        let outputs = run_halving("doubling", &Doubling { memory: 0 }, &memory, &[2]);
        assert!(matches!(outputs[0], Err(InferenceError::OutOfMemory(_))));
        assert_eq!(memory.allowed(8), 8);
    }
}
