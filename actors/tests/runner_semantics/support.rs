//! A worker made of a closure, a sink that remembers, and plans of numbered items.

use std::collections::BTreeSet;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use parkhang_actors::runner::{
    ItemOutcome, ItemReport, ItemWorker, OutputSink, Redo, StageControls, StageOptions, StageOutcome,
    StagePlan, WorkItem, run_stage,
};
use parkhang_core::domain::testing::stage;
use parkhang_core::domain::{ErrorCategory, StageError};
use serde_json::{Map, Value};
use tokio::sync::Semaphore;

type Work = Pin<Box<dyn Future<Output = Result<String, StageError>> + Send>>;

pub(crate) struct FnWorker {
    run: Box<dyn Fn(WorkItem, u32) -> Work + Send + Sync>,
    done: BTreeSet<String>,
}

impl FnWorker {
    pub(crate) fn new<F>(run: impl Fn(WorkItem, u32) -> F + Send + Sync + 'static) -> Self
    where
        F: Future<Output = Result<String, StageError>> + Send + 'static,
    {
        Self {
            run: Box::new(move |item, attempt| Box::pin(run(item, attempt))),
            done: BTreeSet::new(),
        }
    }

    /// Has the items named done already.
    pub(crate) fn resuming<const N: usize>(mut self, done: [&str; N]) -> Self {
        self.done = done.map(str::to_owned).into();
        self
    }
}

#[async_trait]
impl ItemWorker for FnWorker {
    type Output = String;

    async fn run(&self, item: &WorkItem, attempt: u32) -> Result<String, StageError> {
        (self.run)(item.clone(), attempt).await
    }

    async fn resume(&self, item: &WorkItem) -> Result<String, Redo> {
        let is_done = self.done.contains(&item.item_id);
        is_done.then(|| item.item_id.clone()).ok_or(Redo::Absent)
    }

    fn manifest(&self, _: &WorkItem, output: &String) -> Map<String, Value> {
        Map::from_iter([("length".to_owned(), Value::from(output.len()))])
    }
}

#[derive(Default)]
pub(crate) struct Collected {
    outcomes: Vec<(String, ItemOutcome<String>)>,
    gate: Option<Arc<Semaphore>>,
    pace: Duration,
    fails_at: Option<&'static str>,
}

impl Collected {
    /// Takes one outcome for each permit.
    pub(crate) fn gated(gate: Arc<Semaphore>) -> Self {
        Self {
            gate: Some(gate),
            ..Self::default()
        }
    }

    /// Takes that long for each outcome.
    pub(crate) fn taking(pace: Duration) -> Self {
        Self {
            pace,
            ..Self::default()
        }
    }

    pub(crate) fn failing_at(item: &'static str) -> Self {
        Self {
            fails_at: Some(item),
            ..Self::default()
        }
    }

    pub(crate) fn ids(&self) -> Vec<String> {
        self.outcomes.iter().map(|(id, _)| id.clone()).collect()
    }

    pub(crate) fn report(&self, id: &str) -> &ItemReport {
        &self.outcome(id).report
    }

    pub(crate) fn error(&self, id: &str) -> &StageError {
        self.outcome(id).result.as_ref().unwrap_err()
    }

    fn outcome(&self, id: &str) -> &ItemOutcome<String> {
        let (_, outcome) = self.outcomes.iter().find(|(found, _)| found == id).unwrap();
        outcome
    }
}

#[async_trait]
impl OutputSink<String> for Collected {
    async fn deliver(&mut self, item: &WorkItem, outcome: ItemOutcome<String>) -> Result<(), StageError> {
        if let Some(gate) = &self.gate {
            gate.acquire().await.unwrap().forget();
        }
        tokio::time::sleep(self.pace).await;
        if self.fails_at == Some(item.item_id.as_str()) {
            return Err(error(ErrorCategory::Network));
        }
        self.outcomes.push((item.item_id.clone(), outcome));
        Ok(())
    }
}

pub(crate) fn error(category: ErrorCategory) -> StageError {
    StageError::new("test", category, "as the test wants it")
}

/// Items `0`, `1`, ... of these costs.
pub(crate) fn items(costs: &[f64]) -> Vec<WorkItem> {
    let item = |(index, cost): (usize, &f64)| WorkItem {
        cost_hint: *cost,
        ..WorkItem::new(index.to_string())
    };
    costs.iter().enumerate().map(item).collect()
}

pub(crate) fn plan(items: Vec<WorkItem>) -> StagePlan {
    StagePlan::new(stage("test"), items).unwrap()
}

pub(crate) async fn run<F>(
    items: Vec<WorkItem>,
    work: impl Fn(WorkItem, u32) -> F + Send + Sync + 'static,
    options: &StageOptions,
) -> (StageOutcome, Collected)
where
    F: Future<Output = Result<String, StageError>> + Send + 'static,
{
    run_with(items, FnWorker::new(work), options, StageControls::default()).await
}

pub(crate) async fn run_with<W: ItemWorker<Output = String>>(
    items: Vec<WorkItem>,
    worker: W,
    options: &StageOptions,
    controls: StageControls,
) -> (StageOutcome, Collected) {
    let mut collected = Collected::default();
    let outcome = run_stage(plan(items), Arc::new(worker), &mut collected, options, controls).await;
    (outcome.unwrap(), collected)
}

pub(crate) fn options(workers: usize) -> StageOptions {
    StageOptions {
        workers,
        ..StageOptions::default()
    }
}

/// Sleeps as many seconds as the item costs.
pub(crate) async fn work_off_cost(item: WorkItem, _attempt: u32) -> Result<String, StageError> {
    tokio::time::sleep(Duration::from_secs_f64(item.cost_hint)).await;
    Ok(item.item_id)
}
