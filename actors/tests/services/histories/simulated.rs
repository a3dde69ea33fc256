//! Service on the clock of the test that follows a script, and remembers what it was asked and what it let be known.

use std::collections::{BTreeMap, VecDeque};
use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, Weak};
use std::time::Duration;

use async_trait::async_trait;
use parkhang_actors::services::JobMessage;
use parkhang_core::domain::FailureKind;
use parkhang_service::{JobFailure, JobLook, JobService, ServiceError};
use serde_json::{Value, json};
use tokio::time::{Instant, sleep, sleep_until};

use super::script::{Answer, Conduct, End, History, Telling};

/// Longest exchange of a client.
const TIMEOUT: Duration = Duration::from_secs(30);
/// Time of a request to the service, and of its answer.
const WAY: Duration = Duration::from_millis(20);
/// Time of an answer that the webhook overtakes.
const OVERTAKEN: Duration = Duration::from_millis(300);

/// Listener that the webhook tells of ends, from one leader to the next.
pub(crate) type Tell = dyn Fn(JobMessage) + Send + Sync;

/// Try of a stage, as its body names it: task, stage, attempt and generation.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Tried {
    pub(crate) task: i64,
    pub(crate) stage: String,
    pub(crate) attempt: i64,
    pub(crate) generation: i64,
}

/// What is known of a try at the service.
#[derive(Debug, Clone, Default)]
pub(crate) struct Known {
    /// Keys of its submits.
    pub(crate) keys: Vec<String>,
    /// The job and its conduct, once it was taken.
    pub(crate) job: Option<(String, Conduct)>,
    /// Failures that were let be known, as answers to submits, to questions, or by the webhook.
    pub(crate) failures: Vec<FailureKind>,
    /// A good end was let be known.
    pub(crate) is_told_done: bool,
}

struct State {
    script: VecDeque<Conduct>,
    outages: Vec<(Instant, Instant)>,
    tries: BTreeMap<Tried, Known>,
    /// Jobs with their tries and ends.
    jobs: BTreeMap<String, (Tried, Instant)>,
    cancelled: Vec<String>,
    tell: Option<Weak<Tell>>,
}

/// The service; clones are the same one.
#[derive(Clone)]
pub(crate) struct Simulated(Arc<Mutex<State>>);

impl fmt::Debug for Simulated {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Simulated")
    }
}

/// Result of the job of a try.
pub(crate) fn result_of(tried: &Tried, job: &str) -> Value {
    json!({"task": tried.task, "stage": tried.stage, "job": job})
}

fn status(status: u16, retry_after: Option<u64>) -> ServiceError {
    ServiceError::Status {
        status,
        retry_after: retry_after.map(Duration::from_secs),
        message: String::new(),
    }
}

impl Simulated {
    pub(crate) fn new(history: &History) -> Self {
        let now = Instant::now();
        let after = |seconds: u64| now + Duration::from_secs(seconds);
        let outages = history.outages.iter();
        Self(Arc::new(Mutex::new(State {
            script: history.submits.iter().copied().collect(),
            outages: outages
                .map(|(begin, length)| (after(*begin), after(begin + length)))
                .collect(),
            tries: BTreeMap::new(),
            jobs: BTreeMap::new(),
            cancelled: Vec::new(),
            tell: None,
        })))
    }

    /// Names whom the webhook tells.
    pub(crate) fn tells(&self, tell: &Arc<Tell>) {
        self.state().tell = Some(Arc::downgrade(tell));
    }

    pub(crate) fn tries(&self) -> BTreeMap<Tried, Known> {
        self.state().tries.clone()
    }

    pub(crate) fn cancelled(&self) -> Vec<String> {
        self.state().cancelled.clone()
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap()
    }

    /// A request on its way, which is refused during an outage.
    async fn arrive(&self) -> Result<(), ServiceError> {
        sleep(WAY).await;
        let now = Instant::now();
        let state = self.state();
        let is_out = state
            .outages
            .iter()
            .any(|(begin, end)| (*begin..*end).contains(&now));
        if is_out { Err(status(503, None)) } else { Ok(()) }
    }

    /// Takes the job of a try, unless it has it, and answers with its id.
    fn take(&self, tried: &Tried, conduct: Conduct) -> String {
        let mut state = self.state();
        let number = state.jobs.len() + 1;
        let known = state.tries.entry(tried.clone()).or_default();
        if let Some((job, _)) = &known.job {
            return job.clone();
        }
        let job = format!("job-{number}");
        known.job = Some((job.clone(), conduct));
        let work = match conduct.telling {
            Telling::Early => Duration::ZERO,
            _ => Duration::from_millis(conduct.work),
        };
        let ends = Instant::now() + work;
        state.jobs.insert(job.clone(), (tried.clone(), ends));
        drop(state);
        tokio::spawn(self.clone().tell(job.clone(), tried.clone(), ends, conduct));
        job
    }

    /// Tells of the end of a job, as its script says.
    async fn tell(self, job: String, tried: Tried, ends: Instant, conduct: Conduct) {
        sleep_until(ends).await;
        let (status, result, error) = match conduct.end {
            End::Result => ("completed", result_of(&tried, &job), Value::Null),
            End::Fails => ("failed", Value::Null, json!("HTTP 500: out of memory")),
            End::Hopeless => ("failed", Value::Null, json!("403 Forbidden")),
            End::Nothing => ("completed", Value::Null, Value::Null),
            End::Never | End::Forgotten => return,
        };
        let message = |id: i64, job: &str| JobMessage {
            stage: tried.stage.clone(),
            id: id.to_string(),
            job: job.to_owned(),
            status: status.to_owned(),
            result: result.clone(),
            error: error.clone(),
        };
        let told = match conduct.telling {
            Telling::Never => Vec::new(),
            Telling::Once | Telling::Early => vec![message(tried.task, &job)],
            Telling::Twice => vec![message(tried.task, &job), message(tried.task, &job)],
            Telling::Wrong => vec![
                message(tried.task, "job-0"),
                message(tried.task + 1, &job),
                message(tried.task, &job),
            ],
        };
        for message in told {
            let tell = self.state().tell.as_ref().and_then(Weak::upgrade);
            if let Some(tell) = tell {
                if message.job == job && message.id == tried.task.to_string() {
                    self.note_end(&tried, conduct.end);
                }
                tell(message);
            }
        }
    }

    fn note_failure(&self, tried: &Tried, kind: FailureKind) {
        let mut state = self.state();
        let known = state.tries.entry(tried.clone()).or_default();
        known.failures.push(kind);
    }

    /// Notes that an end is let be known.
    fn note_end(&self, tried: &Tried, end: End) {
        match end {
            End::Result => self.state().tries.entry(tried.clone()).or_default().is_told_done = true,
            End::Fails | End::Forgotten => self.note_failure(tried, FailureKind::Retriable),
            End::Hopeless | End::Nothing => self.note_failure(tried, FailureKind::Hard),
            End::Never => {}
        }
    }

    fn submitted(&self, key: &str, body: &str) -> (Tried, Conduct) {
        let body: Value = serde_json::from_str(body).unwrap();
        let number = |name: &str| body[name].as_i64().unwrap();
        let tried = Tried {
            task: number("taskId"),
            stage: body["stage"].as_str().unwrap().to_owned(),
            attempt: number("attempt"),
            generation: number("generation"),
        };
        let mut state = self.state();
        let conduct = state.script.pop_front().unwrap_or(Conduct::GOOD);
        let known = state.tries.entry(tried.clone()).or_default();
        known.keys.push(key.to_owned());
        (tried, conduct)
    }

    async fn answer(&self, tried: &Tried, conduct: Conduct) -> Result<String, ServiceError> {
        let host = || "service".to_owned();
        match conduct.answer {
            Answer::InTime => {
                let job = self.take(tried, conduct);
                sleep(if conduct.telling == Telling::Early {
                    OVERTAKEN
                } else {
                    WAY
                })
                .await;
                Ok(job)
            }
            Answer::Late => {
                self.take(tried, conduct);
                sleep(TIMEOUT).await;
                Err(ServiceError::Timeout {
                    host: host(),
                    limit: TIMEOUT,
                })
            }
            Answer::Broken => {
                self.take(tried, conduct);
                sleep(WAY).await;
                let reason = "reset by peer".to_owned();
                Err(ServiceError::Broken { host: host(), reason })
            }
            Answer::Nameless => Err(ServiceError::Malformed("it names no job".to_owned())),
            Answer::Busy(seconds) => Err(status(429, seconds)),
            Answer::Down => Err(status(503, None)),
            Answer::Empty => Err(ServiceError::NoContent),
            Answer::Forbidden => Err(status(403, None)),
            Answer::Refused => Err(ServiceError::Refused { host: host() }),
        }
    }
}

#[async_trait]
impl JobService for Simulated {
    async fn submit(&self, key: &str, body: String) -> Result<String, ServiceError> {
        let arrived = self.arrive().await;
        let (tried, conduct) = self.submitted(key, &body);
        let answer = match arrived {
            Ok(()) => self.answer(&tried, conduct).await,
            Err(error) => Err(error),
        };
        if let Err(error) = &answer {
            self.note_failure(&tried, error.kind());
        }
        answer
    }

    async fn look(&self, job: &str) -> Result<JobLook, ServiceError> {
        self.arrive().await?;
        let (tried, ends, conduct) = {
            let state = self.state();
            let (tried, ends) = state.jobs[job].clone();
            let conduct = state.tries[&tried].job.as_ref().unwrap().1;
            (tried, ends, conduct)
        };
        if conduct.end != End::Forgotten && (ends > Instant::now() || conduct.end == End::Never) {
            return Ok(JobLook::Running);
        }
        self.note_end(&tried, conduct.end);
        sleep(WAY).await;
        Ok(match conduct.end {
            End::Result => JobLook::Completed(result_of(&tried, job)),
            End::Fails => JobLook::Failed(JobFailure::new("HTTP 500: out of memory")),
            End::Hopeless => JobLook::Failed(JobFailure::new("403 Forbidden")),
            End::Nothing => JobLook::told("completed", Value::Null, None),
            End::Forgotten | End::Never => JobLook::Lost,
        })
    }

    async fn cancel(&self, job: &str) -> Result<(), ServiceError> {
        self.arrive().await?;
        self.state().cancelled.push(job.to_owned());
        Ok(())
    }

    async fn reach(&self) -> Result<(), ServiceError> {
        self.arrive().await
    }
}
