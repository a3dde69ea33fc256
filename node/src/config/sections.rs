//! What a node can be told: one struct per section of `cluster.toml`, passive data.
//!
//! Each field's type refuses what is never right; what depends on other fields or on the machine is checked in
//! [`check`](super::check). The struct and the compiled-in file name the same keys, which a test holds.

use std::collections::{BTreeMap, BTreeSet};
use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

use bytesize::ByteSize;
use parkhang_actors::stage::{PipelineError, Pipelines, StageTable};
use parkhang_core::domain::{JobConfig, JobKey};
use serde::{Deserialize, Serialize};

use super::scaling::{Autoscaler, Launcher};
use super::values::{HostPort, Role, duration, optional};

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ClusterConfig {
    pub node: Node,
    pub cluster: Cluster,
    pub orchestrator: Orchestrator,
    pub launcher: Launcher,
    pub autoscaler: Autoscaler,
    pub source: Source,
    pub state: State,
    pub pages: Pages,
    pub storage: Storage,
    pub telemetry: Telemetry,
    pub health: Health,
    pub api: Api,
    pub chaos: Chaos,
    pub job: JobConfig,
    /// Pipelines beside those that are built in, by name.
    #[serde(default)]
    pub pipeline: BTreeMap<String, ConfiguredPipeline>,
}

impl ClusterConfig {
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

/// Pipeline of the configuration.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ConfiguredPipeline {
    /// Names of the stages, in order.
    pub stages: Vec<String>,
}

/// This process.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Node {
    /// `None` takes the host's name.
    #[serde(with = "optional")]
    pub name: Option<String>,
    pub roles: BTreeSet<Role>,
    /// What its operator says of it, for those who look at nodes.
    pub tags: Vec<String>,
    /// Where networks run, as `--device` names it.
    pub device: String,
    /// Folders of model bundles that stand in the place of shipped ones.
    pub models: Vec<PathBuf>,
    /// `None` takes the folder that the private Postgres lies in by default, less its last part.
    #[serde(with = "optional")]
    pub state_dir: Option<PathBuf>,
    /// After the order to stop: time for work to be checkpointed and handed back.
    #[serde(with = "duration")]
    pub drain_deadline: Duration,
    /// A node without the role orchestrator leaves once it has held no lease for so long; zero is never.
    #[serde(with = "duration")]
    pub idle_exit: Duration,
    /// What the node recorded of a job goes when nothing was added to it for so long; zero keeps it.
    #[serde(with = "duration")]
    pub keep_manifests: Duration,
    pub slots: Slots,
}

/// Tasks that each stage of this hardware runs at once.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Slots {
    pub cpu: usize,
    pub gpu: usize,
}

/// How nodes reach each other and how long they are believed alive.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Cluster {
    /// Where an orchestrator listens; other roles only dial.
    pub listen: SocketAddr,
    /// What others dial to reach `listen`; `None` is `listen` itself.
    #[serde(with = "optional")]
    pub advertise: Option<HostPort>,
    /// All of them, the standby ones too.
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

/// PEM files; all three or none.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Tls {
    #[serde(with = "optional")]
    pub certificate_file: Option<PathBuf>,
    #[serde(with = "optional")]
    pub key_file: Option<PathBuf>,
    #[serde(with = "optional")]
    pub ca_file: Option<PathBuf>,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Orchestrator {
    /// Time between passes that nobody asked for.
    #[serde(with = "duration")]
    pub full_pass: Duration,
    /// Lost leases in a row after which a volume is set aside.
    pub max_interruptions: u32,
    pub leadership: Leadership,
}

/// Timing of the lock in Postgres that makes one orchestrator the leader.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Leadership {
    /// The leader queries in its lock's session this often.
    #[serde(with = "duration")]
    pub renew: Duration,
    /// Postgres ends the lock's session, and the leadership, after so long without a query.
    #[serde(with = "duration")]
    pub idle_session: Duration,
    /// Postgres ends any session of an orchestrator that lies idle inside a transaction so long.
    #[serde(with = "duration")]
    pub idle_in_transaction: Duration,
    /// A standby tries to take the lock this often.
    #[serde(with = "duration")]
    pub standby_retry: Duration,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum SourceKind {
    /// An orchestrator gives it.
    Direct,
    /// The node leases it in the database for itself.
    Postgres,
    /// The node takes it from manifests in the storage.
    Shards,
}

/// How a node with the role cpu or gpu comes by its work.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Source {
    pub kind: SourceKind,
    /// A node that takes work itself and has room asks at least this often.
    #[serde(with = "duration")]
    pub poll: Duration,
    /// Names of the jobs that shards are taken of.
    pub jobs: Vec<JobKey>,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct State {
    #[serde(with = "optional")]
    pub database_url_file: Option<PathBuf>,
    /// Without a database URL, run a private Postgres on this machine.
    pub embedded: bool,
}

/// How the scans of a library lie.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum PagesKind {
    /// A folder of images for each volume, named `W-I`.
    Folder,
    /// As in BDRC's archive.
    Bdrc,
}

/// Where the scans are: in a folder or in a bucket, the same for every node that reads scans and where jobs are made.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Pages {
    pub kind: PagesKind,
    #[serde(with = "optional")]
    pub folder: Option<PathBuf>,
    /// Of `bdrc`: how many pages stand before the book in each volume.
    #[serde(with = "optional")]
    pub intro_pages_file: Option<PathBuf>,
    /// Of `bdrc`: the bucket of the benchmark; `None` is where the archive is.
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
    /// Of `local`; `None` is `artifacts` below the state folder.
    #[serde(with = "optional")]
    pub folder: Option<PathBuf>,
    pub s3: S3,
    pub cache: Cache,
}

/// A bucket, or a folder of one.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct S3 {
    /// `None` is AWS.
    #[serde(with = "optional")]
    pub endpoint: Option<String>,
    #[serde(with = "optional")]
    pub bucket: Option<String>,
    #[serde(with = "optional")]
    pub prefix: Option<String>,
    /// `None` is what the AWS tools take.
    #[serde(with = "optional")]
    pub region: Option<String>,
    /// Bucket in the path rather than in the host's name.
    pub path_style: bool,
}

/// Copies of objects on local disk.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Cache {
    /// `None` is `cache` below the state folder.
    #[serde(with = "optional")]
    pub folder: Option<PathBuf>,
    /// 0 keeps no copies.
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
    /// Where traces go, by OTLP over HTTP; `None` is nowhere.
    #[serde(with = "optional")]
    pub otlp_endpoint: Option<String>,
}

/// Where an orchestrator takes commands over HTTP.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Api {
    /// `None` is nowhere.
    #[serde(with = "optional")]
    pub listen: Option<SocketAddr>,
    /// `listen` may be beyond loopback without TLS, for a proxy that has it.
    pub public: bool,
    /// Hashes of the tokens that are recognised, beside the one in the state folder.
    #[serde(with = "optional")]
    pub tokens_file: Option<PathBuf>,
    pub tls: ApiTls,
}

/// What browsers and scripts are shown; both files in PEM.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ApiTls {
    /// The certificate first, then those between it and the authority.
    #[serde(with = "optional")]
    pub certificate_file: Option<PathBuf>,
    #[serde(with = "optional")]
    pub key_file: Option<PathBuf>,
}

/// Faults that operators make on purpose, to see what becomes of them.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Chaos {
    /// Both of the node and of where the command is given.
    pub allowed: bool,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Health {
    /// Where health and metrics are served; `None` is nowhere.
    #[serde(with = "optional")]
    pub listen: Option<SocketAddr>,
    /// `listen` may be beyond loopback.
    pub public: bool,
    /// A stage pool with work in hand and no progress for so long is replaced.
    #[serde(with = "duration")]
    pub progress_window: Duration,
    /// Times in a row, without a page in between, that a stage may stand still before the node gives up.
    pub max_stalls: u32,
    /// Times in a row that a stage whose device fails is renewed before it is taken out of service.
    pub max_renewals: u32,
    /// Pools replaced within `restart_window` before the node gives up.
    pub max_restarts: usize,
    #[serde(with = "duration")]
    pub restart_window: Duration,
    #[serde(with = "duration")]
    pub restart_backoff: Duration,
}
