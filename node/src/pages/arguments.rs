//! Arguments of `node pages detect`.

use std::path::PathBuf;

use clap::Args;

use crate::config::ConfigArgs;

/// Filings of a chunk if nobody says otherwise.
const CHUNK_SIZE: usize = 1000;

#[derive(Debug, Args)]
pub struct DetectArgs {
    /// PDFs, folders of them, or PDFs in buckets: s3://BUCKET/KEY.
    #[arg(required_unless_present = "manifest_key", value_name = "FILES")]
    pub files: Vec<PathBuf>,
    /// Print one line of JSON a page.
    #[arg(long)]
    pub json: bool,
    /// Exchange of the filings, unless the manifest names it. Files without one are looked at and nothing is recorded of them.
    #[arg(long, value_name = "NAME")]
    pub exchange: Option<String>,
    /// Bucket of the manifest; by default pages.s3.bucket.
    #[arg(long, value_name = "BUCKET", requires = "manifest_key")]
    pub manifest_bucket: Option<String>,
    /// Key of a manifest: a line for each filing, its key, s3://BUCKET/KEY or JSON with s3_key, source_id, exchange and s3_bucket; or a
    /// JSON list of these. It may be gzipped.
    #[arg(long, value_name = "KEY", conflicts_with = "files")]
    pub manifest_key: Option<String>,
    /// Number of filings of the manifest that are one chunk.
    #[arg(long, value_name = "N", default_value_t = CHUNK_SIZE, requires = "manifest_key")]
    pub chunk_size: usize,
    /// Do this chunk only, counted from 1.
    #[arg(long, value_name = "N", requires = "manifest_key")]
    pub chunk: Option<usize>,
    /// Do this chunk only, counted from 0, as array jobs of AWS Batch count; has no effect without a manifest.
    #[arg(long, env = "AWS_BATCH_JOB_ARRAY_INDEX", value_name = "N")]
    pub array_index: Option<usize>,
    /// Begin the manifest anew, although an earlier run was interrupted or had failures.
    #[arg(long, requires = "manifest_key")]
    pub again: bool,
    /// Database with the table filings, whose column broken_pages is updated.
    #[arg(long, env = "DATABASE_URL", hide_env_values = true, value_name = "URL")]
    pub database_url: Option<String>,
    #[command(flatten)]
    pub reading: ReadingArgs,
    #[command(flatten)]
    pub config: ConfigArgs,
}

/// Arguments that say who reads the pages. The values of variables are read in `settings`, since one that is empty counts as not set.
#[derive(Debug, Clone, Default, Args)]
pub struct ReadingArgs {
    /// Queue for requests to read the pages, URL or name; by default that of the standing job page_ocr in intake.queues.
    #[arg(long, env = "OCR_QUEUE_URL", value_name = "QUEUE")]
    pub queue: Option<String>,
    /// Send requests to the queue, if there is one. Default: true.
    #[arg(long, env = "ENABLE_OCR_QUEUE", value_name = "BOOL", num_args = 0..=1, require_equals = true, default_missing_value = "true")]
    pub ocr_queue: Option<String>,
    /// Number of pages that a request asks for, 5 to 20. Default: 10.
    #[arg(long, env = "OCR_PAGE_CHUNK_SIZE", value_name = "N")]
    pub page_chunk_size: Option<String>,
    /// Read the pages in this process and send no requests. Default: false.
    #[arg(long, env = "ENABLE_INLINE_OCR", value_name = "BOOL", num_args = 0..=1, require_equals = true, default_missing_value = "true")]
    pub inline_ocr: Option<String>,
    /// Folder with the models of --inline-ocr; by default models.dir.
    #[arg(long, value_name = "DIR")]
    pub models_dir: Option<PathBuf>,
}
