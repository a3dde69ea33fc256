//! Sections of `cluster.toml`, one struct each: passive data.
//!
//! The type of a field refuses values that are never valid; conditions on other fields or on the machine are checked in
//! [`check`](super::check). A test holds that the structs and the compiled-in file have the same keys.

use std::collections::{BTreeMap, BTreeSet};
use std::net::SocketAddr;
use std::num::NonZeroU64;
use std::path::PathBuf;
use std::time::Duration;

use bytesize::ByteSize;
use parkhang_actors::stage::{PipelineError, Pipelines, StageTable};
use parkhang_core::domain::{JobConfig, JobKey, StageName};
use serde::{Deserialize, Serialize};

use super::entities::{ConfiguredEntity, ConfiguredService, ConfiguredStage, Webhook};
use super::intake::{Intake, whose_queue};
use super::scaling::{Autoscaler, Launcher};
use super::source_kind::SourceKind;
use super::values::{HostPort, Role, duration, optional};

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ClusterConfig {
    pub node: Node,
    pub models: Models,
    pub cluster: Cluster,
    pub orchestrator: Orchestrator,
    pub launcher: Launcher,
    pub autoscaler: Autoscaler,
    pub source: Source,
    pub intake: Intake,
    pub state: State,
    pub pages: Pages,
    pub storage: Storage,
    pub telemetry: Telemetry,
    pub health: Health,
    pub api: Api,
    pub webhook: Webhook,
    pub costs: Costs,
    pub chaos: Chaos,
    pub job: JobConfig,
    /// Pipelines beside those that are built in, by name.
    #[serde(default)]
    pub pipeline: BTreeMap<String, ConfiguredPipeline>,
    /// Stages of pipelines that services do, by name.
    #[serde(default)]
    pub stage: BTreeMap<String, ConfiguredStage>,
    /// Services, by name.
    #[serde(default)]
    pub service: BTreeMap<String, ConfiguredService>,
    /// Tables whose rows services work on, by name.
    #[serde(default)]
    pub entity: BTreeMap<String, ConfiguredEntity>,
}

impl ClusterConfig {
    /// Stages of this build, with those that services do.
    pub fn stage_table(&self) -> StageTable {
        let names = self
            .stage
            .keys()
            .filter_map(|name| StageName::new(name.as_str()).ok());
        StageTable::built_in().with_external(names)
    }

    /// Pipelines that jobs can name.
    ///
    /// # Errors
    ///
    /// [`PipelineError`] for one that is not a pipeline of these stages.
    pub fn pipelines(&self, stages: &StageTable) -> Result<Pipelines, PipelineError> {
        let mut pipelines = Pipelines::built_in();
        for (name, pipeline) in &self.pipeline {
            pipelines.define(name, &pipeline.stages, stages)?;
        }
        Ok(pipelines)
    }
}

/// Section about what services cost.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Costs {
    /// Word for the currency of all prices and budgets, shown behind amounts.
    pub currency: String,
}

/// Pipeline of the configuration.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ConfiguredPipeline {
    /// Names of the stages, in order.
    pub stages: Vec<String>,
}

/// Section about this process.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Node {
    /// Name of the node; `None` is the host's name.
    #[serde(with = "optional")]
    pub name: Option<String>,
    pub roles: BTreeSet<Role>,
    /// Stages that the node runs; empty is all that its roles allow.
    pub stages: Vec<StageName>,
    /// Entities that a node with the role entity works on; empty is all.
    pub entities: Vec<String>,
    /// Labels for operators, shown in lists of nodes.
    pub tags: Vec<String>,
    /// Device of the networks, as `--device` names it.
    pub device: String,
    /// Folders of model bundles that replace shipped ones.
    pub models: Vec<PathBuf>,
    /// Folder of the node's own files; `None` is the parent of the default folder of the private Postgres.
    #[serde(with = "optional")]
    pub state_dir: Option<PathBuf>,
    /// Time after the signal to stop within which work must be checkpointed and released.
    #[serde(with = "duration")]
    pub drain_deadline: Duration,
    /// Time without a lease after which a node without the role orchestrator leaves; zero is never.
    #[serde(with = "duration")]
    pub idle_exit: Duration,
    /// Time without an addition after which the node's manifests of a job are deleted; zero keeps them.
    #[serde(with = "duration")]
    pub keep_manifests: Duration,
    pub slots: Slots,
}

/// Section about the models that are not part of the program.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Models {
    /// Folder that has them; `None` is the usual one beside the program.
    #[serde(with = "optional")]
    pub dir: Option<PathBuf>,
}

/// Number of tasks that each stage runs at the same time, by hardware.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Slots {
    pub cpu: usize,
    pub gpu: usize,
}

/// Section about the connections between nodes and the timeouts after which a node counts as dead.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Cluster {
    /// Address at which an orchestrator listens; other roles only dial.
    pub listen: SocketAddr,
    /// Address that others dial to reach `listen`; `None` is `listen` itself.
    #[serde(with = "optional")]
    pub advertise: Option<HostPort>,
    /// Addresses of all orchestrators, including standby ones.
    pub orchestrators: Vec<HostPort>,
    #[serde(with = "optional")]
    pub cookie_file: Option<PathBuf>,
    #[serde(with = "duration")]
    pub dial_timeout: Duration,
    #[serde(with = "duration")]
    pub handshake_timeout: Duration,
    #[serde(with = "duration")]
    pub idle_timeout: Duration,
    #[serde(with = "duration")]
    pub unacknowledged_timeout: Duration,
    #[serde(with = "duration")]
    pub redial_first: Duration,
    #[serde(with = "duration")]
    pub redial_max: Duration,
    #[serde(with = "duration")]
    pub call_timeout: Duration,
    #[serde(with = "duration")]
    pub heartbeat: Duration,
    #[serde(with = "duration")]
    pub lease: Duration,
    pub max_frame: ByteSize,
    pub tls: Tls,
}

/// TLS files of a node, in PEM; all three are set or none.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Tls {
    #[serde(with = "optional")]
    pub certificate_file: Option<PathBuf>,
    #[serde(with = "optional")]
    pub key_file: Option<PathBuf>,
    #[serde(with = "optional")]
    pub ca_file: Option<PathBuf>,
    /// Certificates that the authority has revoked.
    #[serde(with = "optional")]
    pub revoked_file: Option<PathBuf>,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Orchestrator {
    /// Interval of passes that nothing has triggered.
    #[serde(with = "duration")]
    pub full_pass: Duration,
    /// Number of leases lost in a row after which a volume is set aside as poison.
    pub max_interruptions: u32,
    pub leadership: Leadership,
}

/// Timing of the lock in Postgres that makes one orchestrator the leader.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Leadership {
    /// Interval of the leader's queries in the session of its lock.
    #[serde(with = "duration")]
    pub renew: Duration,
    /// Time without a query after which Postgres ends the lock's session, and with it the leadership.
    #[serde(with = "duration")]
    pub idle_session: Duration,
    /// Time for which a session of an orchestrator may be idle inside a transaction before Postgres ends it.
    #[serde(with = "duration")]
    pub idle_in_transaction: Duration,
    /// Interval at which a standby tries to take the lock.
    #[serde(with = "duration")]
    pub standby_retry: Duration,
}

/// Section about where a node with the role cpu or gpu takes its work from.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Source {
    pub kind: SourceKind,
    /// Longest interval at which a node that takes work itself and has free slots looks for some.
    #[serde(with = "duration")]
    pub poll: Duration,
    /// Names of the jobs whose shards are taken.
    pub jobs: Vec<JobKey>,
    pub sqs: Sqs,
}

/// Section about the queues of stages.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Sqs {
    /// URL of the server; `None` is AWS.
    #[serde(with = "optional")]
    pub endpoint: Option<String>,
    /// Region; `None` is that of the AWS tools' configuration.
    #[serde(with = "optional")]
    pub region: Option<String>,
    /// Beginning of the names of queues that `queues` does not name.
    pub prefix: String,
    /// Queues by stage.
    pub queues: Vec<StageQueue>,
    /// Time for which a message is invisible to others when it is received or extended.
    #[serde(with = "duration")]
    pub visibility: Duration,
    /// Time from its receive after which a message is extended no more.
    #[serde(with = "duration")]
    pub visibility_max_total: Duration,
    /// Time that a receive waits for a message.
    #[serde(with = "duration")]
    pub wait: Duration,
    /// Age of a message that waits from which on there is an alarm.
    #[serde(with = "duration")]
    pub max_age: Duration,
    /// Most messages of a FIFO queue that may be in flight, by the quota of the account.
    pub max_in_flight: NonZeroU64,
}

/// Queue of a stage, written `STAGE=NAME` or `STAGE=URL`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct StageQueue {
    pub stage: StageName,
    /// Name or URL.
    pub queue: String,
}

impl TryFrom<String> for StageQueue {
    type Error = String;

    fn try_from(text: String) -> Result<Self, String> {
        let (stage, queue) = whose_queue(&text, "STAGE=QUEUE, such as ocr=ocr-ocr.fifo")?;
        Ok(Self { stage, queue })
    }
}

impl From<StageQueue> for String {
    fn from(StageQueue { stage, queue }: StageQueue) -> Self {
        format!("{stage}={queue}")
    }
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct State {
    #[serde(with = "optional")]
    pub database_url_file: Option<PathBuf>,
    /// True to run a private Postgres on this machine if there is no database URL.
    pub embedded: bool,
}

/// Layout of the scans of a library.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum PagesKind {
    /// A folder of images for each volume, named `W-I`.
    Folder,
    /// The layout of BDRC's archive.
    Bdrc,
}

/// Section about the place of the scans, a folder or a bucket. It must be the same for every node that reads scans and for the
/// process in which jobs are created.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Pages {
    pub kind: PagesKind,
    #[serde(with = "optional")]
    pub folder: Option<PathBuf>,
    /// `bdrc`: file with the number of pages in front of the book, for each volume.
    #[serde(with = "optional")]
    pub intro_pages_file: Option<PathBuf>,
    /// `bdrc`: bucket of the benchmark; `None` is that of the archive.
    #[serde(default, with = "optional")]
    pub benchmark_bucket: Option<String>,
    pub s3: S3,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum StorageKind {
    Local,
    S3,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Storage {
    pub kind: StorageKind,
    /// `local`: folder of the artifacts; `None` is `artifacts` in the state folder.
    #[serde(with = "optional")]
    pub folder: Option<PathBuf>,
    pub s3: S3,
    pub cache: Cache,
}

/// Section about a bucket, or a folder of one.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct S3 {
    /// URL of the server; `None` is AWS.
    #[serde(with = "optional")]
    pub endpoint: Option<String>,
    #[serde(with = "optional")]
    pub bucket: Option<String>,
    #[serde(with = "optional")]
    pub prefix: Option<String>,
    /// Region; `None` is that of the AWS tools' configuration.
    #[serde(with = "optional")]
    pub region: Option<String>,
    /// True if the bucket is in the path of a URL rather than in the host's name.
    pub path_style: bool,
}

/// Section about copies of objects on the local disk.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Cache {
    /// Folder of the copies; `None` is `cache` in the state folder.
    #[serde(with = "optional")]
    pub folder: Option<PathBuf>,
    /// Largest total size of the copies; 0 keeps none.
    pub size: ByteSize,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum LogFormat {
    Text,
    Json,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Telemetry {
    /// Directives of `tracing_subscriber::EnvFilter`.
    pub log: String,
    pub format: LogFormat,
    /// Collector of traces, by OTLP over HTTP; `None` sends none.
    #[serde(with = "optional")]
    pub otlp_endpoint: Option<String>,
}

/// Section about the HTTP interface of an orchestrator.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Api {
    /// Address of the interface; `None` turns it off.
    #[serde(with = "optional")]
    pub listen: Option<SocketAddr>,
    /// True if `listen` may be reached from other machines without TLS, for a proxy that terminates it.
    pub public: bool,
    /// File with the hashes of accepted tokens, in addition to the token in the state folder.
    #[serde(with = "optional")]
    pub tokens_file: Option<PathBuf>,
    pub tls: ApiTls,
}

/// TLS files of the HTTP interface, in PEM.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ApiTls {
    /// Certificate, followed by the intermediate ones.
    #[serde(with = "optional")]
    pub certificate_file: Option<PathBuf>,
    #[serde(with = "optional")]
    pub key_file: Option<PathBuf>,
}

/// Section about faults that operators inject.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Chaos {
    /// True if they are allowed; needed on the node and in the process that the command is given to.
    pub allowed: bool,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Health {
    /// Address of the health server; `None` turns it off.
    #[serde(with = "optional")]
    pub listen: Option<SocketAddr>,
    /// True if `listen` may be reached from other machines.
    pub public: bool,
    /// Time without progress after which a pool with work is replaced.
    #[serde(with = "duration")]
    pub progress_window: Duration,
    /// Number of stalls of a stage in a row, without ten finished pages in between, after which the node ends.
    pub max_stalls: u32,
    /// Number of renewals in a row of a stage whose device fails, after which it is taken out of service.
    pub max_renewals: u32,
    /// Number of pools replaced within `restart_window` after which the node ends.
    pub max_restarts: usize,
    #[serde(with = "duration")]
    pub restart_window: Duration,
    #[serde(with = "duration")]
    pub restart_backoff: Duration,
}
