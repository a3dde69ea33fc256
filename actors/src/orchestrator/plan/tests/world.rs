//! Jobs in a store, pools that run their stages, and what must hold between them.

use std::collections::{BTreeMap, HashMap, HashSet};

use chrono::{DateTime, Duration, Utc};
use glob::Pattern;

use super::super::{PassLimits, Plan};
use parkhang_core::domain::testing::{at, new_job, pool, stage, volume};
use parkhang_core::domain::{
    Adjustment, ErrorCategory, Fence, JobConfig, JobId, JobStatus, LeaseStatus, NewJob, PoolInfo, StageError,
    StageName, StageRunStatus, Task, TaskId, TaskStatus, WorkerId,
};
use parkhang_core::policy::job_action::{self, JobAction};
use parkhang_core::policy::placement::{Conduct, Held};
use parkhang_core::policy::poison::{Loss, lost_lease};
use parkhang_core::policy::rerun::{Rerun, TaskFilter};
use parkhang_core::policy::transition::{Event, Phase, is_finished, is_terminal};
use parkhang_state::{Change, Expected, MemoryStore, Outcome, StateError, StateStore};

pub(super) const JOBS: usize = 3;
pub(super) const VOLUMES: usize = 3;
pub(super) const STAGES: [&str; 2] = ["detect", "read"];
const LIMITS: PassLimits = PassLimits {
    ends_leases: true,
    lease: Duration::seconds(30),
    max_interruptions: 4,
};

/// A stage that a pool runs.
#[derive(Debug, Clone)]
struct Run {
    worker: WorkerId,
    fence: Fence,
    /// Cut off: it neither renews its lease nor hears that it is over.
    frozen: bool,
}

pub(super) struct World {
    store: MemoryStore,
    now: DateTime<Utc>,
    pools: Vec<PoolInfo>,
    jobs: Vec<JobId>,
    runs: Vec<Run>,
    /// Every lease there has ever been.
    fences: HashSet<Fence>,
    /// The tasks as they were seen last.
    seen: HashMap<TaskId, Task>,
}

impl World {
    pub(super) async fn new() -> Self {
        let store = MemoryStore::new();
        let now = at(0);
        let mut jobs = Vec::new();
        for _ in 0..JOBS {
            let new = NewJob {
                volumes: (0..).take(VOLUMES).map(volume).collect(),
                ..new_job(&STAGES, 0)
            };
            jobs.push(store.create_job(&new, now).await.unwrap().id);
        }
        Self {
            store,
            now,
            pools: vec![
                pool("a", "detect", 1),
                pool("b", "detect", 2),
                pool("c", "read", 1),
                pool("d", "read", 1),
            ],
            jobs,
            runs: Vec::new(),
            fences: HashSet::new(),
            seen: HashMap::new(),
        }
    }

    /// A pass, as the orchestrator makes it, and what the pools make of it.
    pub(super) async fn pass(&mut self) {
        let before = self.store.leases(self.now).await.unwrap().held;
        let mut plan = Plan::make(
            &self.store,
            &self.pools,
            &BTreeMap::new(),
            &Conduct::default(),
            LIMITS,
            self.now,
        )
        .await
        .unwrap();
        let changes = std::mem::take(&mut plan.changes);
        let outcomes = self.store.commit(&changes, self.now).await.unwrap();
        for (change, outcome) in changes.iter().zip(&outcomes) {
            assert!(
                matches!(outcome, Outcome::Applied(_)),
                "nobody was in between: {change:?} {outcome:?}"
            );
        }
        let granted = plan.granted(outcomes);
        self.check_grants(&before).await;
        for (worker, fences) in granted.cancelled {
            let reported = |run: &Run| run.worker == worker && fences.contains(&run.fence) && !run.frozen;
            self.runs.retain(|run| !reported(run));
        }
        for (worker, assignment) in granted.assignments {
            assert!(
                self.fences.insert(assignment.fence.clone()),
                "a fence was used twice"
            );
            self.offer(worker, assignment.fence).await;
        }
        self.store.finish_jobs(self.now).await.unwrap();
    }

    /// A pool whose slots are taken, if only by stages that have not heard yet that they are unwanted, gives a lease back.
    async fn offer(&mut self, worker: WorkerId, fence: Fence) {
        let pool = self.pools.iter().find(|pool| pool.worker == worker).unwrap();
        assert_eq!(pool.stage, fence.stage);
        let taken = self.runs.iter().filter(|run| run.worker == worker).count();
        if taken < pool.slots {
            self.runs.push(Run {
                worker,
                fence,
                frozen: false,
            });
        } else {
            let outcome = self.end(fence, Event::Released).await;
            assert!(matches!(outcome, Outcome::Applied(_)), "{outcome:?}");
        }
    }

    async fn end(&mut self, fence: Fence, event: Event) -> Outcome {
        let change = Change::new(Expected::Lease(fence), event);
        self.store.commit(&[change], self.now).await.unwrap().remove(0)
    }

    /// Leases are given to running jobs within their limits, to pools with a free slot.
    async fn check_grants(&self, before: &[Held]) {
        let held = self.store.leases(self.now).await.unwrap().held;
        let leases = |held: &[Held], job: JobId, stage: Option<&StageName>| -> usize {
            let of_job = held.iter().filter(|held| held.job == job);
            let at_stage = of_job.filter(|held| stage.is_none_or(|stage| held.stage == *stage));
            at_stage.map(|held| held.leases).sum()
        };
        for pool in &self.pools {
            let of_pool = held.iter().filter(|held| held.worker == pool.worker);
            let taken: usize = of_pool.map(|held| held.leases).sum();
            assert!(taken <= pool.slots, "{taken} leases in {} slots", pool.slots);
            let mut of_pool = held.iter().filter(|held| held.worker == pool.worker);
            assert!(
                taken == 1 || of_pool.all(|held| held.suspects == 0),
                "a suspect has neighbours"
            );
        }
        let stages = STAGES.map(stage);
        for job in self.store.jobs().await.unwrap() {
            let grew = |stage| leases(&held, job.id, stage) > leases(before, job.id, stage);
            if !grew(None) {
                continue;
            }
            assert_eq!(job.status, JobStatus::Running);
            let limit = job.config.max_running;
            assert!(limit == 0 || leases(&held, job.id, None) <= limit);
            let limit = job.config.max_running_per_stage;
            for name in &stages {
                assert!(limit == 0 || !grew(Some(name)) || leases(&held, job.id, Some(name)) <= limit);
            }
        }
    }

    pub(super) async fn heartbeats(&mut self) {
        let live: Vec<&Run> = self.runs.iter().filter(|run| !run.frozen).collect();
        let until = self.now + LIMITS.lease;
        let fences: Vec<Fence> = live.iter().map(|run| run.fence.clone()).collect();
        let statuses = self.store.renew_leases(&fences, until).await.unwrap();
        for (fence, status) in fences.iter().zip(statuses) {
            match status {
                LeaseStatus::Held => {}
                LeaseStatus::Lost => self.runs.retain(|run| run.fence != *fence),
                LeaseStatus::Cancelled => {
                    self.end(fence.clone(), Event::Released).await;
                    self.runs.retain(|run| run.fence != *fence);
                }
            }
        }
    }

    pub(super) fn wait(&mut self, seconds: i64) {
        self.now += Duration::seconds(seconds);
    }

    fn take(&mut self, index: usize, frozen: bool) -> Option<Run> {
        let of_kind = |(_, run): &(usize, &Run)| run.frozen == frozen;
        let places: Vec<usize> = self
            .runs
            .iter()
            .enumerate()
            .filter(of_kind)
            .map(|(place, _)| place)
            .collect();
        let place = *places.get(index.checked_rem(places.len())?)?;
        Some(self.runs.swap_remove(place))
    }

    /// The run ends with `event`, which changes the task exactly if the run still holds its lease.
    async fn report(&mut self, run: Run, event: Event) {
        let task = self.store.task(run.fence.task).await.unwrap().unwrap();
        let holds = task.fence().as_ref() == Some(&run.fence);
        match self.end(run.fence, event).await {
            Outcome::Applied(_) => assert!(holds),
            Outcome::Fenced(now) => assert!(!holds && now == Some(task)),
            Outcome::Illegal(reason) | Outcome::Refused(reason) => panic!("{reason}"),
        }
    }

    pub(super) async fn succeed(&mut self, index: usize) {
        if let Some(run) = self.take(index, false) {
            self.report(run, Event::Succeeded).await;
        }
    }

    pub(super) async fn fail(&mut self, index: usize, category: ErrorCategory) {
        if let Some(run) = self.take(index, false) {
            let error = StageError::new(run.fence.stage.as_str(), category, "no");
            let not_before = Some(self.now + Duration::seconds(7));
            self.report(run, Event::Failed { error, not_before }).await;
        }
    }

    pub(super) async fn die(&mut self, index: usize) {
        if let Some(run) = self.take(index, false) {
            let task = self.store.task(run.fence.task).await.unwrap().unwrap();
            let event = lost_lease(&task, Loss::Worker, LIMITS.max_interruptions);
            self.report(run, event).await;
        }
    }

    /// Every pool is a node of its own.
    pub(super) async fn node_dies(&mut self, index: usize) {
        let worker = self.pools[index % self.pools.len()].worker.clone();
        self.runs.retain(|run| run.worker != worker);
        let lost = self.store.leased_to(&worker).await.unwrap();
        let event = |task: &Task| lost_lease(task, Loss::Node, LIMITS.max_interruptions);
        let changes = lost
            .iter()
            .map(|task| Change::new(Expected::of(task), event(task)));
        let changes: Vec<Change> = changes.collect();
        for outcome in self.store.commit(&changes, self.now).await.unwrap() {
            assert!(matches!(outcome, Outcome::Applied(_)), "{outcome:?}");
        }
    }

    pub(super) async fn release(&mut self, index: usize) {
        if let Some(run) = self.take(index, false) {
            self.report(run, Event::Released).await;
        }
    }

    pub(super) fn freeze(&mut self, index: usize) {
        if let Some(mut run) = self.take(index, false) {
            run.frozen = true;
            self.runs.push(run);
        }
    }

    pub(super) async fn thaw(&mut self, index: usize) {
        if let Some(run) = self.take(index, true) {
            self.report(run, Event::Succeeded).await;
        }
    }

    pub(super) async fn act(&mut self, job: usize, action: JobAction) {
        let id = self.jobs[job];
        let before = self.store.job_by_id(id).await.unwrap().unwrap();
        match (
            self.store.act_on_job(id, action).await,
            job_action::after(before.status, action),
        ) {
            (Ok(after), Ok(status)) => assert_eq!(after.status, status),
            (Err(StateError::Forbidden(refused)), Err(forbidden)) => assert_eq!(refused, forbidden),
            (done, expected) => panic!("{done:?}, not {expected:?}"),
        }
    }

    pub(super) async fn limit(&mut self, job: usize, key: &str, value: i32) {
        let adjustment = Adjustment::new([format!("{key}={value}")]).unwrap();
        let id = self.jobs[job];
        let scope = JobConfig::default().retry_scope;
        let terminal = |tasks: &[Task]| tasks.iter().filter(|task| is_terminal(task, scope)).count();
        let before = self.store.tasks(id).await.unwrap();
        self.store.adjust_job(id, &adjustment).await.unwrap();
        let after = self.store.tasks(id).await.unwrap();
        assert_eq!(terminal(&before), terminal(&after), "a limit is no verdict");
    }

    pub(super) async fn rerun(
        &mut self,
        job: usize,
        from: usize,
        volume: Option<usize>,
        phase: Option<Phase>,
        force: bool,
    ) {
        let volumes = volume.map(|n| Pattern::new(&format!("W1-I{n}")).unwrap());
        let rerun = Rerun {
            tasks: TaskFilter {
                volumes: volumes.into_iter().collect(),
                phases: phase.into_iter().collect(),
                ..TaskFilter::default()
            },
            from: stage(STAGES[from]),
            force,
        };
        let id = self.jobs[job];
        let before = self.store.job_by_id(id).await.unwrap().unwrap();
        match self.store.rerun(id, &rerun, self.now).await {
            Ok(rewound) => {
                let after = self.store.job_by_id(id).await.unwrap().unwrap();
                assert!(rewound.tasks.number == 0 || !after.status.is_final());
                for task in &rewound.tasks.first {
                    assert_eq!((task.fence(), task.forced), (None, force));
                }
            }
            Err(refused) => {
                assert!(matches!(refused, StateError::Forbidden(_)));
                assert_eq!(before.status, JobStatus::Cancelled);
            }
        }
    }

    /// What holds at any time.
    pub(super) async fn check(&mut self) {
        let mut count = 0;
        for job in self.store.jobs().await.unwrap() {
            let scope = job.config.retry_scope;
            let tasks = self.store.tasks(job.id).await.unwrap();
            count += tasks.len();
            if job.status.is_final() && job.status != JobStatus::Cancelled {
                assert!(tasks.iter().all(|task| is_finished(task, scope)));
                let failed = tasks.iter().any(|task| is_terminal(task, scope));
                assert_eq!(job.status == JobStatus::Failed, failed);
            }
            if job.finished_at.is_some() {
                assert!(job.status.is_final() && tasks.iter().all(|task| task.lease.is_none()));
            }
            for task in tasks {
                Phase::of(&task, scope).unwrap();
                assert_eq!(task.lease.is_some(), task.status == TaskStatus::Running);
                if let Some(before) = self.seen.get(&task.id) {
                    assert!(task.attempts >= before.attempts && task.generation >= before.generation);
                }
                self.check_history(&task).await;
                self.seen.insert(task.id, task);
            }
        }
        assert_eq!(count, JOBS * VOLUMES);
    }

    /// One row for each lease, and only that of the lease in force is open.
    async fn check_history(&self, task: &Task) {
        let history = self.store.stage_runs(task.id).await.unwrap();
        let mut fences = HashSet::new();
        for run in &history {
            assert!(fences.insert(&run.fence));
            let is_open = run.status == StageRunStatus::Running;
            assert_eq!(is_open, run.ended_at.is_none());
            assert_eq!(is_open, task.fence().as_ref() == Some(&run.fence));
        }
    }

    /// No more faults: whatever is paused goes on, whatever runs succeeds, and all jobs end.
    pub(super) async fn calm(&mut self) {
        for job in 0..JOBS {
            for key in ["max_running", "max_running_per_stage"] {
                self.limit(job, key, 0).await;
            }
            let id = self.jobs[job];
            let status = self.store.job_by_id(id).await.unwrap().unwrap().status;
            if status == JobStatus::Paused {
                self.act(job, JobAction::Resume).await;
            }
        }
        // Each round at least one task takes a step, or the leases of what is frozen run out.
        for _ in 0..200 {
            self.pass().await;
            self.heartbeats().await;
            let jobs = self.store.jobs().await.unwrap();
            if jobs.iter().all(|job| job.finished_at.is_some()) {
                return self.check().await;
            }
            while self.runs.iter().any(|run| !run.frozen) {
                self.succeed(0).await;
            }
            self.check().await;
            self.wait(31);
            while self.runs.iter().any(|run| run.frozen) {
                self.thaw(0).await;
            }
        }
        panic!("some job never ends: {:#?}", self.store.jobs().await);
    }
}
