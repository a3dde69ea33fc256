use futures::FutureExt;
use futures::future::join_all;
use parkhang_test_support::Wait;

use super::testing::{Doubling, Picky, memory};
use super::*;

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

    fn probe(&self) -> u32 {
        0
    }

    fn is_sound(&self, _: &u32) -> bool {
        true
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
    let status = inference.status();
    assert_eq!((status.waiting, status.capacity, status.busy), (0, 4, true));
    inference.renew().unwrap();
    assert_eq!(inference.infer(2).await, Ok(2));
    assert_eq!(inference.status().renewals, 1);
    go.send(()).unwrap();
    assert_eq!(hung.await.unwrap(), Ok(1));
    drop(inference);
    // Both threads let go of the model.
    Wait::until("nobody holds the model")
        .sees_async(async || model.strong_count(), |holders| *holders == 0)
        .await;
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
        assert_eq!(inference.status().waiting, 3);
        go.send(()).unwrap();
        assert_eq!(first.await, Ok(1));
        assert_eq!(others.await, [Ok(2), Ok(3), Ok(4)]);
        assert_eq!(*passes.lock().unwrap(), batches);
    }
}

#[tokio::test]
async fn a_device_is_asked_what_it_is_known_to_answer() {
    let inference = Inference::start("picky", Picky::default(), memory(), 4).unwrap();
    assert_eq!(inference.check().await, Ok(()));
    inference.0.model.lost.store(true, Ordering::Relaxed);
    let lost = InferenceError::Device("device lost".to_owned());
    assert_eq!(inference.check().await, Err(lost));
}

/// Every pass hangs until the test is over.
struct Stuck(Mutex<std::sync::mpsc::Receiver<()>>);

impl BatchModel for Stuck {
    type Input = ();
    type Output = ();

    fn weight(&self, (): &()) -> usize {
        1
    }

    fn capacity(&self) -> usize {
        1
    }

    fn compatible(&self, (): &(), (): &()) -> bool {
        true
    }

    fn smallest(&self, _: &[()]) -> usize {
        1
    }

    fn run(&self, inputs: &[()], _: usize) -> Result<Vec<()>, InferenceError> {
        // The sender is dropped at the end of the test.
        let _ = self.0.lock().unwrap().recv();
        Ok(inputs.to_vec())
    }

    fn probe(&self) {}

    fn is_sound(&self, (): &()) -> bool {
        true
    }
}

#[tokio::test]
async fn so_many_threads_are_left_behind_and_no_more() {
    let (release, held) = std::sync::mpsc::channel();
    let inference = Inference::start("stuck", Stuck(Mutex::new(held)), memory(), 1).unwrap();
    for _ in 1..MAX_THREADS {
        let mut asked = Box::pin(inference.infer(()));
        assert_eq!(asked.as_mut().now_or_never(), None);
        inference.renew().unwrap();
    }
    let error = inference.renew().unwrap_err().to_string();
    assert!(error.starts_with("8 threads of stuck hang"), "{error}");
    drop(release);
    // Those that come back end, and leave room.
    Wait::until("a thread can be replaced again")
        .sees_async(async || inference.renew().is_err(), |refused| !refused)
        .await;
}
