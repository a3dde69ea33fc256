use std::fs::{self, File};
use std::io::{self, Read};
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};
use std::time::SystemTime;

use sha2::{Digest, Sha256};

use super::super::staging::Staging;
use super::super::{ArtifactKey, VersionedObject};
use super::entry;

/// Folder of the copies. It starts with no dot, as the staging folder beside it does.
const COPIES: &str = "copies";
/// Lock file that is held by the process that removes old copies.
const SWEEP_LOCK: &str = "sweep.lock";
/// Share of the capacity that a sweep leaves in use, so that it makes room for a while.
const LEFT_BY_A_SWEEP: (u64, u64) = (7, 8);
/// Share of the capacity after whose writing a process looks at the whole folder, as it counts only its own writes.
const UNSEEN_SHARE: u64 = 32;

/// Copies of objects in a folder that several processes may use at once. Each call may block.
///
/// A copy appears by rename and is never changed; the time of its last use is the file's time of change.
#[derive(Debug)]
pub(super) struct DiskCache {
    root: PathBuf,
    staging: Staging,
    capacity: u64,
    usage: Mutex<Usage>,
}

/// Usage of the folder, as far as this process knows it.
#[derive(Debug, Default)]
struct Usage {
    bytes: u64,
    /// Bytes written by this process since it last looked at the folder.
    unseen: u64,
}

struct Copy {
    path: PathBuf,
    used: SystemTime,
    size: u64,
}

impl DiskCache {
    pub(super) fn open(root: PathBuf, capacity: u64) -> io::Result<Self> {
        fs::create_dir_all(root.join(COPIES))?;
        let cache = Self {
            staging: Staging::open(&root)?,
            root,
            capacity,
            usage: Mutex::default(),
        };
        cache.sweep()?;
        Ok(cache)
    }

    /// Path of a copy. The hash of the key names the file, as keys are longer than file names and hold characters that those
    /// may not.
    pub(super) fn path(&self, key: &ArtifactKey) -> PathBuf {
        let name = hex::encode(Sha256::digest(key.as_str()));
        let (folder, file) = name.split_at(2);
        self.root.join(COPIES).join(folder).join(file)
    }

    pub(super) fn holds(&self, key: &ArtifactKey) -> bool {
        self.path(key).is_file()
    }

    pub(super) fn read(&self, key: &ArtifactKey) -> Option<VersionedObject> {
        let path = self.path(key);
        let mut file = File::open(&path).ok()?;
        let mut bytes = Vec::new();
        file.read_to_end(&mut bytes).ok()?;
        let Some(object) = entry::open(bytes) else {
            tracing::warn!(%key, "removing a damaged copy from the cache");
            // Best effort: it will not be used either way.
            let _ = fs::remove_file(&path);
            return None;
        };
        // Best effort: an unmarked copy goes sooner.
        let _ = file.set_modified(SystemTime::now());
        Some(object)
    }

    /// Keeps a copy of an object, unless the disk refuses it.
    pub(super) fn fill(&self, key: &ArtifactKey, object: &VersionedObject) {
        if let Err(error) = self.try_fill(key, object) {
            tracing::warn!(%key, %error, "the cache cannot keep an object");
        }
    }

    fn try_fill(&self, key: &ArtifactKey, object: &VersionedObject) -> io::Result<()> {
        let Some(header) = entry::header(object) else {
            return Ok(());
        };
        let size = (header.len() + object.bytes.len()) as u64;
        // A copy as large as this would push out most of the others.
        if size > self.capacity / 2 {
            return Ok(());
        }
        let path = self.path(key);
        // Not flushed: a copy that a crash has damaged is found out by its hash.
        let staged = self.staging.write(&[&header, &object.bytes], false)?;
        if let Some(folder) = path.parent() {
            fs::create_dir_all(folder)?;
        }
        fs::rename(staged.path(), &path)?;
        // The lock is released before the sweep, which may wait for another process.
        let due = {
            let mut usage = self.usage.lock().unwrap_or_else(PoisonError::into_inner);
            usage.bytes += size;
            usage.unseen += size;
            usage.bytes > self.capacity || usage.unseen > self.capacity / UNSEEN_SHARE
        };
        if due { self.sweep() } else { Ok(()) }
    }

    /// Counts the copies and, if they are too many bytes, removes those that were not used for longest. One process at a
    /// time; the others wait, since what they wrote may have come too late to be counted.
    fn sweep(&self) -> io::Result<()> {
        let lock = File::create(self.root.join(SWEEP_LOCK))?;
        lock.lock()?;
        let mut copies = copies_in(&self.root.join(COPIES))?;
        let mut bytes = copies.iter().map(|copy| copy.size).sum::<u64>();
        if bytes > self.capacity {
            copies.sort_by_key(|copy| copy.used);
            let (share, whole) = LEFT_BY_A_SWEEP;
            let enough = self.capacity / whole * share;
            for copy in &copies {
                if bytes <= enough {
                    break;
                }
                // Another process may have removed or replaced it.
                if fs::remove_file(&copy.path).is_ok() {
                    bytes -= copy.size;
                }
            }
        }
        *self.usage.lock().unwrap_or_else(PoisonError::into_inner) = Usage { bytes, unseen: 0 };
        Ok(())
    }
}

fn copies_in(folder: &Path) -> io::Result<Vec<Copy>> {
    let mut copies = Vec::new();
    for shelf in fs::read_dir(folder)? {
        for file in fs::read_dir(shelf?.path())? {
            let file = file?;
            // It may be gone by now.
            if let Ok(meta) = file.metadata() {
                copies.push(Copy {
                    path: file.path(),
                    used: meta.modified()?,
                    size: meta.len(),
                });
            }
        }
    }
    Ok(copies)
}
