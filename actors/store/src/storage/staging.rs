use std::fs::{self, File};
use std::io::{self, Write};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};

use uuid::Uuid;

/// Folder of the staging folders, hidden from keys, of which no segment starts with a dot.
const FOLDER: &str = ".staging";

/// Lock file beside the staging folders. It stays.
const REPLACEMENTS: &str = "replacements";

/// Private folder for half-written files, on the file system of the store so that a rename out of it is atomic.
///
/// The folder lives as long as a lock file beside it is locked. A crashed writer's lock falls with its process, and the
/// next store that opens the same root removes the folder.
#[derive(Debug)]
pub(super) struct Staging {
    folder: PathBuf,
    lock_path: PathBuf,
    next_file: AtomicU64,
    _lock: File,
}

impl Staging {
    pub(super) fn open(root: &Path) -> io::Result<Self> {
        let parent = root.join(FOLDER);
        fs::create_dir_all(&parent)?;
        remove_abandoned(&parent)?;
        loop {
            let id = Uuid::new_v4().simple().to_string();
            let lock_path = parent.join(format!("{id}.lock"));
            let lock = File::create_new(&lock_path)?;
            lock.lock()?;
            // Another store may have taken the file for abandoned before it was locked.
            if !is_linked(&lock, &lock_path) {
                continue;
            }
            // Made under the lock, so that nobody takes the folder for an abandoned one.
            let folder = parent.join(id);
            fs::create_dir(&folder)?;
            return Ok(Self {
                folder,
                lock_path,
                next_file: AtomicU64::new(0),
                _lock: lock,
            });
        }
    }

    /// True while the folder is there. It is not where the file system that it lies on has gone.
    pub(super) fn is_there(&self) -> bool {
        self.lock_path.exists()
    }

    /// Waits for the lock that is held while an object is compared and replaced; it is one for all stores of the root.
    pub(super) fn lock_replacements(&self) -> io::Result<File> {
        let parent = self.folder.parent().unwrap_or(&self.folder);
        let lock = File::create(parent.join(REPLACEMENTS))?;
        lock.lock()?;
        Ok(lock)
    }

    /// Writes a new file that holds `parts` one after the other, flushed to the disk if `durable`.
    pub(super) fn write(&self, parts: &[&[u8]], durable: bool) -> io::Result<StagedFile> {
        let number = self.next_file.fetch_add(1, Ordering::Relaxed);
        let staged = StagedFile {
            path: self.folder.join(number.to_string()),
        };
        let mut file = File::create_new(&staged.path)?;
        for part in parts {
            file.write_all(part)?;
        }
        if durable {
            file.sync_all()?;
        }
        Ok(staged)
    }
}

impl Drop for Staging {
    fn drop(&mut self) {
        // Best effort: what stays is removed by the next store that opens this root.
        let _ = fs::remove_dir_all(&self.folder);
        let _ = fs::remove_file(&self.lock_path);
    }
}

/// File in the staging folder; dropping it removes it unless it was moved away.
#[derive(Debug)]
pub(super) struct StagedFile {
    path: PathBuf,
}

impl StagedFile {
    pub(super) fn path(&self) -> &Path {
        &self.path
    }
}

impl Drop for StagedFile {
    fn drop(&mut self) {
        let _ = fs::remove_file(&self.path);
    }
}

fn remove_abandoned(parent: &Path) -> io::Result<()> {
    for entry in fs::read_dir(parent)? {
        let lock_path = entry?.path();
        if lock_path.extension().is_none_or(|extension| extension != "lock") {
            continue;
        }
        // Another store that opens this root has removed it.
        let Ok(lock) = File::open(&lock_path) else {
            continue;
        };
        if lock.try_lock().is_ok() {
            // The lock file goes last: if this is cut off, the next store finds it and removes the rest.
            let _ = fs::remove_dir_all(lock_path.with_extension(""));
            let _ = fs::remove_file(&lock_path);
        }
    }
    Ok(())
}

fn is_linked(file: &File, path: &Path) -> bool {
    match (file.metadata(), fs::metadata(path)) {
        (Ok(open), Ok(named)) => open.ino() == named.ino() && open.dev() == named.dev(),
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_crashed_writer_left_is_removed_and_a_living_one_is_not_touched() {
        let root = tempfile::tempdir().unwrap();
        let living = Staging::open(root.path()).unwrap();
        let kept = living.write(&[b"half"], false).unwrap();

        let parent = root.path().join(FOLDER);
        fs::create_dir(parent.join("dead")).unwrap();
        fs::write(parent.join("dead/0"), b"half").unwrap();
        File::create_new(parent.join("dead.lock")).unwrap();

        let _second = Staging::open(root.path()).unwrap();
        assert!(!parent.join("dead").exists());
        assert!(!parent.join("dead.lock").exists());
        assert!(kept.path().exists());
    }

    #[test]
    fn a_closed_store_leaves_nothing() {
        let root = tempfile::tempdir().unwrap();
        drop(Staging::open(root.path()).unwrap());
        assert_eq!(fs::read_dir(root.path().join(FOLDER)).unwrap().count(), 0);
    }
}
