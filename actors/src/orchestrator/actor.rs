use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use chrono::{DateTime, Utc};
use ractor::{Actor, ActorProcessingErr, ActorRef, RpcReplyPort};
use ractor_cluster::RactorMessage;
use tokio::sync::watch;
use tokio::time::Instant;
use tracing::{Instrument, Span, error, warn};

use super::committer::GroupCommitter;
use super::delivery::{Delivered, Handover};
use super::executor::{Executor, Unreachable};
use super::handle::{ORCHESTRATOR, OrchestratorConfig};
use super::job_names::JobNames;
use super::markers::{AfterRound, MarkerError, MarkerRounds};
use super::members::Members;
use super::plan::{PassLimits, node_lost};
use super::reconcile::{Pass, PassError, reconcile};
use super::unserved::{UnservedStages, unserved_stages};
use crate::detached;
use crate::telemetry::{
    AdvanceClock, LeaseLost, PassEnded, PoolJoined, PoolLeft, ReportAnswered, TaskReported, report_span,
};
use parkhang_core::domain::{
    ActorKind, ActorRecord, ActorState, AssignReply, Fence, JobKey, LeaseReport, LeaseStatus, Position,
    ReportReply, StageName, StageVerdict, Task, TaskStatus, WorkerId,
};
use parkhang_core::failpoint::Failpoint;
use parkhang_core::policy::service::charged;
use parkhang_state::{Change, Outcome, change_for};

/// Messages of the orchestrator. A pass takes nothing from them: whatever they announce, it reads from the store.
#[derive(RactorMessage)]
pub(super) enum OrchestratorMsg {
    Wake,
    /// The timer of passes that nobody asks for.
    FullPass,
    Register(Arc<dyn Executor>),
    /// A pool is to be given nothing more.
    Suspend(WorkerId),
    /// A pool is gone for good.
    Deregister(WorkerId),
    /// A pool has answered an assignment of this job.
    Delivered(WorkerId, JobKey, Fence, Delivered),
    Report(Box<LeaseReport>, RpcReplyPort<ReportReply>),
    Heartbeat(Vec<Fence>, RpcReplyPort<Vec<LeaseStatus>>),
    /// A report was recorded; true if it may have finished a task.
    Recorded(bool),
    WriteMarkers,
    MarkersWritten(Result<(), MarkerError>),
    PassEnded(Result<Pass, PassError>),
    Unserved(BTreeSet<StageName>),
    Drain,
    Describe(RpcReplyPort<Vec<ActorRecord>>),
}

/// Time limit for the group committer to describe itself.
const TIMEOUT: Duration = Duration::from_secs(1);

pub(super) struct OrchestratorState {
    config: OrchestratorConfig,
    /// Time since which nodes can find this orchestrator, and it the store.
    reached: Instant,
    since: DateTime<Utc>,
    unserved: UnservedStages,
    committer: GroupCommitter,
    members: Members,
    /// A pass is under way.
    passing: bool,
    /// Something happened since the pass under way began.
    woken: bool,
    draining: bool,
    changes: watch::Sender<u64>,
    advances: AdvanceClock,
    names: JobNames,
    markers: MarkerRounds,
}

pub(super) struct Orchestrator;

impl Actor for Orchestrator {
    type Msg = OrchestratorMsg;
    type State = OrchestratorState;
    type Arguments = (OrchestratorConfig, watch::Sender<u64>);

    async fn pre_start(
        &self,
        myself: ActorRef<OrchestratorMsg>,
        (config, changes): Self::Arguments,
    ) -> Result<OrchestratorState, ActorProcessingErr> {
        let committer = GroupCommitter::spawn(config.store.clone(), config.now, myself.get_cell()).await?;
        myself.cast(OrchestratorMsg::FullPass)?;
        Ok(OrchestratorState {
            unserved: UnservedStages::new(config.unserved.clone()),
            markers: MarkerRounds::new(config.store.clone(), config.markers.clone()),
            since: (config.now)(),
            config,
            reached: Instant::now(),
            committer,
            members: Members::default(),
            passing: false,
            woken: false,
            draining: false,
            changes,
            advances: AdvanceClock::default(),
            names: JobNames::default(),
        })
    }

    async fn handle(
        &self,
        myself: ActorRef<OrchestratorMsg>,
        message: OrchestratorMsg,
        state: &mut OrchestratorState,
    ) -> Result<(), ActorProcessingErr> {
        match message {
            OrchestratorMsg::Wake => state.wake(&myself),
            OrchestratorMsg::FullPass => {
                state.wake(&myself);
                state.look_for_deserted_stages(&myself);
                state.write_markers(&myself);
                detached::send_later(&myself, state.full_pass(), OrchestratorMsg::FullPass);
            }
            OrchestratorMsg::Register(pool) => {
                PoolJoined {
                    worker: &pool.info().worker,
                    stage: &pool.info().stage,
                    slots: pool.info().slots,
                }
                .emit();
                // The others were asked to drain before this pool joined.
                if state.draining {
                    pool.drain();
                }
                state.members.join(pool);
                state.wake(&myself);
                state.look_for_deserted_stages(&myself);
            }
            OrchestratorMsg::Suspend(worker) => drop(state.members.suspend(&worker)),
            OrchestratorMsg::Deregister(worker) => {
                if state.members.remove(&worker) {
                    PoolLeft { worker: &worker }.emit();
                    state.end_leases(worker, &myself);
                }
            }
            OrchestratorMsg::Delivered(worker, job, fence, answer) => {
                state.delivered(&worker, (job, fence), answer, &myself);
            }
            OrchestratorMsg::Report(report, reply) => state.record(*report, reply, &myself),
            OrchestratorMsg::Heartbeat(fences, reply) => state.renew(fences, reply),
            OrchestratorMsg::Recorded(has_ended) => {
                state.members.end_backoffs();
                state.announce();
                state.wake(&myself);
                if has_ended {
                    state.write_markers(&myself);
                }
            }
            OrchestratorMsg::WriteMarkers => state.write_markers(&myself),
            OrchestratorMsg::MarkersWritten(result) => match state.markers.ended(result) {
                AfterRound::Rest => {}
                AfterRound::Again => state.write_markers(&myself),
                AfterRound::Retry(delay) => {
                    detached::send_later(&myself, delay, OrchestratorMsg::WriteMarkers)
                }
            },
            // Pools that leave because they are drained are not missed.
            OrchestratorMsg::Unserved(_) if state.draining => {}
            OrchestratorMsg::Unserved(stages) => state.unserved.found(stages, &state.members.stages()),
            OrchestratorMsg::PassEnded(result) => state.pass_ended(result, &myself),
            OrchestratorMsg::Drain => {
                state.draining = true;
                state.members.drain();
            }
            OrchestratorMsg::Describe(reply) => state.describe(reply),
        }
        Ok(())
    }

    async fn post_stop(
        &self,
        _: ActorRef<OrchestratorMsg>,
        state: &mut OrchestratorState,
    ) -> Result<(), ActorProcessingErr> {
        state.committer.stop();
        Ok(())
    }
}

impl OrchestratorState {
    /// Sends descriptions of the orchestrator and its group committer.
    fn describe(&self, reply: RpcReplyPort<Vec<ActorRecord>>) {
        let orchestrator = ActorRecord {
            since: Some(self.since),
            ..ActorRecord::new(
                ORCHESTRATOR,
                ActorKind::Orchestrator,
                ActorState::busy(self.passing),
            )
        };
        let committer = self.committer.clone();
        detached::spawn(async move {
            let committer = committer.describe(TIMEOUT).await.map(|committer| ActorRecord {
                parent: Some(ORCHESTRATOR.to_owned()),
                ..committer
            });
            // The caller may have timed out.
            let _ = reply.send([orchestrator].into_iter().chain(committer).collect());
        });
    }

    /// Starts a pass beside the actor, which must not wait for the store, or notes that another one is to follow.
    fn wake(&mut self, myself: &ActorRef<OrchestratorMsg>) {
        // One pass at a time: two would decide about the same free slots. However many messages come in meanwhile, one more
        // pass answers them all, since it reads everything anew.
        if self.passing {
            self.woken = true;
            return;
        }
        if self.draining {
            return;
        }
        self.passing = true;
        self.woken = false;
        let limits = PassLimits {
            lease: chrono::Duration::from_std(self.config.lease).unwrap_or(chrono::Duration::seconds(60)),
            max_interruptions: self.config.max_interruptions,
            ends_leases: self.has_been_here(),
        };
        let (store, committer) = (self.config.store.clone(), self.committer.clone());
        let pools = self.members.accepting(Instant::now());
        let conduct = self.members.conduct(Instant::now());
        let (myself, advances) = (myself.clone(), self.advances.clone());
        detached::spawn(async move {
            let assign = |pool: &Arc<dyn Executor>, assignment, decided| {
                let handover = Handover {
                    committer: committer.clone(),
                    orchestrator: myself.clone(),
                    pool: pool.clone(),
                    decided,
                    advances: advances.clone(),
                    store: store.clone(),
                };
                detached::spawn(handover.assign(assignment));
            };
            let began = Instant::now();
            let result = reconcile(&store, &committer, (&pools, &conduct), &assign, limits).await;
            PassEnded {
                took: began.elapsed(),
                error: result.as_ref().err().map(|error| error as &dyn std::fmt::Display),
            }
            .emit();
            // Fails only when the orchestrator has stopped.
            let _ = myself.cast(OrchestratorMsg::PassEnded(result));
        });
    }

    /// Returns whether the nodes had the time to find this orchestrator, and to have leases renewed. While nobody led, or the store was
    /// away, no lease could be renewed, so none is ended before.
    fn has_been_here(&self) -> bool {
        self.reached.elapsed() >= self.config.lease / 2
    }

    /// Time between two passes that nobody asks for. No message announces that a lease runs out, so passes look for expired
    /// leases at least four times in the time of a lease.
    fn full_pass(&self) -> Duration {
        self.config.full_pass.min(self.config.lease / 4)
    }

    /// Looks for stages that no pool runs, except right after a takeover, when nodes have not found this orchestrator yet.
    fn look_for_deserted_stages(&self, myself: &ActorRef<OrchestratorMsg>) {
        if !self.has_been_here() {
            return;
        }
        let (store, pools, myself) = (self.config.store.clone(), self.members.pools(), myself.clone());
        detached::spawn(async move {
            match unserved_stages(&*store, pools).await {
                // Fails only when the orchestrator has stopped.
                Ok(stages) => drop(myself.cast(OrchestratorMsg::Unserved(stages))),
                Err(error) => warn!(%error, "cannot see which stages have no workers"),
            }
        });
    }

    fn pass_ended(&mut self, result: Result<Pass, PassError>, myself: &ActorRef<OrchestratorMsg>) {
        self.passing = false;
        match result {
            Ok(pass) => {
                for (worker, fences) in pass.cancelled {
                    self.members.cancel(&worker, fences);
                }
                if pass.progressed || !pass.finished.is_empty() {
                    self.announce();
                }
                // The tasks of these leases wait again, and this pass had read the ready ones already.
                self.woken |= pass.ended > 0;
                if let Some(delay) = pass.next_due.and_then(|due| until(due, pass.decided_at)) {
                    detached::send_later(myself, delay, OrchestratorMsg::Wake);
                }
            }
            // A pass fails because the store does, which would fail again if it were asked at once.
            Err(_) => {
                self.reached = Instant::now();
                detached::send_later(myself, Duration::from_secs(1), OrchestratorMsg::Wake);
            }
        }
        if self.woken {
            self.wake(myself);
        }
    }

    fn delivered(
        &mut self,
        worker: &WorkerId,
        (job, fence): (JobKey, Fence),
        answer: Delivered,
        myself: &ActorRef<OrchestratorMsg>,
    ) {
        match answer {
            // Nobody who waits for a change is told: a stage has begun, none has ended.
            Ok(AssignReply::Accepted) => return self.members.has_taken(worker, fence),
            Ok(AssignReply::Busy) => {
                let rest = self.members.had_no_room(worker, Instant::now());
                detached::send_later(myself, rest, OrchestratorMsg::Wake);
            }
            Ok(AssignReply::Draining) => {
                self.members.suspend(worker);
                self.wake(myself);
            }
            // A pool that does not answer would hold up one lease after the other. It registers again once it answers.
            Err(Unreachable) => {
                if let Some(pool) = self.members.suspend(worker) {
                    pool.probe();
                }
                self.wake(myself);
            }
            // The pass reads when the task is due again.
            Ok(AssignReply::Refused { reason }) => {
                warn!(%worker, %job, reason, "a pool refuses a job, and is offered nothing more of it for a while");
                self.members.has_refused(worker, job, Instant::now());
                self.wake(myself);
            }
            Ok(AssignReply::StaleEpoch { .. }) => {
                error!(%worker, "another orchestrator leads; this one stops");
                myself.stop(Some("deposed".to_owned()));
            }
        }
        self.announce();
    }

    /// Writes the end of a lease and answers its pool. The answer goes out after the commit, as the pool repeats its report until
    /// it has one: no verdict is lost with a leader that dies in between.
    fn record(
        &mut self,
        report: LeaseReport,
        reply: RpcReplyPort<ReportReply>,
        myself: &ActorRef<OrchestratorMsg>,
    ) {
        let (store, committer, myself) = (self.config.store.clone(), self.committer.clone(), myself.clone());
        let (max_interruptions, advances) = (self.config.max_interruptions, self.advances.clone());
        let jitter = rand::random_range(-1.0..=1.0);
        let names = self.names.clone();
        let own_limits = self.members.limits_of(&report.fence.stage);
        let (fence, verdict) = (report.fence.clone(), verdict_name(report.verdict.as_ref()));
        self.members
            .has_ended(&fence, report.verdict.as_ref(), Instant::now());
        let span = report_span(&fence);
        let recorded = async move {
            Failpoint::ReportReceived.pass();
            if verdict == "done" {
                advances.reported(fence.task);
            }
            let change = change_for(&*store, report, max_interruptions, jitter, store.now());
            let outcome = match change.await {
                Ok(change) => {
                    let event = match &own_limits {
                        Some(limits) => charged(change.event, limits),
                        None => change.event,
                    };
                    committer.commit(Change { event, ..change }).await.ok()
                }
                Err(error) => {
                    warn!(%error, "cannot read the task of a report");
                    None
                }
            };
            let (recording, answer) = match &outcome {
                Some(Outcome::Applied(task)) => {
                    TaskReported(task).emit();
                    let span = Span::current();
                    span.record("volume", tracing::field::display(&task.volume));
                    if let Some(job) = names.of(task.job_id, &*store).await {
                        span.record("job", tracing::field::display(job));
                    }
                    ("recorded", ReportReply::Recorded)
                }
                Some(Outcome::Fenced(_)) => ("fenced", ReportReply::Fenced),
                Some(Outcome::Illegal(reason)) => {
                    warn!(reason, "a report asked for an illegal transition");
                    ("illegal", ReportReply::Fenced)
                }
                Some(Outcome::Refused(reason)) => {
                    warn!(reason, "the database refuses a report; the lease runs out");
                    ("refused", ReportReply::Fenced)
                }
                None => ("unrecorded", ReportReply::Unrecorded),
            };
            let goes_on = |task: &Task| task.position != Position::Done;
            let has_ended = |task: &Task| !goes_on(task) || task.status == TaskStatus::Failed;
            let has_ended = matches!(&outcome, Some(Outcome::Applied(task)) if has_ended(task));
            if !matches!(&outcome, Some(Outcome::Applied(task)) if goes_on(task)) {
                advances.forget(fence.task);
            }
            ReportAnswered {
                stage: &fence.stage,
                verdict,
                recording,
            }
            .emit();
            if answer != ReportReply::Unrecorded {
                Failpoint::ReportCommitted.pass();
                // Fails only when the orchestrator has stopped; the change is written all the same.
                let _ = myself.cast(OrchestratorMsg::Recorded(has_ended));
            }
            // A pool that stopped meanwhile needs no answer.
            let _ = reply.send(answer);
        };
        detached::spawn(recorded.instrument(span));
    }

    fn renew(&self, fences: Vec<Fence>, reply: RpcReplyPort<Vec<LeaseStatus>>) {
        let (store, lease) = (self.config.store.clone(), self.config.lease);
        detached::spawn(async move {
            let renewed = async { store.renew_leases(&fences, store.now().await? + lease).await };
            let statuses = renewed.await.unwrap_or_else(|error| {
                warn!(%error, "cannot renew leases now");
                // Nobody is told of a loss that is not certain: the stages would throw away work whose leases still stand.
                vec![LeaseStatus::Held; fences.len()]
            });
            // A pool that stopped meanwhile needs no answer.
            let _ = reply.send(statuses);
        });
    }

    /// Ends the leases of a pool that is gone, so that its tasks need not wait for them to expire.
    fn end_leases(&self, worker: WorkerId, myself: &ActorRef<OrchestratorMsg>) {
        let (store, committer, myself) = (self.config.store.clone(), self.committer.clone(), myself.clone());
        let max_interruptions = self.config.max_interruptions;
        detached::spawn(async move {
            let held = match store.leased_to(&worker).await {
                Ok(held) => held,
                // The leases expire by themselves.
                Err(error) => return warn!(%error, "cannot end the leases of a dead pool"),
            };
            let changes = held
                .iter()
                .map(|task| node_lost(task, max_interruptions))
                .collect();
            // Both fail only when the orchestrator has stopped.
            let outcomes = committer.commit_all(changes).await.unwrap_or_default();
            for outcome in &outcomes {
                if let Outcome::Applied(task) = outcome {
                    LeaseLost(task).emit();
                }
            }
            let _ = myself.cast(OrchestratorMsg::Recorded(true));
        });
    }

    fn write_markers(&mut self, myself: &ActorRef<OrchestratorMsg>) {
        if let Some(round) = self.markers.begin() {
            let myself = myself.clone();
            // A cast fails only when the orchestrator has stopped; the next leader writes the markers that are due.
            detached::spawn(async move { drop(myself.cast(OrchestratorMsg::MarkersWritten(round.await))) });
        }
    }

    /// Wakes those who wait for a job.
    fn announce(&self) {
        self.changes.send_modify(|version| *version += 1);
    }
}

fn verdict_name(verdict: Option<&StageVerdict>) -> &'static str {
    match verdict {
        Some(StageVerdict::Succeeded(_)) => "done",
        Some(StageVerdict::Failed(_)) => "failed",
        Some(StageVerdict::Interrupted) => "interrupted",
        None => "died",
    }
}

fn until(due: DateTime<Utc>, now: DateTime<Utc>) -> Option<Duration> {
    (due - now).to_std().ok()
}
