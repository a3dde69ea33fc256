//! The folder of the manifests, in which a node records what happened to each page. It lies apart from the artifacts, since it holds
//! times, and these have the same bytes whenever they are made. Records are removed with their job, or after a while.

use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use tokio::task::spawn_blocking;
use tracing::info;

use crate::runner::ManifestSink;
use parkhang_core::domain::{JobKey, StageName, Unfit, VolumeId};

/// Bytes that a disk must have room for to be of use.
const CHECKED_BYTES: usize = 64 << 10;

/// Folder of files `{job}/{volume}/parkhang.{stage}.manifest.jsonl`. The names in it are safe as path segments.
#[derive(Debug, Clone)]
pub struct ManifestFolder(PathBuf);

impl ManifestFolder {
    /// The manifests below `path`, which need not be there yet.
    pub fn new(path: impl Into<PathBuf>) -> Self {
        Self(path.into())
    }

    pub(crate) fn sink(&self, job: &JobKey, volume: &VolumeId, stage: &StageName) -> ManifestSink {
        let file = format!("parkhang.{stage}.manifest.jsonl");
        ManifestSink::new(self.of(job).join(volume.to_string()).join(file))
    }

    /// Checks that there is room for records, by writing some bytes and flushing them: a full disk often shows only then.
    pub(crate) async fn check(&self) -> Result<(), Unfit> {
        let folder = self.0.clone();
        blocking(move || {
            std::fs::create_dir_all(&folder)?;
            let mut file = tempfile::tempfile_in(&folder)?;
            file.write_all(&[0; CHECKED_BYTES])?;
            file.sync_all()
        })
        .await
        .map_err(|error| Unfit::Disk(format!("cannot write to {}: {error}", self.0.display())))
    }

    /// Removes the records of a job; returns whether there were any.
    ///
    /// # Errors
    ///
    /// When some are still there.
    pub async fn forget(&self, job: &JobKey) -> io::Result<bool> {
        let folder = self.of(job);
        blocking(move || remove(&folder)).await
    }

    /// Removes the records of jobs to which nothing was added since `then`; returns the number of those jobs.
    ///
    /// # Errors
    ///
    /// When the folder cannot be looked through, or some are still there.
    pub async fn forget_before(&self, then: SystemTime) -> io::Result<usize> {
        let root = self.0.clone();
        blocking(move || {
            let mut forgotten = 0;
            for job in entries(&root)? {
                if last_change(&job)? < then {
                    info!(folder = %job.display(), "removing expired manifests");
                    forgotten += usize::from(remove(&job)?);
                }
            }
            Ok(forgotten)
        })
        .await
    }

    fn of(&self, job: &JobKey) -> PathBuf {
        self.0.join(job.as_str())
    }
}

async fn blocking<T: Send + 'static>(work: impl FnOnce() -> io::Result<T> + Send + 'static) -> io::Result<T> {
    spawn_blocking(work)
        .await
        .unwrap_or_else(|stopped| Err(io::Error::other(stopped)))
}

fn remove(folder: &Path) -> io::Result<bool> {
    match std::fs::remove_dir_all(folder) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(false),
        removed => removed.map(|()| true),
    }
}

/// Folders in a folder; none if it is not there.
fn entries(folder: &Path) -> io::Result<Vec<PathBuf>> {
    let entries = match std::fs::read_dir(folder) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
        entries => entries?,
    };
    let mut folders = Vec::new();
    for entry in entries {
        let entry = entry?;
        if entry.file_type()?.is_dir() {
            folders.push(entry.path());
        }
    }
    Ok(folders)
}

/// Time at which the last record of a job was added, or its folder made. Only the files tell: adding to one leaves the
/// folders above it unchanged.
fn last_change(job: &Path) -> io::Result<SystemTime> {
    let mut last = job.metadata()?.modified()?;
    for volume in entries(job)? {
        for manifest in std::fs::read_dir(volume)? {
            last = last.max(manifest?.metadata()?.modified()?);
        }
    }
    Ok(last)
}

#[cfg(test)]
mod tests {
    use std::fs::{self, File};
    use std::time::Duration;

    use super::*;
    use parkhang_core::domain::testing;

    fn key(job: &str) -> JobKey {
        JobKey::new(job).unwrap()
    }

    fn record(folder: &ManifestFolder, job: &str) -> PathBuf {
        let stage = testing::stage("ocr");
        let sink = folder.sink(&key(job), &"W1-I1".parse().unwrap(), &stage);
        fs::create_dir_all(sink.path().parent().unwrap()).unwrap();
        fs::write(sink.path(), "{}\n").unwrap();
        sink.path().to_owned()
    }

    #[tokio::test]
    async fn records_go_with_their_job_and_no_others_do() {
        let root = tempfile::tempdir().unwrap();
        let folder = ManifestFolder::new(root.path().join("manifests"));
        assert!(!folder.forget(&key("press")).await.unwrap());
        let (gone, stays) = (record(&folder, "press"), record(&folder, "press2"));
        assert!(folder.forget(&key("press")).await.unwrap());
        assert!(!gone.exists() && stays.exists());
    }

    #[tokio::test]
    async fn records_that_nobody_adds_to_have_their_time() {
        let root = tempfile::tempdir().unwrap();
        let folder = ManifestFolder::new(root.path());
        let (old, new) = (record(&folder, "old"), record(&folder, "new"));
        let long_ago = SystemTime::now() - Duration::from_secs(1000);
        for path in old.ancestors().take(3) {
            File::open(path).unwrap().set_modified(long_ago).unwrap();
        }
        // The folders of a job that is at work do not change: its files do.
        for path in new.ancestors().skip(1).take(2) {
            File::open(path).unwrap().set_modified(long_ago).unwrap();
        }
        let then = SystemTime::now() - Duration::from_secs(100);
        assert_eq!(folder.forget_before(then).await.unwrap(), 1);
        assert!(!old.exists() && new.exists());
        assert!(!root.path().join("old").exists());
    }

    #[tokio::test]
    async fn a_folder_that_cannot_be_written_is_told_of() {
        let root = tempfile::tempdir().unwrap();
        let path = root.path().join("state");
        let folder = ManifestFolder::new(path.join("manifests"));
        fs::write(&path, "a file where a folder should be").unwrap();
        let Err(Unfit::Disk(reason)) = folder.check().await else {
            panic!("it can be written");
        };
        assert!(reason.contains("state/manifests"), "{reason}");
        fs::remove_file(&path).unwrap();
        assert_eq!(folder.check().await, Ok(()));
        assert_eq!(entries(&path.join("manifests")).unwrap(), Vec::<PathBuf>::new());
    }
}
