use std::collections::{BTreeMap, HashMap, VecDeque};
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use futures::future::try_join;
use tokio::sync::mpsc;
use tokio::task::{Id, JoinError, JoinSet};
use tokio::time::{Instant, Interval, MissedTickBehavior, interval_at};
use tokio_util::sync::CancellationToken;
use tracing::Instrument;

use super::delivery::{Delivery, Settled};
use super::hooks::call_hook;
use super::item_run::{Ended, ItemRun, Jitter};
use super::tally::Tally;
use super::{
    ItemOutcome, ItemReport, ItemStatus, ItemWorker, ManifestSink, NoHooks, OutputSink, StageContext,
    StageHooks, StageOptions, StageOutcome, StagePlan, WorkItem,
};
use crate::domain::{ErrorCategory, StageError};
use crate::policy::budget;
use crate::policy::order::{Waiting, starting_order};

/// What surrounds a stage run.
#[derive(Clone)]
pub struct StageControls {
    pub hooks: Arc<dyn StageHooks>,
    /// Cancelling it drains the run: no item is started any more, those in work are finished.
    pub cancel: CancellationToken,
    /// Draws from -1 to 1 for the retry delays.
    pub jitter: Arc<Jitter>,
    pub manifest: Option<ManifestSink>,
}

impl Default for StageControls {
    fn default() -> Self {
        Self {
            hooks: Arc::new(NoHooks),
            cancel: CancellationToken::new(),
            jitter: Arc::new(|| rand::random_range(-1.0..=1.0)),
            manifest: None,
        }
    }
}

impl fmt::Debug for StageControls {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("StageControls")
            .field("cancelled", &self.cancel.is_cancelled())
            .field("manifest", &self.manifest)
            .finish_non_exhaustive()
    }
}

/// Runs the items of `plan` through `worker` and delivers what comes of them to `sink` in starting order.
///
/// An item that fails does not fail the run: it is counted, delivered and listed in the outcome. Dropping the future
/// kills the run: tries in flight are dropped.
///
/// # Errors
///
/// When `sink` or the manifest cannot take an outcome.
pub async fn run_stage<W: ItemWorker>(
    plan: StagePlan,
    worker: Arc<W>,
    sink: &mut dyn OutputSink<W::Output>,
    options: &StageOptions,
    controls: StageControls,
) -> Result<StageOutcome, StageError> {
    let started = Instant::now();
    let context = StageContext {
        stage: plan.stage().clone(),
        total: plan.items().len(),
    };
    let hooks = controls.hooks.clone();
    call_hook("before_stage", &context, |context| hooks.before_stage(context));

    let (settled, inbox) = mpsc::unbounded_channel();
    let (delivered, acknowledged) = mpsc::unbounded_channel();
    let delivery = Delivery {
        context: context.clone(),
        hooks: hooks.clone(),
        manifest: controls.manifest.clone(),
        inbox,
        delivered,
    };
    let kernel = Kernel::new(plan, worker, options, controls, settled, acknowledged, started);
    let work = async {
        if options.dry_run {
            return Ok(kernel.look().await);
        }
        Ok(kernel.run().await)
    };
    let (tally, ()) = try_join(work, delivery.run(sink)).await?;
    let outcome = tally.into_outcome(started.elapsed());
    call_hook("after_stage", &context, |context| {
        hooks.after_stage(&outcome, context)
    });
    Ok(outcome)
}

/// An item in work.
struct InWork {
    position: usize,
    queued: Duration,
    started: Instant,
}

struct Kernel<W: ItemWorker> {
    context: StageContext,
    options: StageOptions,
    hooks: Arc<dyn StageHooks>,
    /// In starting order; positions below are positions here.
    items: Vec<Arc<WorkItem>>,
    item_run: Arc<ItemRun<W>>,
    cancel: CancellationToken,
    started: Instant,

    /// The first position that is not submitted yet.
    next_submission: usize,
    /// Submitted and not started: position and time of submission.
    queue: VecDeque<(usize, Instant)>,
    running: JoinSet<Ended<W::Output>>,
    in_work: HashMap<Id, InWork>,
    /// Ended out of order; `None` for an item that was given up without a result.
    ended: BTreeMap<usize, Option<ItemOutcome<W::Output>>>,
    /// The first position that is not handed to the delivery.
    next_delivery: usize,
    /// Items that the delivery still holds.
    undelivered: usize,
    settled: mpsc::UnboundedSender<Settled<W::Output>>,
    acknowledged: mpsc::UnboundedReceiver<()>,
    tally: Tally,
}

impl<W: ItemWorker> Kernel<W> {
    fn new(
        plan: StagePlan,
        worker: Arc<W>,
        options: &StageOptions,
        controls: StageControls,
        settled: mpsc::UnboundedSender<Settled<W::Output>>,
        acknowledged: mpsc::UnboundedReceiver<()>,
        started: Instant,
    ) -> Self {
        let waiting = |item: &WorkItem| Waiting {
            cost: item.cost_hint,
            waited_s: 0.0,
        };
        let waiting: Vec<Waiting> = plan.items().iter().map(waiting).collect();
        let stage = plan.stage().clone();
        let items: Vec<Arc<WorkItem>> = plan.into_items().into_iter().map(Arc::new).collect();
        let order = starting_order(options.order, &waiting, 0.0);
        Self {
            context: StageContext {
                stage: stage.clone(),
                total: items.len(),
            },
            item_run: Arc::new(ItemRun {
                stage,
                worker,
                timeout: options.timeout(),
                retry: options.retry_policy(),
                jitter: controls.jitter,
                drain: controls.cancel.child_token(),
            }),
            options: options.clone(),
            hooks: controls.hooks,
            tally: Tally::new(items.len()),
            items: order
                .into_iter()
                .map(|position| items[position].clone())
                .collect(),
            cancel: controls.cancel,
            started,
            next_submission: 0,
            queue: VecDeque::new(),
            running: JoinSet::new(),
            in_work: HashMap::new(),
            ended: BTreeMap::new(),
            next_delivery: 0,
            undelivered: 0,
            settled,
            acknowledged,
        }
    }

    /// The dry run.
    async fn look(mut self) -> Tally {
        for position in 0..self.items.len() {
            match self.resumed(position).await {
                Some(_) => self.tally.skipped += 1,
                None => self.tally.scheduled += 1,
            }
        }
        self.tally
    }

    async fn run(mut self) -> Tally {
        let mut ticks = self.ticks();
        loop {
            self.catch_up();
            if self.tally.is_stopping() {
                self.drop_queue();
            } else if self.may_submit() {
                self.submit().await;
                self.start();
                continue;
            }
            self.start();
            if self.running.is_empty()
                && (self.tally.is_stopping() || self.next_submission == self.items.len())
            {
                return self.tally;
            }
            let stopping = self.tally.is_stopping();
            tokio::select! {
                biased;
                () = self.cancel.cancelled(), if !stopping => {}
                Some(ended) = self.running.join_next_with_id(), if !self.running.is_empty() => self.settle(ended),
                Some(()) = self.acknowledged.recv(), if self.undelivered > 0 => self.undelivered -= 1,
                () = tick(&mut ticks) => self.report_progress(),
            }
        }
    }

    fn ticks(&self) -> Option<Interval> {
        let period = self.options.diagnostics_interval()?;
        let mut ticks = interval_at(self.started + period, period);
        ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        Some(ticks)
    }

    /// Takes note of all that has happened, without waiting.
    fn catch_up(&mut self) {
        while let Some(ended) = self.running.try_join_next_with_id() {
            self.settle(ended);
        }
        while self.acknowledged.try_recv().is_ok() {
            self.undelivered -= 1;
        }
        self.tally.drained |= self.cancel.is_cancelled();
    }

    fn may_submit(&self) -> bool {
        let in_memory = self.next_submission - self.next_delivery + self.undelivered;
        self.next_submission < self.items.len() && in_memory < self.options.window()
    }

    async fn submit(&mut self) {
        let position = self.next_submission;
        self.next_submission += 1;
        let Some(output) = self.resumed(position).await else {
            self.item_run.worker.queued(&self.items[position]);
            self.queue.push_back((position, Instant::now()));
            return;
        };
        let report = ItemReport {
            status: ItemStatus::Skip,
            attempts: 0,
            queued: Duration::ZERO,
            duration: Duration::ZERO,
            error: None,
            manifest: self.item_run.worker.manifest(&self.items[position], &output),
        };
        self.tally.skipped += 1;
        self.end(
            position,
            Some(ItemOutcome {
                report,
                result: Ok(output),
            }),
        );
        // Skipped items need no waiting: let the delivery, which shares this task, take them before there are many.
        tokio::task::yield_now().await;
    }

    async fn resumed(&self, position: usize) -> Option<W::Output> {
        if !self.options.resume || self.options.force {
            return None;
        }
        self.item_run.worker.resume(&self.items[position]).await
    }

    fn start(&mut self) {
        while self.running.len() < self.options.workers.max(1) {
            let Some((position, submitted)) = self.queue.pop_front() else {
                return;
            };
            let (item, item_run) = (self.items[position].clone(), self.item_run.clone());
            call_hook("before_item", &self.context, |context| {
                self.hooks.before_item(&item, context)
            });
            let started = Instant::now();
            let task = self
                .running
                .spawn(async move { item_run.run(&item).await }.in_current_span());
            let queued = started - submitted;
            self.tally.started(queued);
            self.in_work.insert(
                task.id(),
                InWork {
                    position,
                    queued,
                    started,
                },
            );
        }
    }

    fn settle(&mut self, ended: Result<(Id, Ended<W::Output>), JoinError>) {
        let id = match &ended {
            Ok((id, _)) => *id,
            Err(error) => error.id(),
        };
        let Some(work) = self.in_work.remove(&id) else {
            return;
        };
        let item = self.items[work.position].clone();
        let ended = match ended {
            Ok((_, ended)) => ended,
            Err(error) => Ended {
                result: Some(Err(self.crash(&item, error))),
                attempts: 1,
                duration: work.started.elapsed(),
            },
        };
        let Some(result) = ended.result else {
            self.end(work.position, None);
            return;
        };
        self.tally.settled(&result, ended.duration);
        if budget::is_exhausted(self.options.error_budget, self.tally.failed) {
            self.tally.over_budget = true;
            self.item_run.drain.cancel();
        }
        let report = ItemReport {
            status: if result.is_ok() {
                ItemStatus::Success
            } else {
                ItemStatus::Failure
            },
            attempts: ended.attempts,
            queued: work.queued,
            duration: ended.duration,
            error: result.as_ref().err().cloned(),
            manifest: match &result {
                Ok(output) => self.item_run.worker.manifest(&item, output),
                Err(_) => serde_json::Map::new(),
            },
        };
        self.end(work.position, Some(ItemOutcome { report, result }));
    }

    fn crash(&self, item: &WorkItem, error: JoinError) -> StageError {
        let message = match error.try_into_panic() {
            Ok(panic) => format!("the worker panicked: {}", super::panic_message(&*panic)),
            Err(_) => "the runtime is shutting down".to_owned(),
        };
        StageError::new(self.context.stage.as_str(), ErrorCategory::Runtime, message).at_item(&item.item_id)
    }

    /// Files an ended item and hands over all that are next in order.
    fn end(&mut self, position: usize, outcome: Option<ItemOutcome<W::Output>>) {
        self.ended.insert(position, outcome);
        while let Some(outcome) = self.ended.remove(&self.next_delivery) {
            let item = self.items[self.next_delivery].clone();
            self.next_delivery += 1;
            let Some(outcome) = outcome else {
                continue;
            };
            self.tally.errors.extend(outcome.report.error.clone());
            self.undelivered += 1;
            // The delivery is gone only when it has failed, and the whole run with it.
            let _ = self.settled.send(Settled { item, outcome });
        }
    }

    fn drop_queue(&mut self) {
        self.item_run.drain.cancel();
        for (position, _) in std::mem::take(&mut self.queue) {
            self.end(position, None);
        }
    }

    fn report_progress(&self) {
        let progress = self.tally.progress(self.running.len(), self.started.elapsed());
        call_hook("progress", &self.context, |context| {
            self.hooks.progress(&progress, context)
        });
    }
}

async fn tick(ticks: &mut Option<Interval>) {
    match ticks {
        Some(ticks) => {
            ticks.tick().await;
        }
        None => std::future::pending().await,
    }
}
