use std::path::PathBuf;

use clap::Args;

use crate::config::BucketArgs;
use crate::export::{Format, IiifArgs};

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
