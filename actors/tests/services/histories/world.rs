//! Cluster of one leader after the other, on the clock of the test, through a history.

use std::cell::OnceCell;
use std::collections::{BTreeMap, HashMap};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use chrono::{DateTime, TimeDelta, Utc};
use parkhang_actors::external::{ExternalStage, ExternalStages, Site};
use parkhang_actors::services::{JobListener, JobMessage, RetryOverrides, ServiceBounds, StageService};
use parkhang_actors::stage::StageTable;
use parkhang_core::domain::testing::{at, new_job, stage};
use parkhang_core::domain::{Amount, Generation, Job, JobConfig, NewJob, StageLimits, Task, TaskId};
use parkhang_core::policy::job_action::JobAction;
use parkhang_core::policy::rerun::{Rerun, TaskFilter};
use parkhang_sandbox::Sandbox;
use parkhang_state::{MemoryStore, StateStore};
use parkhang_store::storage::{DelayedStore, MemoryArtifacts, StoreDelay};
use tokio::task::{JoinHandle, yield_now};
use tokio::time::{Instant, sleep, timeout};
use tokio_util::sync::CancellationToken;

use super::script::{History, Step};
use super::simulated::{Simulated, Tell};
use crate::distant::{DistantServices, STORE};

pub(crate) const STAGES: [&str; 2] = ["scrape", "intel"];
pub(crate) const LIMITS: StageLimits = StageLimits {
    max_retries: 2,
    stuck_timeout: Duration::from_secs(600),
};
/// Longest time of a history, several times what its faults can cost together.
const LONGEST: Duration = Duration::from_secs(100_000);
/// Time in which all that is late comes.
const LATE: Duration = Duration::from_secs(1_500);
const LOOK: Duration = Duration::from_secs(1);

/// What is left of a history when nothing more happens.
#[derive(Debug)]
pub(crate) struct Past {
    pub(crate) store: Arc<MemoryStore>,
    pub(crate) artifacts: Arc<MemoryArtifacts>,
    pub(crate) service: Simulated,
    pub(crate) job: Job,
    pub(crate) tasks: Vec<Task>,
    /// Generations from which on the tasks were done anew, rerun by rerun.
    pub(crate) reruns: Vec<HashMap<TaskId, Generation>>,
    pub(crate) is_cancelled: bool,
}

/// Time of the paused clock.
fn now() -> DateTime<Utc> {
    thread_local! {
        static BEGAN: OnceCell<Instant> = const { OnceCell::new() };
    }
    let began = BEGAN.with(|began| *began.get_or_init(Instant::now));
    at(0) + TimeDelta::from_std(began.elapsed()).unwrap()
}

/// Leader with its external stages.
struct Leader {
    sandbox: Sandbox,
    external: Arc<ExternalStages>,
    running: JoinHandle<()>,
    dead: CancellationToken,
}

impl Leader {
    async fn rise(store: &Arc<MemoryStore>, artifacts: &Arc<MemoryArtifacts>, service: &Simulated) -> Self {
        let sandbox = Sandbox::over(store.clone())
            .configured(|config| config.now = now)
            .start()
            .await;
        let stages = STAGES.map(|name| ExternalStage {
            name: stage(name),
            limits: LIMITS,
            service: StageService {
                name: "llm".to_owned(),
                client: Arc::new(service.clone()),
                template: None,
                max_body: 1 << 20,
                poll_interval: Duration::from_secs(2),
                has_webhook: name == "scrape",
                retry: RetryOverrides::default(),
                reader: None,
            },
            price: Amount::default(),
        });
        let bounds = ServiceBounds {
            max_in_flight: 3,
            rate: None,
        };
        let slow = StoreDelay::default();
        slow.begin(STORE, LONGEST * 2);
        let site = Site {
            store: store.clone(),
            services: Arc::new(DistantServices::new(store.clone())),
            artifacts: Arc::new(DelayedStore::new(artifacts.clone(), slow)),
            stages: StageTable::new([]),
            storage: "memory".to_owned(),
            elsewhere: None,
            webhook_url: None,
            now,
        };
        let bounds = BTreeMap::from([("llm".to_owned(), bounds)]);
        let external = ExternalStages::new(site, sandbox.orchestrator.clone(), stages.into(), &bounds);
        let external = Arc::new(external);
        let run = external.clone();
        Self {
            sandbox,
            external,
            running: tokio::spawn(async move { run.run().await }),
            dead: CancellationToken::new(),
        }
    }

    /// Ends everything of the leader, as the end of its process would.
    async fn die(self) {
        self.dead.cancel();
        self.running.abort();
        self.sandbox.orchestrator.kill();
        self.sandbox.orchestrator.ended().await;
        // Cancelled, unless it ended by itself.
        let _ = self.running.await;
    }
}

/// Whoever leads, for the webhook.
type Led = Arc<Mutex<Option<(Arc<ExternalStages>, CancellationToken)>>>;

fn webhook(led: &Led) -> Arc<Tell> {
    let led = led.clone();
    Arc::new(move |message: JobMessage| {
        // Nobody listens while nobody leads.
        let Some((external, dead)) = led.lock().unwrap().clone() else {
            return;
        };
        tokio::spawn(async move {
            tokio::select! {
                heard = external.hear(&message) => drop(heard.unwrap()),
                () = dead.cancelled() => {}
            }
        });
    })
}

/// Plays a history to its end on paused time, and returns what it has left.
pub(crate) async fn past(history: &History) -> Past {
    let played = timeout(LONGEST, play(history)).await;
    played.unwrap_or_else(|_| panic!("something is in flight for ever"))
}

async fn play(history: &History) -> Past {
    let store = Arc::new(MemoryStore::on_clock(now));
    let artifacts = Arc::new(MemoryArtifacts::default());
    let job = NewJob {
        config: JobConfig {
            // Fewer than the stages grant: failures of services are not counted among them.
            max_attempts: 1,
            ..JobConfig::default()
        },
        ..new_job(&STAGES, history.tasks)
    };
    let job = store.create_job(&job, now()).await.unwrap();
    let service = Simulated::new(history);
    let led = Led::default();
    let tell = webhook(&led);
    service.tells(&tell);
    let rise = async || {
        let leader = Leader::rise(&store, &artifacts, &service).await;
        *led.lock().unwrap() = Some((leader.external.clone(), leader.dead.clone()));
        leader
    };
    let mut leader = rise().await;
    let (mut reruns, mut is_cancelled) = (Vec::new(), false);
    for (seconds, step) in &history.steps {
        sleep(Duration::from_secs(*seconds)).await;
        match step {
            Step::Death { turns, gap } => {
                for _ in 0..*turns {
                    yield_now().await;
                }
                *led.lock().unwrap() = None;
                leader.die().await;
                sleep(Duration::from_secs(*gap)).await;
                leader = rise().await;
            }
            // Refused if the job is over.
            Step::Pause(seconds) => {
                if store.act_on_job(job.id, JobAction::Pause).await.is_ok() {
                    sleep(Duration::from_secs(*seconds)).await;
                    store.act_on_job(job.id, JobAction::Resume).await.unwrap();
                }
            }
            Step::Rerun(from) => reruns.push(rerun(&store, &job, from).await),
            Step::Cancel => is_cancelled |= store.act_on_job(job.id, JobAction::Cancel).await.is_ok(),
        }
        leader.sandbox.orchestrator.wake();
    }
    let is_over = async || {
        let found = store.job_by_id(job.id).await.unwrap().unwrap();
        let tasks = store.tasks(job.id).await.unwrap();
        found.status.is_final() && tasks.iter().all(|task| task.lease.is_none())
    };
    while !is_over().await {
        sleep(LOOK).await;
    }
    let tasks = store.tasks(job.id).await.unwrap();
    sleep(LATE).await;
    leader.die().await;
    assert_eq!(
        store.tasks(job.id).await.unwrap(),
        tasks,
        "what is late changes nothing"
    );
    let job = store.job_by_id(job.id).await.unwrap().unwrap();
    Past {
        store,
        artifacts,
        service,
        job,
        tasks,
        reruns,
        is_cancelled,
    }
}

/// Does a stage anew for all tasks that have reached it; returns their generations.
async fn rerun(store: &MemoryStore, job: &Job, from: &str) -> HashMap<TaskId, Generation> {
    let before = store.tasks(job.id).await.unwrap();
    let rerun = Rerun {
        tasks: TaskFilter::default(),
        from: stage(from),
        force: false,
    };
    // Refused for a job that is cancelled.
    let _ = store.rerun(job.id, &rerun, now()).await;
    let after = store.tasks(job.id).await.unwrap();
    let changed = before
        .iter()
        .zip(after)
        .filter(|(before, after)| before.generation != after.generation);
    changed.map(|(_, after)| (after.id, after.generation)).collect()
}
