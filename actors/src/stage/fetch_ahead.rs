use std::collections::HashMap;
use std::panic;
use std::sync::{Mutex, MutexGuard, PoisonError};

use tokio_util::task::AbortOnDropHandle;
use tracing::Instrument;

/// Reads that are begun before anyone waits for them, by the name of their page. Dropping this value aborts them.
#[derive(Debug)]
pub(super) struct FetchAhead<T> {
    reads: Mutex<HashMap<String, AbortOnDropHandle<T>>>,
}

impl<T> Default for FetchAhead<T> {
    fn default() -> Self {
        Self {
            reads: Mutex::default(),
        }
    }
}

impl<T: Send + 'static> FetchAhead<T> {
    pub(super) fn start(&self, page: &str, read: impl Future<Output = T> + Send + 'static) {
        let read = tokio::spawn(read.in_current_span());
        self.reads().insert(page.to_owned(), AbortOnDropHandle::new(read));
    }

    /// Waits for the read of a page; `None` where none was begun, or where it was taken before.
    pub(super) async fn take(&self, page: &str) -> Option<T> {
        let read = self.reads().remove(page)?;
        match read.await {
            Ok(read) => Some(read),
            Err(error) => match error.try_into_panic() {
                // The kernel catches it, as if the read had been made by the page itself.
                Ok(payload) => panic::resume_unwind(payload),
                // The runtime is going down.
                Err(_) => None,
            },
        }
    }

    fn reads(&self) -> MutexGuard<'_, HashMap<String, AbortOnDropHandle<T>>> {
        self.reads.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::sync::atomic::{AtomicUsize, Ordering};
    use std::time::Duration;

    use async_trait::async_trait;
    use tokio::time::Instant;

    use super::*;
    use crate::runner::{
        ItemOutcome, ItemWorker, OutputSink, StageControls, StageOptions, StageOutcome, StagePlan, WorkItem,
        run_stage,
    };
    use parkhang_core::domain::testing::stage;
    use parkhang_core::domain::{ErrorCategory, StageError};

    const LATENCY: Duration = Duration::from_millis(100);
    /// The page that cannot be read before its turn.
    const ABSENT: &str = "13";

    /// A store that answers after 100 ms, and counts what is under way or waits to be used.
    #[derive(Debug, Default)]
    struct FarAway {
        reading: AtomicUsize,
        most_reading: AtomicUsize,
        held: AtomicUsize,
        most_held: AtomicUsize,
        reads: AtomicUsize,
    }

    impl FarAway {
        async fn read(self: Arc<Self>, page: String) -> Result<Held, StageError> {
            self.reads.fetch_add(1, Ordering::SeqCst);
            let reading = Reading(self.clone());
            let now = self.reading.fetch_add(1, Ordering::SeqCst) + 1;
            self.most_reading.fetch_max(now, Ordering::SeqCst);
            let held = self.held.fetch_add(1, Ordering::SeqCst) + 1;
            self.most_held.fetch_max(held, Ordering::SeqCst);
            let held = Held(self.clone());
            tokio::time::sleep(LATENCY).await;
            drop(reading);
            match page.as_str() {
                ABSENT => Err(StageError::new("test", ErrorCategory::Network, "away")),
                _ => Ok(held),
            }
        }
    }

    struct Reading(Arc<FarAway>);

    impl Drop for Reading {
        fn drop(&mut self) {
            self.0.reading.fetch_sub(1, Ordering::SeqCst);
        }
    }

    /// Bytes in memory.
    #[derive(Debug)]
    struct Held(Arc<FarAway>);

    impl Drop for Held {
        fn drop(&mut self) {
            self.0.held.fetch_sub(1, Ordering::SeqCst);
        }
    }

    /// Works for as long as it is told on each page, one after the other, as a device does.
    struct Device {
        store: Arc<FarAway>,
        ahead: Option<FetchAhead<Result<Held, StageError>>>,
        work: Duration,
    }

    #[async_trait]
    impl ItemWorker for Device {
        type Output = ();

        async fn run(&self, item: &WorkItem, _attempt: u32) -> Result<(), StageError> {
            let fetched = match &self.ahead {
                Some(ahead) => ahead.take(&item.item_id).await,
                None => None,
            };
            let _held = match fetched {
                Some(fetched) => fetched?,
                None => self.store.clone().read(item.item_id.clone()).await?,
            };
            tokio::time::sleep(self.work).await;
            Ok(())
        }

        fn queued(&self, item: &WorkItem) {
            if let Some(ahead) = &self.ahead {
                ahead.start(&item.item_id, self.store.clone().read(item.item_id.clone()));
            }
        }
    }

    #[derive(Default)]
    struct Order(Vec<String>);

    #[async_trait]
    impl OutputSink<()> for Order {
        async fn deliver(&mut self, item: &WorkItem, _: ItemOutcome<()>) -> Result<(), StageError> {
            self.0.push(item.item_id.clone());
            Ok(())
        }
    }

    const PAGES: usize = 200;

    fn plan() -> StagePlan {
        let items = (0..PAGES).map(|page| WorkItem::new(page.to_string()));
        StagePlan::new(stage("test"), items.collect()).unwrap()
    }

    fn options() -> StageOptions {
        StageOptions {
            workers: 1,
            max_queue: 8,
            ..StageOptions::default()
        }
    }

    async fn run(device: Device, order: &mut Order, options: &StageOptions) -> StageOutcome {
        let controls = StageControls::default();
        run_stage(plan(), Arc::new(device), order, options, controls)
            .await
            .unwrap()
    }

    /// How the run ended, how long it took and in which order its pages came.
    async fn read_all(device: Device) -> (StageOutcome, Duration, Vec<String>) {
        let (started, mut order) = (Instant::now(), Order::default());
        let outcome = run(device, &mut order, &options()).await;
        (outcome, started.elapsed(), order.0)
    }

    /// Rows: F16, F27.
    #[tokio::test(start_paused = true)]
    async fn a_device_waits_for_the_first_page_only() {
        let store = Arc::new(FarAway::default());
        let work = Duration::from_millis(20);
        let (outcome, took, order) = read_all(Device {
            store: store.clone(),
            ahead: Some(FetchAhead::default()),
            work,
        })
        .await;
        assert_eq!((outcome.succeeded, outcome.failed), (PAGES - 1, 1));
        let busy = work * (PAGES as u32 - 1);
        assert!(took <= busy + LATENCY + work, "{took:?}");
        assert_eq!(
            store.most_reading.load(Ordering::SeqCst),
            9,
            "the window of the options"
        );
        assert!(store.most_held.load(Ordering::SeqCst) <= 9);
        assert_eq!(store.held.load(Ordering::SeqCst), 0);
        let expected: Vec<String> = (0..PAGES).map(|page| page.to_string()).collect();
        assert_eq!(order, expected);

        let alone = Device {
            store: Arc::new(FarAway::default()),
            ahead: None,
            work,
        };
        let (_, took, _) = read_all(alone).await;
        assert!(took >= (LATENCY + work) * (PAGES as u32 - 1), "{took:?}");
    }

    #[tokio::test(start_paused = true)]
    async fn latency_is_shared_by_all_that_is_queued() {
        let store = Arc::new(FarAway::default());
        let (_, took, _) = read_all(Device {
            store,
            ahead: Some(FetchAhead::default()),
            work: Duration::ZERO,
        })
        .await;
        let rounds = PAGES.div_ceil(options().max_queue + 1) as u32;
        // The clock of these tests goes in milliseconds.
        let late = Duration::from_millis(1) * rounds;
        assert!(took <= LATENCY * rounds + late, "{took:?}");
    }

    #[tokio::test(start_paused = true)]
    async fn a_read_that_failed_ahead_is_made_anew_by_the_next_try() {
        let store = Arc::new(FarAway::default());
        let device = Device {
            store: store.clone(),
            ahead: Some(FetchAhead::default()),
            work: Duration::ZERO,
        };
        let options = StageOptions {
            retries: 2,
            ..options()
        };
        let outcome = run(device, &mut Order::default(), &options).await;
        assert_eq!(outcome.failed, 1);
        assert_eq!(store.reads.load(Ordering::SeqCst), PAGES + 2);
    }

    #[tokio::test(start_paused = true)]
    async fn a_run_that_is_dropped_reads_no_further() {
        let store = Arc::new(FarAway::default());
        let device = Device {
            store: store.clone(),
            ahead: Some(FetchAhead::default()),
            work: Duration::from_secs(1),
        };
        let (mut order, options) = (Order::default(), options());
        let run = run(device, &mut order, &options);
        let cut = tokio::time::timeout(Duration::from_millis(150), run).await;
        assert!(cut.is_err());
        // What was aborted is dropped when its task is next looked at.
        while store.held.load(Ordering::SeqCst) > 0 {
            tokio::task::yield_now().await;
        }
        assert_eq!(store.reading.load(Ordering::SeqCst), 0);
        assert_eq!(store.reads.load(Ordering::SeqCst), 9);
    }
}
