use std::path::PathBuf;

use clap::Args;

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
