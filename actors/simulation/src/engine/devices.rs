//! Sick devices, and what their nodes do about them. The remedies are those of the real node, [`PoolHealth`]; what its supervisor does
//! around them (renewing and testing the stage, holding the volumes that stood still until they are judged) is done again here.

use super::cluster::{Address, Condition};
use super::work::{Run, exponential};
use super::{Engine, Event};
use crate::agenda::Millis;
use crate::error::SimulationError;
use crate::settings::{SickDevices, Sickness, millis};
use parkhang_core::domain::{ErrorCategory, Fence, StageError, StageVerdict, Unfit};
use parkhang_core::policy::placement::Conduct;
use parkhang_core::policy::pool_health::{PAGES_OF_PROOF, PoolHealth, Remedy};

/// Time of a pass that fails, or answers the test.
const PASS: Millis = 1_000;
/// Time until a node that ended itself is there again: its service manager starts it, and it loads its models.
const RESTART: Millis = 30_000;
/// Times that a slow device takes as long as the others.
const SLOWNESS: f64 = 20.0;

/// Event of a device, or a finding about it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Step {
    /// It hangs or fails under this run.
    Faults(u64),
    /// Nothing has come back for as long as a node waits.
    StandsStill,
    /// The test is over, or given up; a stage has complained of the device before it, or not.
    Tested { complaint: bool },
    /// This run has read so many pages that the device works.
    ReadsPages(u64),
    /// Without work, the renewed device has had the time to show that it works.
    WaitedFor,
}

/// Cause of a stage that stood still.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Culprit {
    Volumes,
    Device,
}

/// Repair of a stage on its node.
#[derive(Debug, Default)]
pub(crate) struct Repair {
    health: PoolHealth,
    renewals: u32,
    /// A run has succeeded since the stage was there anew.
    succeeded: bool,
    /// No work is taken: it is being renewed and tested, or out of service.
    rests: bool,
    /// Leases of volumes that stood still, until it is known who is to blame.
    accused: Vec<Fence>,
}

impl Repair {
    /// The process is a new one.
    pub(crate) fn begin_anew(&mut self) {
        *self = Self {
            renewals: self.renewals + 1,
            ..Self::default()
        };
    }

    pub(crate) const fn renewals(&self) -> u32 {
        self.renewals
    }

    pub(crate) const fn rests(&self) -> bool {
        self.rests
    }

    pub(crate) const fn is_over(&self) -> bool {
        self.accused.is_empty()
    }

    pub(crate) const fn has_succeeded(&mut self) {
        self.succeeded = true;
    }

    pub(crate) fn recorded(&mut self, fence: &Fence) {
        self.accused.retain(|held| held != fence);
    }

    /// These leases, and those that wait for a judgement.
    pub(crate) fn beside(&self, leases: &[Fence]) -> Vec<Fence> {
        [leases, &self.accused].concat()
    }
}

impl Engine {
    fn sick_device(&self, node: usize) -> Option<SickDevices> {
        self.settings.sick.filter(|_| self.nodes[node].has_sick_device)
    }

    /// Times that a page takes as long as on a healthy device.
    pub(crate) fn slowness(&self, node: usize) -> f64 {
        match self.sick_device(node) {
            Some(device) if device.sickness == Sickness::Slow => SLOWNESS,
            _ => 1.0,
        }
    }

    fn repair(&mut self, address: Address) -> &mut Repair {
        &mut self.nodes[address.node].pools[address.pool].repair
    }

    fn enter(&mut self, after: Millis, address: Address, step: Step) {
        let renewals = self.repair(address).renewals;
        self.agenda
            .enter(self.now + after, Event::Device(address, renewals, step));
    }

    /// A run begins: what its device will do under it.
    pub(crate) fn works_under(&mut self, address: Address, number: u64) {
        let (Some(device), Some(run)) = (self.sick_device(address.node), self.runs.get(&number)) else {
            return;
        };
        let page_ms = run.page_ms;
        let fault = match device.sickness {
            Sickness::Hangs | Sickness::Fails => Some(PASS),
            Sickness::HangsAtTimes | Sickness::FailsAtTimes => {
                let mean = (device.pages_between * page_ms) as Millis;
                Some(exponential(&mut self.random, mean))
            }
            Sickness::Slow => None,
        };
        if let Some(after) = fault {
            self.enter(after, address, Step::Faults(number));
        }
        let proof = (PAGES_OF_PROOF as f64 * page_ms).ceil() as Millis;
        self.enter(proof, address, Step::ReadsPages(number));
    }

    pub(crate) async fn device(
        &mut self,
        address: Address,
        renewals: u32,
        step: Step,
    ) -> Result<(), SimulationError> {
        let Some(device) = self.sick_device(address.node) else {
            return Ok(());
        };
        if !self.is_up(address.node, address.incarnation) || self.repair(address).renewals != renewals {
            return Ok(());
        }
        let limits = device.health.faults;
        let at_work = |number: &u64| self.runs.get(number).is_some_and(|run| run.hung.is_none());
        match step {
            Step::Faults(number) if at_work(&number) => self.faults(address, device),
            Step::ReadsPages(number) if at_work(&number) => self.works(address),
            Step::Faults(_) | Step::ReadsPages(_) => {}
            Step::StandsStill => {
                self.retire_pool(address);
                // Those of an earlier stall waited for this device to show whether it works.
                self.judge(address, Culprit::Device);
                for run in self.cut_off(address) {
                    self.repair(address).accused.push(run.fence);
                }
                let remedy = self.repair(address).health.stalled(limits);
                self.act(address, device, remedy);
            }
            Step::Tested { complaint } => {
                let remedy = match device.sickness {
                    Sickness::Hangs => self.repair(address).health.silent(limits),
                    Sickness::HangsAtTimes | Sickness::FailsAtTimes if !complaint => {
                        return self.resume(address, device).await;
                    }
                    _ => {
                        let unfit = Unfit::Device("it does not compute".to_owned());
                        self.repair(address).health.failed(&unfit, limits)
                    }
                };
                self.judge(address, Culprit::Device);
                self.act(address, device, remedy);
            }
            Step::WaitedFor => {
                let pool = &self.nodes[address.node].pools[address.pool];
                if pool.leases.is_empty() {
                    self.judge(address, Culprit::Volumes);
                } else {
                    let soon = millis(self.settings.timings.heartbeat).max(1);
                    self.enter(soon, address, Step::WaitedFor);
                }
            }
        }
        Ok(())
    }

    /// The runs of a pool, which end here.
    fn ended_runs(&mut self, address: Address) -> Vec<Run> {
        let numbers = std::mem::take(&mut self.nodes[address.node].pools[address.pool].running);
        numbers
            .iter()
            .filter_map(|number| self.runs.remove(number))
            .collect()
    }

    /// Runs of a pool, which end here without the pages that are in no part.
    fn cut_off(&mut self, address: Address) -> Vec<Run> {
        let runs = self.ended_runs(address);
        for run in &runs {
            let remains = run.cut_off(self.now, self.settings.config.checkpoint_pages);
            self.account(run, remains);
        }
        runs
    }

    /// Ends a lease of a run that has ended.
    fn give_back(&mut self, address: Address, fence: Fence, verdict: StageVerdict) {
        if let Some(queues) = &mut self.queues {
            queues.completed(address, &fence, true, self.now);
        }
        self.report(address, fence, Some(verdict));
    }

    /// The device hangs or fails: all that its stage runs hangs or fails with it.
    fn faults(&mut self, address: Address, device: SickDevices) {
        self.counts.devices.faults += 1;
        match device.sickness {
            Sickness::Hangs | Sickness::HangsAtTimes => {
                for number in self.nodes[address.node].pools[address.pool].running.clone() {
                    if let Some(run) = self.runs.get_mut(&number) {
                        run.hung = Some(self.now);
                        run.version += 1;
                    }
                }
                self.enter(millis(device.health.progress_window), address, Step::StandsStill);
            }
            _ => {
                self.retire_pool(address);
                self.judge(address, Culprit::Device);
                for run in self.ended_runs(address) {
                    self.account(&run, run.stopped(self.now));
                    let stage = run.fence.stage.as_str();
                    let error = StageError::new(stage, ErrorCategory::Node, "the device failed");
                    self.give_back(address, run.fence, StageVerdict::Failed(error));
                }
                self.enter(PASS, address, Step::Tested { complaint: true });
            }
        }
    }

    /// The pool takes no work any more, and what was to happen to it does not.
    fn retire_pool(&mut self, address: Address) {
        self.suspend(address.node, address.pool);
        let repair = self.repair(address);
        repair.rests = true;
        repair.succeeded = false;
        repair.renewals += 1;
    }

    fn act(&mut self, address: Address, device: SickDevices, remedy: Remedy) {
        match remedy {
            Remedy::Renew { after } | Remedy::Ask { after } => {
                let answer = match device.sickness {
                    Sickness::Hangs => millis(device.health.check_limit),
                    _ => PASS,
                };
                let tested = Step::Tested { complaint: false };
                self.enter(millis(after) + answer, address, tested);
            }
            Remedy::TakeOutOfService => self.counts.devices.out_of_service += 1,
            Remedy::EndNode => self.end_for_good(address),
        }
    }

    /// Gives the stage back to work.
    async fn resume(&mut self, address: Address, device: SickDevices) -> Result<(), SimulationError> {
        let repair = self.repair(address);
        repair.rests = false;
        let on_trial = !repair.accused.is_empty();
        self.offer(address);
        if on_trial {
            self.enter(millis(device.health.progress_window), address, Step::WaitedFor);
        }
        self.wake().await
    }

    /// A stage has read pages enough, or come to its end: its device works, and what stood still before is to blame.
    pub(crate) fn works(&mut self, address: Address) {
        self.repair(address).health.proven();
        self.judge(address, Culprit::Volumes);
    }

    fn judge(&mut self, address: Address, culprit: Culprit) {
        for fence in self.repair(address).accused.clone() {
            let verdict = match culprit {
                Culprit::Device => StageVerdict::Interrupted,
                Culprit::Volumes => {
                    self.counts.devices.blamed += 1;
                    let worker = &self.nodes[address.node].pools[address.pool].worker;
                    self.stood_still
                        .entry(worker.node().to_owned())
                        .or_default()
                        .insert(fence.task);
                    let stage = fence.stage.as_str();
                    StageVerdict::Failed(StageError::new(stage, ErrorCategory::Stalled, "no page finished"))
                }
            };
            self.repair(address).recorded(&fence);
            self.give_back(address, fence, verdict);
        }
    }

    /// The process gives back what it has and ends, as only that ends the threads which hang.
    fn end_for_good(&mut self, address: Address) {
        let Address {
            node, incarnation, ..
        } = address;
        self.counts.devices.node_ends += 1;
        for pool in 0..self.nodes[node].pools.len() {
            let address = Address { pool, ..address };
            self.judge(address, Culprit::Device);
            for run in self.cut_off(address) {
                self.give_back(address, run.fence, StageVerdict::Interrupted);
            }
        }
        self.nodes[node].condition = Condition::Draining;
        let back = self.take_down(node, incarnation).max(self.now + RESTART);
        self.nodes[node].ready_at = back;
        self.agenda.enter(back, Event::Join(node));
    }

    /// Record of what the pools have finished and of what stood still, which is empty where no device is sick.
    pub(crate) fn conduct(&self) -> Conduct {
        let pools = self.nodes.iter().flat_map(|node| &node.pools);
        let proven = pools.filter(|pool| self.settings.sick.is_some() && pool.repair.succeeded);
        Conduct {
            proven: proven.map(|pool| pool.worker.clone()).collect(),
            stood_still: self.stood_still.clone(),
            ..Conduct::default()
        }
    }

    /// Pages that the runs of a node have finished, as its heartbeats tell.
    pub(crate) fn progress_of(&self, node: usize) -> Vec<(Fence, i32)> {
        let pools = self.nodes[node].pools.iter();
        let runs = pools
            .flat_map(|pool| &pool.running)
            .filter_map(|number| self.runs.get(number));
        runs.map(|run| {
            let pages = i32::try_from(run.finished_pages(self.now)).unwrap_or(i32::MAX);
            (run.fence.clone(), pages)
        })
        .collect()
    }
}
