use std::collections::{BTreeMap, HashMap, VecDeque};
use std::fmt;
use std::sync::Arc;

use futures::FutureExt;
use futures::future::try_join;
use serde_json::Map;
use tokio::sync::mpsc;
use tokio::task::{Id, JoinError, JoinSet};
use tokio::time::{Instant, Interval, MissedTickBehavior, interval_at};
use tokio_util::sync::CancellationToken;
use tracing::Instrument;

use super::counts::Counters;
use super::delivery::{Delivery, FinishedItem};
use super::hooks::call_hook;
use super::item_run::{Ended, ItemRun, Jitter};
use super::preview::standing;
use super::{
    ItemOutcome, ItemWorker, ManifestSink, NoHooks, OutputSink, Redo, RunContext, StageHooks, StageOptions,
    StageOutcome, StagePlan, WorkItem,
};
use parkhang_core::domain::{ErrorCategory, StageError};
use parkhang_core::policy::budget;
use parkhang_core::policy::order::starting_order;

/// Connections of a stage run to its surroundings.
#[derive(Clone)]
pub struct StageControls {
    /// Observer of the run.
    pub hooks: Arc<dyn StageHooks>,
    /// Cancelling it drains the run: no item is started any more, those in work are finished.
    pub cancel: CancellationToken,
    /// Source of numbers from -1 to 1, for the retry delays.
    pub jitter: Arc<Jitter>,
    /// Record of the run, if it is to leave one.
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

/// Runs the items of `plan` through `worker` and delivers their outcomes to `sink` in starting order.
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
    let context = RunContext {
        stage: plan.stage().clone(),
        total: plan.items().len(),
    };
    let hooks = controls.hooks.clone();
    call_hook("before_stage", &context, |context| hooks.before_stage(context));

    let (finished, inbox) = mpsc::unbounded_channel();
    let (delivered, acknowledged) = mpsc::unbounded_channel();
    let delivery = Delivery {
        context: context.clone(),
        hooks: hooks.clone(),
        manifest: controls.manifest.clone(),
        inbox,
        delivered,
    };
    let channels = Channels {
        finished,
        acknowledged,
    };
    let kernel = Kernel::new(plan, worker, options, controls, channels, started);
    let work = async { Ok(kernel.run().await) };
    // A delivery that fails drops the kernel, and with it the tries in flight.
    let (counts, ()) = try_join(work, delivery.run(sink)).await?;
    let outcome = counts.into_outcome(started.elapsed());
    call_hook("after_stage", &context, |context| {
        hooks.after_stage(&outcome, context)
    });
    Ok(outcome)
}

/// The kernel's ends of its channels with the delivery.
struct Channels<T> {
    finished: mpsc::UnboundedSender<FinishedItem<T>>,
    acknowledged: mpsc::UnboundedReceiver<()>,
}

/// An item that was submitted and not started.
struct Queued {
    position: usize,
    reason: Redo,
    since: Instant,
}

/// An item in work.
struct InWork {
    position: usize,
    started: Instant,
}

/// A run under way. Each item is submitted (or skipped), started, ended and handed to the delivery, in this order.
struct Kernel<W: ItemWorker> {
    context: RunContext,
    options: StageOptions,
    hooks: Arc<dyn StageHooks>,
    /// The items in starting order; positions below are positions here.
    items: Vec<Arc<WorkItem>>,
    item_run: Arc<ItemRun<W>>,
    cancel: CancellationToken,
    started: Instant,

    /// The first position that is not submitted yet.
    next_submission: usize,
    queue: VecDeque<Queued>,
    running: JoinSet<Ended<W::Output>>,
    in_work: HashMap<Id, InWork>,
    /// Items that ended before one that was started earlier; `None` for an item that was given up without a result.
    ended: BTreeMap<usize, Option<ItemOutcome<W::Output>>>,
    /// The first position that is not handed to the delivery.
    next_delivery: usize,
    /// Items that the delivery still holds.
    undelivered: usize,
    channels: Channels<W::Output>,
    counts: Counters,
}

impl<W: ItemWorker> Kernel<W> {
    fn new(
        plan: StagePlan,
        worker: Arc<W>,
        options: &StageOptions,
        controls: StageControls,
        channels: Channels<W::Output>,
        started: Instant,
    ) -> Self {
        let costs: Vec<f64> = plan.items().iter().map(|item| item.cost_hint).collect();
        let order = starting_order(options.order, &costs, options.ageing);
        let stage = plan.stage().clone();
        let items: Vec<Arc<WorkItem>> = plan.into_items().into_iter().map(Arc::new).collect();
        Self {
            context: RunContext {
                stage: stage.clone(),
                total: items.len(),
            },
            item_run: Arc::new(ItemRun {
                stage,
                worker,
                timeout: options.timeout(),
                retry: options.retry_policy(),
                jitter: controls.jitter,
                // A child: a run that goes over its budget drains itself, and not whatever else shares the caller's token.
                drain: controls.cancel.child_token(),
            }),
            options: options.clone(),
            hooks: controls.hooks,
            counts: Counters::new(items.len()),
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
            channels,
        }
    }

    async fn run(mut self) -> Counters {
        let mut ticks = self.ticks();
        loop {
            // First of all, so that every decision below counts what happened during the last await: whether the budget is used
            // up, whether the window has room, whether a worker is free.
            self.catch_up();
            if self.counts.is_stopping() {
                self.drop_queue();
            } else if self.may_submit() {
                // One at a time: asking whether a result stands may take a while, and items that end meanwhile free a worker.
                self.submit().await;
                self.start();
                continue;
            }
            self.start();
            // The delivery may still be busy; it ends when its channel is closed, which dropping the kernel does.
            if self.running.is_empty()
                && (self.counts.is_stopping() || self.next_submission == self.items.len())
            {
                return self.counts;
            }
            let stopping = self.counts.is_stopping();
            // Biased, so that a run on paused time takes the same course each time: ended items come before acknowledged ones,
            // and both before the clock.
            tokio::select! {
                biased;
                () = self.cancel.cancelled(), if !stopping => {}
                Some(ended) = self.running.join_next_with_id(), if !self.running.is_empty() => self.finish(ended),
                Some(()) = self.channels.acknowledged.recv(), if self.undelivered > 0 => self.undelivered -= 1,
                () = tick(&mut ticks) => self.report_progress(),
            }
        }
    }

    fn ticks(&self) -> Option<Interval> {
        let period = self.options.diagnostics_interval()?;
        let mut ticks = interval_at(self.started + period, period);
        // A report that is late says the same as those it missed.
        ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        Some(ticks)
    }

    /// Takes in everything that has happened so far, without waiting.
    fn catch_up(&mut self) {
        while let Some(ended) = self.running.try_join_next_with_id() {
            self.finish(ended);
        }
        while self.channels.acknowledged.try_recv().is_ok() {
            self.undelivered -= 1;
        }
        self.counts.drained |= self.cancel.is_cancelled();
    }

    /// Returns whether another item fits the window. Skipped items count too: their outputs are in memory until they are
    /// delivered, and a volume may be skipped whole.
    fn may_submit(&self) -> bool {
        let in_memory = self.next_submission - self.next_delivery + self.undelivered;
        self.next_submission < self.items.len() && in_memory < self.options.window()
    }

    async fn submit(&mut self) {
        let position = self.next_submission;
        self.next_submission += 1;
        let item = &self.items[position];
        let worker = &self.item_run.worker;
        match standing(&**worker, item, &self.options).await {
            Ok(output) => {
                self.counts.skipped();
                let manifest = worker.manifest(item, &output);
                self.end(position, Some(ItemOutcome::skipped(output, manifest)));
                // Nothing else makes this loop wait while items are skipped, and the delivery shares its task: let it take them
                // before there are many.
                tokio::task::yield_now().await;
            }
            Err(reason) => {
                worker.queued(item);
                self.queue.push_back(Queued {
                    position,
                    reason,
                    since: Instant::now(),
                });
            }
        }
    }

    fn start(&mut self) {
        while self.running.len() < self.options.workers.max(1) {
            let Some(Queued {
                position,
                reason,
                since,
            }) = self.queue.pop_front()
            else {
                return;
            };
            let (item, item_run) = (self.items[position].clone(), self.item_run.clone());
            call_hook("before_item", &self.context, |context| {
                self.hooks.before_item(&item, reason, context)
            });
            let started = Instant::now();
            let run = async move { item_run.run(&item).await };
            // Boxed, so that the runtime's code for it is compiled once and not for each stage.
            let task = self.running.spawn(run.in_current_span().boxed());
            self.counts.started(started - since);
            self.in_work.insert(task.id(), InWork { position, started });
        }
    }

    /// Takes in the end of a try's task: its outcome, its panic, or that it was drained.
    fn finish(&mut self, ended: Result<(Id, Ended<W::Output>), JoinError>) {
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
            // The count of tries went down with the task.
            Err(error) => Ended {
                result: Some(Err(self.crash(&item, error))),
                attempts: 1,
                duration: work.started.elapsed(),
            },
        };
        // Without a result the item was drained between two tries, and is left to the next run.
        let Some(result) = ended.result else {
            self.end(work.position, None);
            return;
        };
        self.counts.finished(&result, ended.duration);
        if budget::is_exhausted(self.options.error_budget, self.counts.failed()) {
            self.counts.over_budget = true;
            // The stage fails whatever another try would bring; those that wait for one end now.
            self.item_run.drain.cancel();
        }
        let manifest = match &result {
            Ok(output) => self.item_run.worker.manifest(&item, output),
            Err(_) => Map::new(),
        };
        let outcome = ItemOutcome::finished(result, ended.attempts, ended.duration, manifest);
        self.end(work.position, Some(outcome));
    }

    /// The error of an item whose task panicked.
    fn crash(&self, item: &WorkItem, error: JoinError) -> StageError {
        let message = match error.try_into_panic() {
            Ok(panic) => format!("the worker panicked: {}", super::panic_message(&*panic)),
            Err(_) => "the runtime is shutting down".to_owned(),
        };
        StageError::new(self.context.stage.as_str(), ErrorCategory::Runtime, message).at_item(&item.item_id)
    }

    /// Files an ended item and hands over all items that are next in order.
    fn end(&mut self, position: usize, outcome: Option<ItemOutcome<W::Output>>) {
        self.ended.insert(position, outcome);
        while let Some(outcome) = self.ended.remove(&self.next_delivery) {
            let item = self.items[self.next_delivery].clone();
            self.next_delivery += 1;
            let Some(outcome) = outcome else {
                continue;
            };
            self.counts.delivered(outcome.report.error.as_ref());
            self.undelivered += 1;
            // The delivery is gone only when it has failed, and the whole run with it.
            let _ = self.channels.finished.send(FinishedItem { item, outcome });
        }
    }

    fn drop_queue(&mut self) {
        self.item_run.drain.cancel();
        for queued in std::mem::take(&mut self.queue) {
            self.end(queued.position, None);
        }
    }

    fn report_progress(&self) {
        let progress = self.counts.progress(self.running.len(), self.started.elapsed());
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
