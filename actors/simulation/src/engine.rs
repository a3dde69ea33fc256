//! The clock, and the orchestrator: it is woken, makes a plan and commits it, as the real one does.

mod audit;
mod cluster;
mod devices;
mod group_commit;
mod queues;
pub(crate) mod report;
mod scaling;
mod work;

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::Arc;
use std::time::{Duration, Instant};

use chrono::{DateTime, TimeDelta, Utc};
use futures::future::BoxFuture;
use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};

use crate::agenda::{Agenda, Millis};
use crate::error::SimulationError;
use crate::metered::MeteredStore;
use crate::settings::{Settings, millis};
use audit::{Counters, StageCounts};
use cluster::{Address, Node};
use devices::Step;
use group_commit::GroupCommit;
use parkhang_actors::orchestrator::{PassLimits, Plan};
use parkhang_core::domain::{
    Assignment, Fence, Job, JobKey, LeaseReport, NewJob, Pipeline, PoolInfo, Position, TaskId, VolumeId,
    WorkerId,
};
use parkhang_core::policy::transition::{Event as TaskEvent, is_finished, runnable_stage};
use parkhang_state::{Change, Expected, Outcome, StateStore, change_for};
use queues::QueueMeter;
use report::SimulationReport;
use work::{Run, Volume};

/// Event of the simulation.
#[derive(Debug)]
pub(super) enum Event {
    FullPass,
    Wake,
    /// The transaction under way has ended.
    Written,
    Arrive(Address, Box<Assignment>),
    /// The pool did not take the assignment.
    Undelivered(Address, Fence),
    RunEnds(u64, u32),
    Reported(Address, Box<LeaseReport>),
    Beat(usize, u32),
    Announce(usize, u32),
    End(usize, u32),
    Suspect(usize, u32),
    Forget(Vec<WorkerId>),
    Join(usize),
    /// Something happens to the device of a pool that was renewed so often.
    Device(Address, u32, Step),
    /// The autoscaler decides.
    Scale,
}

/// Source of a change, which waits for its outcome.
#[derive(Debug)]
pub(super) enum Origin {
    /// The pass under way, for its change of this number.
    Pass(usize),
    /// The pool that reported.
    Pool(Address, Fence),
    Orchestrator,
}

/// A pass whose changes are being committed.
#[derive(Debug)]
struct Pass {
    plan: Plan,
    outcomes: Vec<Option<Outcome>>,
    missing: usize,
}

#[derive(Debug)]
pub(super) struct Engine {
    pub settings: Settings,
    pub store: Arc<MeteredStore>,
    pub job: Job,
    pub volumes: HashMap<TaskId, Volume>,
    pub heaviest_stage: usize,
    pub now: Millis,
    pub agenda: Agenda<Event>,
    pub random: StdRng,
    pub nodes: Vec<Node>,
    pub runs: HashMap<u64, Run>,
    pub next_run: u64,
    pub running_tasks: HashMap<TaskId, u64>,
    /// Pages whose results stand, by task and stage.
    pub standing: HashMap<(TaskId, usize), u32>,
    pub offers: Vec<PoolInfo>,
    pub addresses: HashMap<WorkerId, Address>,
    /// Volumes that were held to be at fault, by node.
    pub stood_still: BTreeMap<String, BTreeSet<TaskId>>,
    pub mirror: GroupCommit<Origin>,
    pub counts: Counters,
    pub queues: Option<QueueMeter>,
    pass: Option<Pass>,
    woken: bool,
    sampled_trips: u64,
    deciding: Duration,
    settled: bool,
}

/// Runs the simulation to its end.
///
/// # Errors
///
/// When the settings make no sense, or the work does not end within the horizon.
pub fn simulate(settings: Settings) -> BoxFuture<'static, Result<SimulationReport, SimulationError>> {
    Box::pin(async move {
        settings.validate()?;
        let began = Instant::now();
        let mut engine = Engine::new(settings).await?;
        engine.run().await?;
        let tasks = engine.store.tasks(engine.job.id).await?;
        let queues = engine.queues.take();
        let requests = queues.map(|queues| queues.end(engine.settings.profile.stages.len(), engine.now));
        Ok(SimulationReport::of(
            &engine,
            &tasks,
            requests,
            engine.deciding,
            began.elapsed(),
        ))
    })
}

impl Engine {
    async fn new(settings: Settings) -> Result<Self, SimulationError> {
        let mut random = StdRng::seed_from_u64(settings.seed);
        let store = Arc::new(MeteredStore::default());
        let stages = settings.profile.stages.iter().map(|stage| stage.stage.clone());
        let pipeline = Pipeline::new(stages.collect())?;
        let names = (0..settings.volumes).map(|n| VolumeId::new("W1", format!("I{n}")));
        let job = NewJob {
            key: JobKey::new("simulation").ok(),
            operation: "ocr".to_owned(),
            pipeline,
            config: settings.config.clone(),
            volumes: names.filter_map(Result::ok).collect(),
            standing: false,
        };
        let job = store.create_job(&job, DateTime::UNIX_EPOCH).await?;
        let mut volumes = HashMap::new();
        let mut counts = Counters {
            stages: settings
                .profile
                .stages
                .iter()
                .map(|_| StageCounts::default())
                .collect(),
            ..Counters::default()
        };
        // Drawn in the order of tasks and not of a hash map, so that a seed gives the same run each time.
        for task in store.tasks(job.id).await? {
            let pages = settings.profile.pages_per_volume.quantile(random.random());
            let volume = Volume {
                pages: (pages.round() as u32).max(1),
                pace: random.random(),
                is_poison: random.random_bool(settings.faults.poison.clamp(0.0, 1.0)),
            };
            volumes.insert(task.id, volume);
            counts.ready_since.insert(task.id, 0);
        }
        let heaviest = settings
            .profile
            .stages
            .iter()
            .map(|stage| stage.seconds_per_page.mean())
            .enumerate()
            .max_by(|(_, one), (_, other)| one.total_cmp(other));
        let mut nodes = Vec::new();
        for (number, class) in settings.fleet.iter().enumerate() {
            let fitting: Vec<usize> = settings
                .profile
                .stages
                .iter()
                .enumerate()
                .filter(|(_, stage)| stage.hardware == class.hardware)
                .map(|(stage, _)| stage)
                .collect();
            let sick = settings.sick.map_or(0, |devices| devices.of(class));
            counts.devices.nodes += sick as u64;
            nodes
                .extend((0..class.nodes).map(|node| Node::new(number, node < sick, fitting.iter().copied())));
        }
        Ok(Self {
            store,
            job,
            volumes,
            heaviest_stage: heaviest.map_or(0, |(stage, _)| stage),
            now: 0,
            agenda: Agenda::new(),
            random,
            nodes,
            runs: HashMap::new(),
            next_run: 0,
            running_tasks: HashMap::new(),
            standing: HashMap::new(),
            offers: Vec::new(),
            addresses: HashMap::new(),
            stood_still: BTreeMap::new(),
            mirror: GroupCommit::new(),
            counts,
            queues: settings.queues.clone().map(QueueMeter::new),
            pass: None,
            woken: false,
            sampled_trips: 0,
            deciding: Duration::ZERO,
            settled: false,
            settings,
        })
    }

    pub(super) fn time(&self, at: Millis) -> DateTime<Utc> {
        DateTime::UNIX_EPOCH + TimeDelta::milliseconds(at)
    }

    async fn run(&mut self) -> Result<(), SimulationError> {
        if let (Some(queues), Some(first)) = (&mut self.queues, self.job.pipeline.stages().first()) {
            queues.ready(first, self.volumes.len() as u64, 0);
        }
        self.agenda.enter(0, Event::FullPass);
        self.begin_fleet();
        let horizon = millis(self.settings.horizon);
        while !self.settled {
            let next = self.agenda.next().filter(|(at, _)| *at <= horizon);
            let Some((at, event)) = next else {
                return Err(SimulationError::Unfinished {
                    unfinished: self.unfinished().await?,
                    days: horizon / 86_400_000,
                });
            };
            self.now = at;
            self.handle(event).await?;
        }
        Ok(())
    }

    async fn unfinished(&self) -> Result<usize, SimulationError> {
        let tasks = self.store.tasks(self.job.id).await?;
        let scope = self.job.config.retry_scope;
        Ok(tasks.iter().filter(|task| !is_finished(task, scope)).count())
    }

    async fn handle(&mut self, event: Event) -> Result<(), SimulationError> {
        match event {
            Event::FullPass => {
                self.sample().await?;
                let next = self.now + millis(self.settings.timings.full_pass).max(1);
                self.agenda.enter(next, Event::FullPass);
                self.wake().await?;
            }
            Event::Wake => self.wake().await?,
            Event::Written => self.written().await?,
            Event::Arrive(address, assignment) => self.arrive(address, *assignment),
            Event::Undelivered(address, fence) => self.undelivered(address, fence),
            Event::RunEnds(number, version) => self.run_ends(number, version),
            Event::Reported(address, report) => self.reported(address, *report).await?,
            Event::Beat(node, incarnation) => self.beat(node, incarnation).await?,
            Event::Announce(node, incarnation) => self.announce(node, incarnation),
            Event::End(node, incarnation) => self.end(node, incarnation),
            Event::Suspect(node, incarnation) => self.suspect(node, incarnation),
            Event::Forget(workers) => self.forget(workers).await?,
            Event::Join(node) => self.join(node).await?,
            Event::Device(address, renewals, step) => self.device(address, renewals, step).await?,
            Event::Scale => self.scale().await?,
        }
        Ok(())
    }

    /// Measures the traffic with the database since the last call, and checks that no pool holds more leases than it has slots.
    async fn sample(&mut self) -> Result<(), SimulationError> {
        let trips = self.store.traffic().round_trips();
        let seconds = self.settings.timings.full_pass.as_secs_f64();
        let rate = (trips - self.sampled_trips) as f64 / seconds.max(1e-3);
        self.counts.peak_round_trips_per_s = self.counts.peak_round_trips_per_s.max(rate);
        self.sampled_trips = trips;
        for held in self.store.unmetered_leases(self.time(self.now)).await? {
            let Some(address) = self.addresses.get(&held.worker) else {
                continue;
            };
            let class = self.settings.fleet[self.nodes[address.node].class];
            self.counts.audit.overbooked_leases += u64::from(held.leases > class.slots);
        }
        Ok(())
    }

    pub(super) async fn wake(&mut self) -> Result<(), SimulationError> {
        // One pass at a time, and one more after it, as in the real orchestrator.
        if self.pass.is_some() {
            self.woken = true;
            return Ok(());
        }
        self.woken = false;
        self.counts.passes += 1;
        let limits = PassLimits {
            lease: TimeDelta::milliseconds(millis(self.settings.timings.lease)),
            max_interruptions: self.settings.timings.max_interruptions,
            // This orchestrator has led from the beginning.
            ends_leases: true,
        };
        let conduct = self.conduct();
        // Real time, to measure the cost of the decisions alone, without the store's part of it.
        let (began, inside) = (Instant::now(), self.store.inside());
        let mut plan = Plan::make(
            &*self.store,
            &self.offers,
            &BTreeMap::new(),
            &conduct,
            limits,
            self.time(self.now),
        )
        .await?;
        self.deciding += began.elapsed().saturating_sub(self.store.inside() - inside);
        if let Some(due) = plan.next_due {
            self.agenda.enter(not_before(due).max(self.now), Event::Wake);
        }
        let changes = std::mem::take(&mut plan.changes);
        let pass = Pass {
            plan,
            outcomes: changes.iter().map(|_| None).collect(),
            missing: changes.len(),
        };
        // There is no transaction whose end would end the pass.
        if changes.is_empty() {
            return self.pass_over(pass).await;
        }
        for (number, change) in changes.into_iter().enumerate() {
            self.mirror.add(change, Origin::Pass(number));
        }
        self.pass = Some(pass);
        self.write();
        Ok(())
    }

    /// Offers the leases to their pools and ends the pass.
    async fn pass_over(&mut self, pass: Pass) -> Result<(), SimulationError> {
        // A pass is over once no outcome is missing, so none is dropped here and they match the changes in
        // order.
        let granted = pass.plan.granted(pass.outcomes.into_iter().flatten().collect());
        let arrival = self.now + millis(self.settings.timings.message);
        for (worker, assignment) in granted.assignments {
            if let Some(address) = self.addresses.get(&worker) {
                self.agenda
                    .enter(arrival, Event::Arrive(*address, Box::new(assignment)));
            }
        }
        let settled = self.store.finish_jobs(self.time(self.now)).await?;
        self.settled |= !settled.is_empty();
        if self.woken || granted.ended > 0 {
            self.agenda.enter(self.now, Event::Wake);
        }
        Ok(())
    }

    /// Begins the next transaction, if none is under way.
    pub(super) fn write(&mut self) {
        if let Some(size) = self.mirror.begin() {
            self.counts.largest_group = self.counts.largest_group.max(size);
            let timings = self.settings.timings;
            let further = u32::try_from(size - 1).unwrap_or(u32::MAX);
            let takes = timings.commit + timings.commit_each * further;
            self.agenda.enter(self.now + millis(takes), Event::Written);
        }
    }

    async fn written(&mut self) -> Result<(), SimulationError> {
        let (changes, origins) = self.mirror.end();
        let outcomes = self.store.commit(&changes, self.time(self.now)).await?;
        let mut wakes = false;
        for (outcome, origin) in outcomes.into_iter().zip(origins) {
            self.note(&outcome);
            match origin {
                Origin::Pass(number) => {
                    if let Some(pass) = &mut self.pass {
                        pass.outcomes[number] = Some(outcome);
                        pass.missing -= 1;
                    }
                }
                Origin::Pool(address, fence) => {
                    self.recorded(address, &fence);
                    wakes = true;
                }
                Origin::Orchestrator => wakes = true,
            }
        }
        self.write();
        // The changes of a pass may be in two transactions, where the first was full.
        if let Some(pass) = self.pass.take_if(|pass| pass.missing == 0) {
            self.pass_over(pass).await?;
        }
        if wakes {
            self.agenda.enter(self.now, Event::Wake);
        }
        Ok(())
    }

    fn note(&mut self, outcome: &Outcome) {
        match outcome {
            Outcome::Applied(task) if task.lease.is_none() && task.position != Position::Done => {
                let due = task
                    .not_before
                    .map(|due| (due - DateTime::UNIX_EPOCH).num_milliseconds());
                let ready = due.unwrap_or(self.now).max(self.now);
                self.counts.ready_since.insert(task.id, ready);
                let stage = runnable_stage(task, &self.job.pipeline, self.job.config.retry_scope);
                if let (Some(queues), Some(stage)) = (&mut self.queues, stage) {
                    queues.ready(stage, 1, self.now);
                }
            }
            Outcome::Applied(_) => {}
            Outcome::Fenced(_) => self.counts.fenced += 1,
            Outcome::Illegal(_) | Outcome::Refused(_) => self.counts.audit.illegal_changes += 1,
        }
    }

    async fn reported(&mut self, address: Address, report: LeaseReport) -> Result<(), SimulationError> {
        let jitter = self.random.random_range(-1.0..=1.0);
        let fence = report.fence.clone();
        let losses = self.settings.timings.max_interruptions;
        let now = std::future::ready(Ok(self.time(self.now)));
        let change = change_for(&*self.store, report, losses, jitter, now).await?;
        self.mirror.add(change, Origin::Pool(address, fence));
        self.write();
        Ok(())
    }

    fn undelivered(&mut self, address: Address, fence: Fence) {
        self.counts.undelivered += 1;
        if self.nodes[address.node].incarnation == address.incarnation {
            self.suspend(address.node, address.pool);
        }
        let change = Change::new(Expected::Lease(fence), TaskEvent::Released);
        self.mirror.add(change, Origin::Orchestrator);
        self.write();
    }
}

/// First millisecond at which `time` has come. One too early would find nothing due, and come again at once without end.
fn not_before(time: DateTime<Utc>) -> Millis {
    let since = time - DateTime::UNIX_EPOCH;
    let whole = since.num_milliseconds();
    whole + Millis::from(since > TimeDelta::milliseconds(whole))
}
