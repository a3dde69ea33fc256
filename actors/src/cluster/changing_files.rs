//! Files that are looked at now and then whether they have changed, such as certificates, which are renewed while a process uses them.

use std::os::unix::fs::MetadataExt;
use std::path::PathBuf;
use std::sync::{Mutex, PoisonError};

/// Files and what was last seen of them.
#[derive(Debug)]
pub struct ChangingFiles {
    paths: Vec<PathBuf>,
    seen: Mutex<Stamps>,
}

/// Inode, length and time of change of each file that is there, by which it is seen that one has changed.
type Stamps = Vec<Option<(u64, u64, i64, i64)>>;

impl ChangingFiles {
    /// Looks at these files. To be called before they are read: one that changes meanwhile is seen to have changed then.
    pub fn new(paths: Vec<PathBuf>) -> Self {
        let seen = Mutex::new(stamps(&paths));
        Self { paths, seen }
    }

    /// Does something if any of the files has changed since the last look. Others who look meanwhile wait for it.
    pub fn if_changed(&self, work: impl FnOnce()) {
        // Stamps are replaced as a whole.
        let mut seen = self.seen.lock().unwrap_or_else(PoisonError::into_inner);
        let now = stamps(&self.paths);
        if *seen != now {
            work();
            *seen = now;
        }
    }
}

fn stamps(paths: &[PathBuf]) -> Stamps {
    let stamp = |path: &PathBuf| {
        let found = path.metadata().ok()?;
        Some((found.ino(), found.len(), found.mtime(), found.mtime_nsec()))
    };
    paths.iter().map(stamp).collect()
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    #[test]
    fn each_change_is_seen_once() {
        let folder = tempfile::tempdir().unwrap();
        let [one, other] = ["one", "other"].map(|name| folder.path().join(name));
        fs::write(&one, "a").unwrap();
        let files = ChangingFiles::new(vec![one.clone(), other.clone()]);
        let changes = || {
            let mut changes = 0;
            files.if_changed(|| changes += 1);
            files.if_changed(|| changes += 1);
            changes
        };
        assert_eq!(changes(), 0);
        fs::write(&other, "b").unwrap();
        assert_eq!(changes(), 1);
        fs::write(&one, "longer").unwrap();
        assert_eq!(changes(), 1);
        fs::remove_file(&one).unwrap();
        assert_eq!(changes(), 1);
    }
}
