//! Simulated nodes: they join, run the stages they are assigned, send heartbeats, and end, announced or not.

use rand::Rng;

use super::devices::Repair;
use super::work::{Fate, Remains, Run, exponential};
use super::{Engine, Event, Origin};
use crate::agenda::Millis;
use crate::error::SimulationError;
use crate::settings::{NodeClass, millis};
use parkhang_core::domain::{
    Assignment, ErrorCategory, Fence, LeaseReport, PoolInfo, StageError, StageReport, StageVerdict, WorkerId,
};
use parkhang_core::policy::poison::{Loss, lost_lease};
use parkhang_state::{Change, Expected, StateStore};

/// Address of a pool in one incarnation of its node. Messages under way may hold it when the node has another.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Address {
    pub node: usize,
    pub incarnation: u32,
    pub pool: usize,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Condition {
    Up,
    Draining,
    Down,
}

#[derive(Debug)]
pub(crate) struct Node {
    pub class: usize,
    pub has_sick_device: bool,
    pub incarnation: u32,
    pub(super) condition: Condition,
    since: Millis,
    pub up: Millis,
    /// Time of the launch, while the node is to run.
    pub launched: Option<Millis>,
    /// Time for which the node was to run in earlier launches.
    pub paid: Millis,
    /// Time before which the node cannot join.
    pub ready_at: Millis,
    pub pools: Vec<StagePool>,
}

#[derive(Debug)]
pub(crate) struct StagePool {
    pub worker: WorkerId,
    stage: usize,
    /// Runs under way.
    pub running: Vec<u64>,
    /// Leases that the pool holds: those of the runs, and those whose report is not recorded yet.
    pub leases: Vec<Fence>,
    pub repair: Repair,
}

impl Node {
    pub(crate) fn new(class: usize, has_sick_device: bool, stages: impl Iterator<Item = usize>) -> Self {
        Self {
            class,
            has_sick_device,
            incarnation: 0,
            condition: Condition::Down,
            since: 0,
            up: 0,
            launched: None,
            paid: 0,
            ready_at: 0,
            pools: stages
                .map(|stage| StagePool {
                    worker: WorkerId(String::new()),
                    stage,
                    running: Vec::new(),
                    leases: Vec::new(),
                    repair: Repair::default(),
                })
                .collect(),
        }
    }

    pub(crate) fn up_until(&self, now: Millis) -> Millis {
        match self.condition {
            Condition::Up | Condition::Draining => self.up + now - self.since,
            Condition::Down => self.up,
        }
    }

    pub(crate) fn paid_until(&self, now: Millis) -> Millis {
        self.paid + self.launched.map_or(0, |since| now - since)
    }

    pub(crate) fn is_down(&self) -> bool {
        self.condition == Condition::Down
    }

    /// Whether it is there and does nothing.
    pub(crate) fn is_idle(&self) -> bool {
        let rests =
            |pool: &StagePool| pool.running.is_empty() && pool.leases.is_empty() && pool.repair.is_over();
        self.condition == Condition::Up && self.pools.iter().all(rests)
    }
}

impl Engine {
    pub(super) fn class_of(&self, node: usize) -> NodeClass {
        self.settings.fleet[self.nodes[node].class]
    }

    pub(super) fn is_up(&self, node: usize, incarnation: u32) -> bool {
        self.nodes[node].incarnation == incarnation && self.nodes[node].condition != Condition::Down
    }

    pub(crate) async fn join(&mut self, node: usize) -> Result<(), SimulationError> {
        let joining = &mut self.nodes[node];
        // An entry of the agenda is never taken back: the node may have been retired, or put off, since it
        // was made.
        if joining.launched.is_none() || !joining.is_down() || self.now < joining.ready_at {
            return Ok(());
        }
        joining.incarnation += 1;
        joining.condition = Condition::Up;
        joining.since = self.now;
        let incarnation = joining.incarnation;
        for pool in 0..joining.pools.len() {
            self.nodes[node].pools[pool].repair.begin_anew();
            self.offer(Address {
                node,
                incarnation,
                pool,
            });
        }
        let faults = self.settings.faults;
        if !faults.between.is_zero() {
            let end = self.now + exponential(&mut self.random, millis(faults.between));
            if self.random.random_bool(faults.announced.clamp(0.0, 1.0)) {
                self.agenda.enter(end, Event::Announce(node, incarnation));
            } else {
                self.agenda.enter(end, Event::End(node, incarnation));
            }
        }
        let heartbeat = millis(self.settings.timings.heartbeat).max(1);
        // At a random time within the interval, or all nodes of a fleet that starts at once would beat at once.
        let first = self.now + self.random.random_range(1..=heartbeat);
        self.agenda.enter(first, Event::Beat(node, incarnation));
        self.wake().await
    }

    /// A pool without any lease is there for work, under a name of its own.
    pub(super) fn offer(&mut self, address: Address) {
        let class = self.class_of(address.node);
        let node = address.node;
        let pool = &mut self.nodes[node].pools[address.pool];
        let stage = &self.settings.profile.stages[pool.stage].stage;
        let (hardware, renewals) = (class.hardware.as_str(), pool.repair.renewals());
        pool.worker = WorkerId(format!("{hardware}-{node}/{stage}/{renewals}"));
        pool.running.clear();
        pool.leases.clear();
        self.addresses.insert(pool.worker.clone(), address);
        if let Some(queues) = &mut self.queues {
            queues.joined(address, self.now);
        }
        self.offers.push(PoolInfo {
            worker: pool.worker.clone(),
            stage: stage.clone(),
            slots: class.slots,
            models: Vec::new(),
        });
    }

    pub(crate) fn arrive(&mut self, address: Address, assignment: Assignment) {
        let fence = assignment.fence;
        if !self.is_up(address.node, address.incarnation) {
            let given_up = self.now + millis(self.settings.timings.call_timeout);
            return self.agenda.enter(given_up, Event::Undelivered(address, fence));
        }
        // A node that drains says so at once, as one does whose stage is being renewed; one that is gone is given up only after the
        // call has timed out.
        let node = &self.nodes[address.node];
        if node.condition == Condition::Draining || node.pools[address.pool].repair.rests() {
            return self.agenda.enter(self.now, Event::Undelivered(address, fence));
        }
        let slots = self.class_of(address.node).slots;
        let pool = &mut self.nodes[address.node].pools[address.pool];
        if pool.running.len() >= slots {
            self.counts.audit.overbooked_slots += 1;
        }
        if self.running_tasks.contains_key(&fence.task) {
            self.counts.audit.doubled_tasks += 1;
        }
        let (run, number) = (self.begin(address, fence), self.next_run);
        self.next_run += 1;
        let share = self.random.random::<f64>();
        let whole = run.whole_time();
        // A failure may come at any moment of a run.
        let takes = match run.fate {
            Fate::Succeeds | Fate::Stops => whole,
            Fate::Fails | Fate::KillsItsWorker => ((share * whole as f64) as Millis).max(1),
        };
        let pool = &mut self.nodes[address.node].pools[address.pool];
        pool.running.push(number);
        pool.leases.push(run.fence.clone());
        let free = slots.saturating_sub(pool.leases.len());
        if let Some(queues) = &mut self.queues {
            queues.received(address, &run.fence, free + 1, free, self.now);
        }
        self.running_tasks.insert(run.fence.task, number);
        self.agenda
            .enter(self.now + takes, Event::RunEnds(number, run.version));
        self.runs.insert(number, run);
        self.works_under(address, number);
    }

    fn begin(&mut self, address: Address, fence: Fence) -> Run {
        let stage = self.nodes[address.node].pools[address.pool].stage;
        if let Some(ready) = self.counts.ready_since.remove(&fence.task) {
            let waited = (self.now - ready).max(0) as f32 / 1000.0;
            self.counts.stages[stage].waits.push(waited);
        }
        let volume = self.volumes[&fence.task];
        let per_page = &self.settings.profile.stages[stage].seconds_per_page;
        let fails = self
            .random
            .random_bool(self.settings.faults.failing_runs.clamp(0.0, 1.0));
        // In the stage with the most work, where a poison volume costs most.
        let fate = if volume.is_poison && stage == self.heaviest_stage {
            Fate::KillsItsWorker
        } else if fails {
            Fate::Fails
        } else {
            Fate::Succeeds
        };
        let speed = self.class_of(address.node).speed / self.slowness(address.node);
        Run {
            address,
            stage,
            began: self.now,
            pages: volume.pages,
            stood: self.standing.get(&(fence.task, stage)).copied().unwrap_or(0),
            page_ms: per_page.quantile(volume.pace) * 1000.0 / speed,
            fate,
            hung: None,
            version: 0,
            fence,
        }
    }

    pub(crate) fn run_ends(&mut self, number: u64, version: u32) {
        // A run that was told to stop has another end than the one foreseen.
        if self.runs.get(&number).is_none_or(|run| run.version != version) {
            return;
        }
        let Some(run) = self.runs.remove(&number) else {
            return;
        };
        let ends = &mut self.counts.ends;
        let (verdict, remains) = match run.fate {
            Fate::Succeeds => {
                self.counts.stages[run.stage].succeeded += 1;
                let verdict = StageVerdict::Succeeded(StageReport::default());
                (Some(verdict), run.saved(self.now))
            }
            Fate::Stops => {
                ends.drained += 1;
                (Some(StageVerdict::Interrupted), run.saved(self.now))
            }
            Fate::Fails => {
                ends.failed += 1;
                let stage = run.fence.stage.as_str();
                let error = StageError::new(stage, ErrorCategory::Network, "the store was away");
                (Some(StageVerdict::Failed(error)), run.saved(self.now))
            }
            // A worker that dies leaves no verdict, and saves nothing.
            Fate::KillsItsWorker => {
                ends.crashed += 1;
                (None, run.cut_off(self.now, self.settings.config.checkpoint_pages))
            }
        };
        self.account(&run, remains);
        if let Some(queues) = &mut self.queues {
            queues.completed(run.address, &run.fence, run.fate == Fate::Stops, self.now);
        }
        let pool = &mut self.nodes[run.address.node].pools[run.address.pool];
        pool.running.retain(|other| *other != number);
        if run.fate == Fate::Succeeds {
            pool.repair.has_succeeded();
            self.works(run.address);
        }
        self.report(run.address, run.fence, verdict);
    }

    pub(super) fn report(&mut self, address: Address, fence: Fence, verdict: Option<StageVerdict>) {
        let received = self.now + millis(self.settings.timings.message);
        let report = Box::new(LeaseReport { fence, verdict });
        self.agenda.enter(received, Event::Reported(address, report));
    }

    pub(super) fn account(&mut self, run: &Run, remains: Remains) {
        self.running_tasks.remove(&run.fence.task);
        self.standing.insert((run.fence.task, run.stage), remains.stand);
        let class = self.nodes[run.address.node].class;
        *self.counts.busy.entry((class, run.stage)).or_default() += self.now - run.began;
        let stage = &mut self.counts.stages[run.stage];
        stage.pages += u64::from(remains.worked);
        stage.lost_pages += u64::from(remains.lost_pages);
        self.counts.lost += remains.lost;
    }

    /// The report of a lease is recorded: its slot is free.
    pub(crate) fn recorded(&mut self, address: Address, fence: &Fence) {
        let condition = self.nodes[address.node].condition;
        if self.nodes[address.node].incarnation == address.incarnation {
            let pool = &mut self.nodes[address.node].pools[address.pool];
            pool.leases.retain(|held| held != fence);
            pool.repair.recorded(fence);
            if let Some(queues) = self.queues.as_mut().filter(|_| condition == Condition::Up) {
                queues.has_room(address, self.now);
            }
        }
    }

    pub(crate) async fn beat(&mut self, node: usize, incarnation: u32) -> Result<(), SimulationError> {
        if !self.is_up(node, incarnation) {
            return Ok(());
        }
        // Straight to the store and not through the group committer, as in the real orchestrator: renewals change no task.
        let timings = self.settings.timings;
        let until = self.time(self.now + millis(timings.lease));
        for pool in &self.nodes[node].pools {
            let leases = pool.repair.beside(&pool.leases);
            if !leases.is_empty() {
                self.store.renew_leases(&leases, until).await?;
                if let Some(queues) = &mut self.queues {
                    queues.renewed(&leases, self.now);
                }
            }
        }
        if self.settings.sick.is_some() {
            let progress = self.progress_of(node);
            self.store.note_progress(&progress).await?;
        }
        let next = self.now + millis(timings.heartbeat).max(1);
        self.agenda.enter(next, Event::Beat(node, incarnation));
        Ok(())
    }

    /// The node is told that it will end: it takes nothing more, and what it runs stops at the next page.
    pub(crate) fn announce(&mut self, node: usize, incarnation: u32) {
        if !self.is_up(node, incarnation) {
            return;
        }
        self.nodes[node].condition = Condition::Draining;
        if let Some(queues) = &mut self.queues {
            queues.left(node, self.now);
        }
        let numbers: Vec<u64> = self.nodes[node]
            .pools
            .iter()
            .flat_map(|pool| pool.running.clone())
            .collect();
        for number in numbers {
            // One that hangs comes to no end of a page.
            if let Some(run) = self.runs.get_mut(&number).filter(|run| run.hung.is_none()) {
                let ends = run.page_ends(self.now);
                // A run at its last page ends as it would have without the notice.
                if ends < run.began + run.whole_time() {
                    run.fate = Fate::Stops;
                }
                run.version += 1;
                self.agenda.enter(ends, Event::RunEnds(number, run.version));
            }
        }
        let end = self.now + millis(self.settings.faults.notice);
        self.counts.announced_ends += 1;
        self.agenda.enter(end, Event::End(node, incarnation));
    }

    pub(crate) fn end(&mut self, node: usize, incarnation: u32) {
        if !self.is_up(node, incarnation) {
            return;
        }
        self.counts.node_ends += 1;
        let suspected = self.take_down(node, incarnation);
        let back = self.now + exponential(&mut self.random, millis(self.settings.faults.repair));
        // The suspicion is of this incarnation and would be ignored once there is another, with the old pools still on offer.
        let back = back.max(suspected);
        self.nodes[node].ready_at = back;
        self.agenda.enter(back, Event::Join(node));
    }

    /// An idle node leaves in order, and does not come back by itself.
    pub(crate) fn retire(&mut self, node: usize) {
        let retiring = &mut self.nodes[node];
        retiring.paid = retiring.paid_until(self.now);
        retiring.launched = None;
        if !retiring.is_down() {
            // As one that has drained: its session ends in order, and nobody waits for a silence.
            retiring.condition = Condition::Draining;
            let incarnation = retiring.incarnation;
            self.take_down(node, incarnation);
        }
    }

    /// Ends the runs of a node; returns the time at which the orchestrator no longer assigns to it.
    pub(super) fn take_down(&mut self, node: usize, incarnation: u32) -> Millis {
        let ending = &mut self.nodes[node];
        let drained = ending.condition == Condition::Draining;
        ending.up += self.now - ending.since;
        ending.condition = Condition::Down;
        let numbers: Vec<u64> = ending
            .pools
            .iter_mut()
            .flat_map(|pool| std::mem::take(&mut pool.running))
            .collect();
        for number in numbers {
            if let Some(run) = self.runs.remove(&number) {
                self.counts.ends.killed += 1;
                let remains = run.cut_off(self.now, self.settings.config.checkpoint_pages);
                self.account(&run, remains);
                if let Some(queues) = &mut self.queues {
                    queues.lost(&run.fence);
                }
            }
        }
        if let Some(queues) = &mut self.queues {
            queues.left(node, self.now);
        }
        let timings = self.settings.timings;
        // A process that drained closes its session; a machine that was cut off is only silent.
        let silence = if drained { 0 } else { millis(timings.silence) };
        let suspected = self.now + silence;
        self.agenda.enter(suspected, Event::Suspect(node, incarnation));
        let forgotten = suspected + millis(timings.grace);
        let workers = self.nodes[node].pools.iter().map(|pool| pool.worker.clone());
        self.agenda.enter(forgotten, Event::Forget(workers.collect()));
        suspected
    }

    pub(crate) fn suspect(&mut self, node: usize, incarnation: u32) {
        if self.nodes[node].incarnation == incarnation {
            for pool in 0..self.nodes[node].pools.len() {
                self.suspend(node, pool);
            }
        }
    }

    pub(crate) fn suspend(&mut self, node: usize, pool: usize) {
        let worker = &self.nodes[node].pools[pool].worker;
        self.offers.retain(|offer| offer.worker != *worker);
    }

    /// The workers are gone for good: their leases end.
    pub(crate) async fn forget(&mut self, workers: Vec<WorkerId>) -> Result<(), SimulationError> {
        for worker in workers {
            self.addresses.remove(&worker);
            for task in self.store.leased_to(&worker).await? {
                let losses = self.settings.timings.max_interruptions;
                let event = lost_lease(&task, Loss::Node, losses);
                self.mirror
                    .add(Change::new(Expected::of(&task), event), Origin::Orchestrator);
            }
        }
        self.write();
        Ok(())
    }
}
