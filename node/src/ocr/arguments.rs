//! Arguments of `node ocr`.

use std::path::PathBuf;

use clap::Args;

use crate::config::BucketArgs;
use crate::export::{Format, FormatArgs};

#[derive(Debug, Args)]
pub struct OcrArgs {
    /// Folders of page images, or folders of such folders; with --input-bucket or --input-folder, volumes there (W-I).
    #[arg(required = true, value_name = "PAGES")]
    pub pages: Vec<PathBuf>,
    /// Folder for artifacts (unless --output-bucket is given), text and viewer; created if it does not exist.
    #[arg(long, value_name = "OUT")]
    pub out: PathBuf,
    /// Model bundle, or folder of one of BDRC's models, to use instead of a shipped one; its description says what it is for. May
    /// be given twice. auto:FOLDER chooses for each volume among the shipped recogniser and those in FOLDER.
    #[arg(long, value_name = "DIR")]
    pub model: Vec<PathBuf>,
    /// Folder with the models that are not part of the program, such as those of page_ocr; by default the one beside it.
    #[arg(long, env = "PARKHANG_MODELS__DIR", value_name = "DIR")]
    pub models_dir: Option<PathBuf>,
    /// Service of the configuration that does the work of a stage's own model: NAME of a section service.NAME. It reads pages in the stage
    /// ocr (of the kind openai or google_vision), tells blocks in doctags or embeds chunks in embed (openai). Without STAGE= it is for ocr, or
    /// for embed in the pipeline documents. May be repeated.
    #[arg(long, value_name = "[STAGE=]NAME")]
    pub engine: Vec<String>,
    /// Configuration file with the service of --engine; by default ./cluster.toml or /etc/parkhang/cluster.toml, whichever exists.
    #[arg(long, env = "PARKHANG_CONFIG", value_name = "FILE", requires = "engine")]
    pub config_file: Option<PathBuf>,
    /// Collection id (W...), instead of one derived from folder names.
    #[arg(long, value_name = "ID")]
    pub w_id: Option<String>,
    /// Image group id (I...), instead of one derived from the folder name; for a single volume.
    #[arg(long, value_name = "ID")]
    pub i_id: Option<String>,
    /// Pipeline of all volumes, ocr or page_ocr; by default PDFs go through page_ocr and all others through ocr.
    #[arg(long, value_name = "NAME")]
    pub pipeline: Option<String>,
    /// Read the pictures of all pages of page_ocr, also of those whose file holds good text: read_pages=all.
    #[arg(long, conflicts_with = "skip_text")]
    pub force_ocr: bool,
    /// Read the pictures of pages without any text only: read_pages=empty.
    #[arg(long)]
    pub skip_text: bool,
    /// Compare good text that files hold with the pictures of their pages, sample, always or never: verify=HOW.
    #[arg(long, value_name = "HOW", conflicts_with_all = ["force_ocr", "skip_text"])]
    pub verify: Option<String>,
    /// Run only these stages, e.g. ocr..reduce; the artifacts of the stages before must be in OUT.
    #[arg(long, value_name = "FIRST..LAST")]
    pub stages: Option<String>,
    /// Recompute pages whose results are still valid.
    #[arg(long)]
    pub force: bool,
    /// Number of pages that each stage processes in parallel; by default the number of cores.
    #[arg(long, value_name = "N")]
    pub workers: Option<usize>,
    /// Device of the networks: cpu, cpu-f32 (full precision), wgpu or cuda, the latter two also as wgpu:0 or cuda:1.
    #[arg(long, default_value = "cpu")]
    pub device: String,
    /// Set a key of the job configuration; may be repeated. See `docs/config.md`.
    #[arg(long = "config", value_name = "KEY=VALUE")]
    pub config: Vec<String>,
    /// Read only the first N pages of each volume; its results then have these pages only.
    #[arg(long, value_name = "N")]
    pub limit: Option<usize>,
    /// Show which pages each stage would work on and why, and which it would skip, and change nothing.
    #[arg(long)]
    pub dry_run: bool,
    /// Print the summary as JSON on standard output.
    #[arg(long)]
    pub json: bool,
    /// Formats to export at the end, separated by commas.
    #[arg(long, value_enum, value_delimiter = ',', default_values_t = [Format::Text, Format::Html])]
    pub export: Vec<Format>,
    /// Name of the job, part of every artifact key; by default that of its pipeline.
    #[arg(long, value_name = "NAME")]
    pub job: Option<String>,
    /// Database for the state; by default a private Postgres on this machine.
    #[arg(long, env = "DATABASE_URL", hide_env_values = true, value_name = "URL")]
    pub database_url: Option<String>,
    #[command(flatten)]
    pub options: FormatArgs,
    #[command(flatten)]
    pub buckets: BucketArgs,
}
