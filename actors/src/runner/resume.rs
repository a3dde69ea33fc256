use std::io;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use super::WorkItem;
use crate::artifact::Digest;

/// What an output on a plain path was made from, kept beside it as `{output}.fp.json`. For workers whose outputs are
/// files; those that write artifacts carry the same in their Parquet metadata.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
struct OutputFingerprint {
    input_sha256: Option<Digest>,
    cfg_hash: Digest,
}

/// The resume predicate for items whose outputs are files.
#[derive(Debug, Clone, Copy, Default)]
pub struct OutputFingerprints;

impl OutputFingerprints {
    /// Whether every output of `item` is there, is not empty, and was made from this input with this configuration. What
    /// cannot be read counts as not there.
    pub async fn satisfy(item: &WorkItem) -> bool {
        let item = item.clone();
        let satisfied =
            move || !item.outputs.is_empty() && item.outputs.values().all(|path| is_current(&item, path));
        tokio::task::spawn_blocking(satisfied).await.unwrap_or(false)
    }

    /// Notes what the outputs of `item` were made from; call it once they are written.
    ///
    /// # Errors
    ///
    /// When a fingerprint file cannot be written.
    pub async fn record(item: &WorkItem) -> io::Result<()> {
        let item = item.clone();
        let record = move || -> io::Result<()> {
            let json = serde_json::to_vec(&fingerprint(&item))?;
            item.outputs.values().try_for_each(|path| {
                let target = fingerprint_path(path);
                let folder = target.parent().unwrap_or(Path::new("."));
                let mut staged = tempfile::NamedTempFile::new_in(folder)?;
                io::Write::write_all(&mut staged, &json)?;
                staged.persist(&target)?;
                Ok(())
            })
        };
        tokio::task::spawn_blocking(record)
            .await
            .unwrap_or_else(|stopped| Err(io::Error::other(stopped)))
    }
}

fn fingerprint(item: &WorkItem) -> OutputFingerprint {
    OutputFingerprint {
        input_sha256: item.input_hash,
        cfg_hash: item.cfg_hash,
    }
}

fn fingerprint_path(output: &str) -> PathBuf {
    PathBuf::from(format!("{output}.fp.json"))
}

fn is_current(item: &WorkItem, output: &str) -> bool {
    let has_content = std::fs::metadata(output).is_ok_and(|meta| meta.is_file() && meta.len() > 0);
    let noted = std::fs::read(fingerprint_path(output));
    let noted = noted
        .ok()
        .and_then(|json| serde_json::from_slice::<OutputFingerprint>(&json).ok());
    has_content && noted == Some(fingerprint(item))
}
