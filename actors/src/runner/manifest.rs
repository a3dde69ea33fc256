//! Record of a stage run on disk: one JSON line per item, in order of delivery.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Read, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use super::{ItemReport, ItemStatus, WorkItem};
use parkhang_core::domain::{ErrorCategory, StageError, StageName};
use parkhang_store::artifact::Digest;

const SCHEMA_VERSION: &str = "parkhang/1.0.0";
/// Reason for skipping an item; the kernel knows no other.
const RESUME_SATISFIED: &str = "resume-satisfied";

/// One line of a manifest.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ManifestRecord {
    pub stage: StageName,
    /// The item's id.
    pub doc_id: String,
    pub status: ItemStatus,
    /// Seconds from the first try to the end of the last one, delays included; 0 for a skipped item.
    pub duration_s: f64,
    /// Path or key of the item's input.
    pub input_path: Option<String>,
    /// Path or key that the item's result went to.
    pub output_path: Option<String>,
    /// Version of the form of these lines.
    pub schema_version: String,
    /// Hash of the bytes of the input.
    pub input_hash: Option<Digest>,
    /// Tries that the item had in this run; 0 for a skipped one.
    pub attempts: u32,
    /// Reason for skipping the item; present only for a skipped one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    /// The last error; present only for a failed item.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error: Option<StageError>,
    /// Fields that the stage adds.
    #[serde(flatten)]
    pub extra: Map<String, Value>,
}

impl ManifestRecord {
    /// The line about `item`.
    pub fn new(stage: &StageName, item: &WorkItem, report: &ItemReport) -> Self {
        let skipped = report.status == ItemStatus::Skip;
        Self {
            stage: stage.clone(),
            doc_id: item.item_id.clone(),
            status: report.status,
            duration_s: report.duration.as_secs_f64(),
            input_path: item.input_path.clone(),
            output_path: item.output_path.clone(),
            schema_version: SCHEMA_VERSION.to_owned(),
            input_hash: item.input_hash,
            attempts: report.attempts,
            reason: skipped.then(|| RESUME_SATISFIED.to_owned()),
            error: report.error.clone(),
            extra: report.manifest.clone(),
        }
    }

    /// The record as JSON, with its line end.
    ///
    /// # Errors
    ///
    /// When a value has no JSON form; those of this type have one.
    pub fn to_line(&self) -> Result<String, serde_json::Error> {
        serde_json::to_string(self).map(|json| json + "\n")
    }
}

/// JSONL file of records, to which other processes may append as well.
///
/// Each record is one write under an exclusive lock of the file. A line that a crash cut short is cut off before the
/// next record, so a reader that takes the lock never sees part of one.
#[derive(Debug, Clone)]
pub struct ManifestSink {
    path: PathBuf,
}

impl ManifestSink {
    /// The manifest at `path`; the file and its folders are made with the first record.
    pub fn new(path: impl Into<PathBuf>) -> Self {
        Self { path: path.into() }
    }

    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Appends a record.
    ///
    /// # Errors
    ///
    /// An error of the category `node` when the file cannot be written, such as on a disk that is full: no item is to blame.
    pub async fn append(&self, record: ManifestRecord) -> Result<(), StageError> {
        let stage = record.stage.clone();
        let path = self.path.clone();
        let appended = tokio::task::spawn_blocking(move || {
            let line = record.to_line()?;
            append_line(&path, &line)
        })
        .await
        .unwrap_or_else(|stopped| Err(io::Error::other(stopped)));
        appended.map_err(|error| {
            let message = format!("cannot append to the manifest {}: {error}", self.path.display());
            StageError::new(stage.as_str(), ErrorCategory::Node, message)
        })
    }
}

fn append_line(path: &Path, line: &str) -> io::Result<()> {
    if let Some(folder) = path.parent() {
        fs::create_dir_all(folder)?;
    }
    let mut file = OpenOptions::new()
        .read(true)
        .append(true)
        .create(true)
        .open(path)?;
    file.lock()?;
    cut_torn_line(&mut file)?;
    file.write_all(line.as_bytes())
}

/// Cuts off everything after the last line end. Reads from the end of the file, block by block: a manifest may be long, and
/// the line end is nearly always in its last block.
fn cut_torn_line(file: &mut File) -> io::Result<()> {
    const BLOCK: u64 = 4096;
    let length = file.metadata()?.len();
    let mut end = length;
    while end > 0 {
        let start = end.saturating_sub(BLOCK);
        let mut block = vec![0; (end - start) as usize];
        file.seek(SeekFrom::Start(start))?;
        file.read_exact(&mut block)?;
        if let Some(line_end) = block.iter().rposition(|byte| *byte == b'\n') {
            end = start + line_end as u64 + 1;
            break;
        }
        end = start;
    }
    if end < length { file.set_len(end) } else { Ok(()) }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use parkhang_core::domain::testing::stage;

    fn record(id: &str) -> ManifestRecord {
        let item = WorkItem {
            input_path: Some(format!("scans/{id}.tif")),
            ..WorkItem::new(id)
        };
        let report = ItemReport {
            status: ItemStatus::Skip,
            attempts: 0,
            duration: Duration::ZERO,
            error: None,
            manifest: Map::from_iter([("chunk_count".to_owned(), Value::from(3))]),
        };
        ManifestRecord::new(&stage("ocr"), &item, &report)
    }

    fn read(path: &Path) -> Vec<ManifestRecord> {
        let text = fs::read_to_string(path).unwrap();
        text.lines()
            .map(|line| serde_json::from_str(line).unwrap())
            .collect()
    }

    #[tokio::test]
    async fn a_torn_line_is_cut_off() {
        let folder = tempfile::tempdir().unwrap();
        let sink = ManifestSink::new(folder.path().join("ocr.manifest.jsonl"));
        for torn in [String::new(), "{\"stage\": \"o".to_owned(), "x".repeat(10_000)] {
            let before = read_if_any(sink.path());
            OpenOptions::new()
                .create(true)
                .append(true)
                .open(sink.path())
                .unwrap()
                .write_all(torn.as_bytes())
                .unwrap();
            sink.append(record("a")).await.unwrap();
            assert_eq!(read(sink.path()).len(), before + 1);
        }
        assert_eq!(read(sink.path())[0], record("a"));
    }

    fn read_if_any(path: &Path) -> usize {
        if path.exists() { read(path).len() } else { 0 }
    }

    /// Rows: 208.
    #[tokio::test(flavor = "multi_thread", worker_threads = 4)]
    async fn racing_writers_write_whole_lines() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("manifest.jsonl");
        let writers: Vec<_> = (0..8)
            .map(|writer| {
                let sink = ManifestSink::new(&path);
                tokio::spawn(async move {
                    for line in 0..20 {
                        sink.append(record(&format!("{writer}-{line}"))).await.unwrap();
                    }
                })
            })
            .collect();
        for writer in writers {
            writer.await.unwrap();
        }
        assert_eq!(read(&path).len(), 160);
    }

    /// Rows: 166, 181, 198, 199.
    #[test]
    fn the_base_fields_are_there() {
        let line: Value = serde_json::from_str(&record("p1").to_line().unwrap()).unwrap();
        for field in [
            "stage",
            "doc_id",
            "status",
            "duration_s",
            "input_path",
            "output_path",
            "schema_version",
            "input_hash",
            "attempts",
        ] {
            assert!(line.get(field).is_some(), "{field}");
        }
        assert_eq!(line["reason"], "resume-satisfied");
        assert_eq!(line["chunk_count"], 3);
        assert_eq!(line["input_path"], "scans/p1.tif");
    }
}
