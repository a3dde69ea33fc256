//! Stages without work of their own.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use async_trait::async_trait;
use futures::FutureExt;
use futures::future::BoxFuture;
use parkhang_actors::stage::{StageContext, StageInfo, StageLogic};
use parkhang_core::domain::testing::{self, new_job};
use parkhang_core::domain::{
    ErrorCategory, Hardware, JobConfig, NewJob, StageError, StageName, StageReport, StageVerdict, Unfit,
};
use tokio::sync::watch;

use crate::Latch;

/// One run of a [`FakeStage`], as its script sees it.
#[derive(Debug)]
pub struct Run {
    /// Number of runs of the stage before this one.
    pub number: usize,
    pub stage: StageName,
    pub context: StageContext,
}

impl Run {
    /// Failure of this run for a reason of this kind.
    pub fn failed(&self, category: ErrorCategory, message: &str) -> StageVerdict {
        StageVerdict::Failed(StageError::new(self.stage.as_str(), category, message))
    }
}

type Work = Box<dyn Fn(Run) -> BoxFuture<'static, StageVerdict> + Send + Sync>;

/// Course of all runs of a [`FakeStage`].
pub enum Script {
    Succeed,
    /// Panics with "as told".
    Panic,
    /// Fails with "as told", which may be tried again.
    Fail,
    /// Finds the storage out of reach in so many runs, and succeeds then.
    Outages(usize),
    /// Runs until it is drained.
    UntilDrained,
    /// Begins one page, and succeeds once the latch is open. It does not heed a drain.
    Until(Latch),
    Custom(Work),
}

impl Script {
    /// A script of the test's own.
    pub fn custom<F>(work: impl Fn(Run) -> F + Send + Sync + 'static) -> Self
    where
        F: Future<Output = StageVerdict> + Send + 'static,
    {
        Self::Custom(Box::new(move |run| work(run).boxed()))
    }

    async fn perform(&self, run: Run) -> StageVerdict {
        match self {
            Self::Succeed => success(),
            Self::Panic => panic!("as told"),
            Self::Fail => run.failed(ErrorCategory::Transient, "as told"),
            Self::Outages(outages) if run.number < *outages => {
                run.failed(ErrorCategory::Network, "no answer")
            }
            Self::Outages(_) => success(),
            Self::UntilDrained => {
                run.context.drain.cancelled().await;
                StageVerdict::Interrupted
            }
            Self::Until(latch) => {
                run.context.progress.started(1);
                latch.opened().await;
                success()
            }
            Self::Custom(work) => work(run).await,
        }
    }
}

impl fmt::Debug for Script {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Succeed => "Succeed",
            Self::Panic => "Panic",
            Self::Fail => "Fail",
            Self::Outages(_) => "Outages",
            Self::UntilDrained => "UntilDrained",
            Self::Until(_) => "Until",
            Self::Custom(_) => "Custom",
        })
    }
}

fn success() -> StageVerdict {
    StageVerdict::Succeeded(StageReport::default())
}

type Renewal = Box<dyn Fn() + Send + Sync>;
type Check = Box<dyn Fn() -> BoxFuture<'static, Result<(), Unfit>> + Send + Sync>;

/// Stage that follows a script and counts its runs and renewals.
pub struct FakeStage {
    name: StageName,
    hardware: Hardware,
    script: Script,
    on_renewal: Renewal,
    check: Check,
    runs: watch::Sender<usize>,
    renewals: AtomicUsize,
}

impl FakeStage {
    /// Stage of the CPU that is always fit to work.
    pub fn new(name: &str, script: Script) -> Self {
        Self {
            name: testing::stage(name),
            hardware: Hardware::Cpu,
            script,
            on_renewal: Box::new(|| {}),
            check: Box::new(|| std::future::ready(Ok(())).boxed()),
            runs: watch::Sender::new(0),
            renewals: AtomicUsize::new(0),
        }
    }

    pub fn on(self, hardware: Hardware) -> Self {
        Self { hardware, ..self }
    }

    /// Does this as well whenever the stage is renewed.
    pub fn on_renewal(self, effect: impl Fn() + Send + Sync + 'static) -> Self {
        Self {
            on_renewal: Box::new(effect),
            ..self
        }
    }

    /// Answers [`StageInfo::check`] so.
    pub fn checked_by<F>(self, check: impl Fn() -> F + Send + Sync + 'static) -> Self
    where
        F: Future<Output = Result<(), Unfit>> + Send + 'static,
    {
        Self {
            check: Box::new(move || check().boxed()),
            ..self
        }
    }

    pub fn shared(self) -> Arc<Self> {
        Arc::new(self)
    }

    /// As the cluster takes it.
    pub fn logic(self: &Arc<Self>) -> Arc<dyn StageLogic> {
        self.clone()
    }

    /// Number of runs that have begun.
    pub fn runs(&self) -> usize {
        *self.runs.borrow()
    }

    /// Returns once so many runs have begun.
    pub async fn has_begun(&self, runs: usize) {
        // The sender is this stage's own.
        let _ = self.runs.subscribe().wait_for(|begun| *begun >= runs).await;
    }

    pub fn renewals(&self) -> usize {
        self.renewals.load(Ordering::Relaxed)
    }
}

impl fmt::Debug for FakeStage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut shown = f.debug_struct("FakeStage");
        shown.field("name", &self.name).field("script", &self.script);
        shown.finish_non_exhaustive()
    }
}

#[async_trait]
impl StageInfo for FakeStage {
    fn name(&self) -> StageName {
        self.name.clone()
    }

    fn hardware(&self) -> Hardware {
        self.hardware
    }

    fn renew(&self) -> std::io::Result<()> {
        self.renewals.fetch_add(1, Ordering::Relaxed);
        (self.on_renewal)();
        Ok(())
    }

    async fn check(&self) -> Result<(), Unfit> {
        (self.check)().await
    }
}

#[async_trait]
impl StageLogic for FakeStage {
    fn info(&self) -> &dyn StageInfo {
        self
    }

    async fn run(&self, context: StageContext) -> StageVerdict {
        let mut number = 0;
        self.runs.send_modify(|runs| {
            number = *runs;
            *runs += 1;
        });
        let run = Run {
            number,
            stage: self.name.clone(),
            context,
        };
        self.script.perform(run).await
    }
}

/// Job that goes through these stages, and tries again what failed almost at once.
pub fn job_through(stages: &[Arc<dyn StageLogic>], volumes: usize) -> NewJob {
    let names: Vec<StageName> = stages.iter().map(|stage| stage.info().name()).collect();
    let names: Vec<&str> = names.iter().map(StageName::as_str).collect();
    NewJob {
        config: JobConfig {
            retry_backoff_s: 0.01,
            ..JobConfig::default()
        },
        ..new_job(&names, volumes)
    }
}
