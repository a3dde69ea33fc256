//! Arguments of `node eval`.

use std::path::PathBuf;

use clap::Args;
use parkhang_core::domain::{Inputs, JobKey};

use crate::config::ConfigArgs;

#[derive(Debug, Args)]
pub struct EvalArgs {
    /// Folder of page or line images with ground truth: NAME.txt, NAME.xml (PAGE) or NAME.json with lines and polygons, and
    /// optionally a manifest.tsv that names collections.
    #[arg(value_name = "FOLDER")]
    pub folder: PathBuf,
    /// Results to evaluate: an output folder of `node ocr`. Without it the images are read now, into a temporary folder.
    #[arg(long, value_name = "OUT")]
    pub results: Option<PathBuf>,
    /// Evaluate what a job of the cluster has written so far, with the corrections of people.
    #[arg(long, value_name = "NAME", conflicts_with = "results")]
    pub job: Option<JobKey>,
    /// Leave out the corrections of people.
    #[arg(long, requires = "job")]
    pub original: bool,
    /// Learn instead how far these jobs, which have read the scans, can be trusted by one that combines them; archive:gv and
    /// archive:ocr_qwen_v1 may be among them. The key job.trust is printed for `job create --config`, and on standard error what it gains.
    #[arg(long, value_name = "JOBS", conflicts_with_all = ["results", "job"])]
    pub trust: Option<Inputs>,
    /// Model bundle, or folder of one of BDRC's models, to use instead of a shipped one; may be given twice.
    #[arg(long, value_name = "DIR")]
    pub model: Vec<PathBuf>,
    /// Device of the networks: cpu, cpu-f32 (full precision), wgpu or cuda.
    #[arg(long, default_value = "cpu")]
    pub device: String,
    /// Set a key of the job configuration; may be repeated. See `docs/config.md`.
    #[arg(long = "config", value_name = "KEY=VALUE")]
    pub config: Vec<String>,
    /// Print all counts as JSON.
    #[arg(long)]
    pub json: bool,
    /// Evaluate only the first N pages.
    #[arg(long, value_name = "N")]
    pub limit: Option<usize>,
    /// List each page as well as the collections.
    #[arg(long)]
    pub pages: bool,
    #[command(flatten)]
    pub settings: ConfigArgs,
}
