//! The command line: what can be asked for, not how it is done.

use std::path::PathBuf;

use clap::{Args, Parser, Subcommand, ValueEnum};
use clap_complete::Shell;
use parkhang_actors::domain::{JobKey, VolumeId};

use crate::api::command::TokenArgs;
use crate::config::command::ConfigCommand;
use crate::config::{BucketArgs, ConfigArgs};
use crate::device::DeviceArgs;
use crate::export::IiifArgs;
use crate::manual::ManArgs;
use crate::repl::ReplArgs;
use crate::shards::ShardsCommand;
use crate::simulate::SimulateArgs;
use crate::tls::command::TlsCommand;

/// Reads libraries of page scans.
#[derive(Debug, Parser)]
#[command(name = "node", version, propagate_version = true)]
#[command(args_conflicts_with_subcommands = true, arg_required_else_help = true)]
pub struct Cli {
    #[command(flatten)]
    pub node: RoleArgs,
    #[command(subcommand)]
    pub command: Option<Command>,
}

/// Without a command this process is a node of a cluster.
#[derive(Debug, Args)]
pub struct RoleArgs {
    /// What this node does: orchestrator, or cpu, gpu or both; the default is node.roles of the configuration.
    #[arg(long, value_delimiter = ',', value_name = "ROLE")]
    pub role: Vec<String>,
    /// Log lines as text or json; the default is telemetry.format of the configuration.
    #[arg(long, value_name = "FORMAT")]
    pub log_format: Option<String>,
    /// When the node is ready, write its READY line to this file descriptor too, and close it.
    #[arg(long, value_name = "N")]
    pub ready_fd: Option<i32>,
    /// Stop when the process that started this one is gone.
    #[arg(long, hide = true, value_name = "PID")]
    pub with_parent: Option<i32>,
    /// How the roles cpu and gpu come by their work: direct, postgres or shards; the default is source.kind of the configuration.
    #[arg(long, value_name = "SOURCE")]
    pub source: Option<String>,
    /// A job to take from shards, by its name; may be repeated. The default is source.jobs of the configuration.
    #[arg(long, value_name = "NAME")]
    pub job: Vec<String>,
    /// Take commands on this terminal, as `node repl` does. For the role orchestrator alone, whose log goes to its state folder then.
    #[arg(long)]
    pub repl: bool,
    #[command(flatten)]
    pub config: ConfigArgs,
}

#[derive(Debug, Subcommand)]
pub enum Command {
    /// Read folders of page scans into text, on this machine.
    ///
    /// PAGES is a folder of images (one volume), a folder of such folders, or several of either. A second run over the
    /// same OUT goes on where the first one stopped and repeats nothing that still stands.
    Ocr(Box<OcrArgs>),
    /// Write the results in OUT, or of a cluster's job, as text, PageXML, ALTO, hOCR, IIIF, JSON lines or a viewer.
    Export(Box<ExportArgs>),
    /// Score readings against truth: character and word error rates, line recall and precision.
    Eval(EvalArgs),
    /// Make a job that lives in the storage alone, or look at one.
    #[command(subcommand)]
    Shards(ShardsCommand),
    /// Say what a fleet would do with a library: a cluster in simulated time, with recorded stage times.
    Simulate(Box<SimulateArgs>),
    /// Say which devices networks can run on here, whether they compute what the processor does, and how fast.
    Device(DeviceArgs),
    /// Check or show the configuration of a cluster's node.
    #[command(subcommand)]
    Config(ConfigCommand),
    /// Make the certificates of a secure cluster.
    #[command(subcommand)]
    Tls(TlsCommand),
    /// Give commands to a cluster: on a terminal, from standard input, or those of --command.
    Repl(ReplArgs),
    /// Make a token for the HTTP interface of an orchestrator, and the line by which it is recognised.
    Token(TokenArgs),
    /// Print the completion script for a shell: `source <(node completions bash)` in ~/.bashrc loads it.
    Completions { shell: Shell },
    /// Print the manual page of this program, or write those of all its commands.
    Man(ManArgs),
}

#[derive(Debug, Args)]
pub struct OcrArgs {
    /// Folders of page images, or folders of such folders; with --input-bucket or --input-folder, volumes there (W-I).
    #[arg(required = true, value_name = "PAGES")]
    pub pages: Vec<PathBuf>,
    /// Folder for artifacts (unless --output-bucket takes them), text and viewer; made if it does not exist.
    #[arg(long, value_name = "OUT")]
    pub out: PathBuf,
    /// Model bundle, or folder of a model of BDRC's, to use instead of a shipped one; its description says what it is for. May
    /// be given twice. auto and auto:FOLDER choose a recogniser for each volume, among the shipped one and those in FOLDER.
    #[arg(long, value_name = "DIR")]
    pub model: Vec<PathBuf>,
    /// Collection id (W...), instead of one derived from folder names.
    #[arg(long, value_name = "ID")]
    pub w_id: Option<String>,
    /// Image group id (I...), instead of one derived from the folder name; for a single volume.
    #[arg(long, value_name = "ID")]
    pub i_id: Option<String>,
    /// Run only these stages, e.g. ocr..reduce; the artifacts of the stages before must be in OUT.
    #[arg(long, value_name = "FIRST..LAST")]
    pub stages: Option<String>,
    /// Recompute pages whose results still stand.
    #[arg(long)]
    pub force: bool,
    /// Pages in work at once, per stage; the default is the number of cores.
    #[arg(long, value_name = "N")]
    pub workers: Option<usize>,
    /// Where networks run: cpu, cpu-f32 (in full precision), wgpu or cuda, the latter two as wgpu:0, cuda:1.
    #[arg(long, default_value = "cpu")]
    pub device: String,
    /// Set a key of the job configuration; may be repeated. See `docs/config.md`.
    #[arg(long = "config", value_name = "KEY=VALUE")]
    pub config: Vec<String>,
    /// Read only the first N pages of each volume; its results then hold these pages alone.
    #[arg(long, value_name = "N")]
    pub limit: Option<usize>,
    /// Say which pages each stage would work on, which it would skip, and why, and do nothing.
    #[arg(long)]
    pub dry_run: bool,
    /// Print the summary as JSON on standard output.
    #[arg(long)]
    pub json: bool,
    /// Formats to export when the job is done, separated by commas.
    #[arg(long, value_enum, value_delimiter = ',', default_values_t = [Format::Text, Format::Html])]
    pub export: Vec<Format>,
    /// Name of the job, part of every artifact key.
    #[arg(long, default_value = "ocr", value_name = "NAME")]
    pub job: String,
    /// Postgres that keeps the state; the default is a private one on this machine.
    #[arg(long, env = "DATABASE_URL", hide_env_values = true, value_name = "URL")]
    pub database_url: Option<String>,
    #[command(flatten)]
    pub iiif: IiifArgs,
    #[command(flatten)]
    pub buckets: BucketArgs,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Format {
    /// One UTF-8 text file per page and one per volume.
    Text,
    /// PAGE XML 2013-07-15, coordinates of the original scans.
    Pagexml,
    /// ALTO 4.4, coordinates of the original scans.
    Alto,
    /// hOCR 1.2, coordinates of the original scans.
    Hocr,
    /// One IIIF Presentation 3 manifest per volume, with annotations and pictures.
    Iiif,
    /// One JSON object per line of text.
    Jsonl,
    /// One self-contained viewer per volume.
    Html,
}

#[derive(Debug, Args)]
pub struct ExportArgs {
    /// Output folder of `node ocr`.
    #[arg(value_name = "OUT", required_unless_present = "job")]
    pub out: Option<PathBuf>,
    /// A job of the cluster of this configuration, instead of OUT: what it has written to the storage so far.
    #[arg(long, value_name = "NAME", conflicts_with = "out", requires = "to")]
    pub job: Option<JobKey>,
    /// The job was made by `node shards create`: the storage alone knows it.
    #[arg(long, requires = "job")]
    pub shards: bool,
    /// Formats, separated by commas.
    #[arg(long, value_enum, value_delimiter = ',', default_values_t = [Format::Text, Format::Html])]
    pub format: Vec<Format>,
    /// Folder to write to; the default is OUT/export.
    #[arg(long, value_name = "DIR")]
    pub to: Option<PathBuf>,
    /// Only this volume (W-I); may be repeated.
    #[arg(long, value_name = "VOLUME")]
    pub volume: Vec<VolumeId>,
    #[command(flatten)]
    pub iiif: IiifArgs,
    #[command(flatten)]
    pub config: ConfigArgs,
}

#[derive(Debug, Args)]
pub struct EvalArgs {
    /// Folder of page or line images with truth: NAME.txt, NAME.xml (PAGE) or NAME.json with lines and polygons, and a
    /// manifest.tsv that names collections.
    #[arg(value_name = "FOLDER")]
    pub folder: PathBuf,
    /// Readings to score: an output folder of `node ocr`. Without it the folder is read now, into a temporary place.
    #[arg(long, value_name = "OUT")]
    pub results: Option<PathBuf>,
    /// Model bundle, or folder of a model of BDRC's, to use instead of a shipped one; may be given twice.
    #[arg(long, value_name = "DIR")]
    pub model: Vec<PathBuf>,
    /// Where networks run: cpu, cpu-f32 (in full precision), wgpu or cuda.
    #[arg(long, default_value = "cpu")]
    pub device: String,
    /// Set a key of the job configuration; may be repeated. See `docs/config.md`.
    #[arg(long = "config", value_name = "KEY=VALUE")]
    pub config: Vec<String>,
    /// Print every count as JSON.
    #[arg(long)]
    pub json: bool,
    /// Score only the first N pages.
    #[arg(long, value_name = "N")]
    pub limit: Option<usize>,
    /// List every page, not only collections.
    #[arg(long)]
    pub pages: bool,
}
