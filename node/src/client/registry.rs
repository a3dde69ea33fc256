//! The orchestrators of this machine: each writes where it listens into a file of the state folder, and holds a lock on the file while it
//! lives, so that what a killed one left behind is told from one that is there.

use std::fs::{File, TryLockError, create_dir_all, metadata, read_dir, read_to_string, remove_file};
use std::io::{ErrorKind, Write};
use std::net::SocketAddr;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use tempfile::Builder;

use super::url::ServerUrl;

/// In the state folder: a file for each orchestrator, named like its node.
const FOLDER: &str = "orchestrators";
/// First letter of files that are no registration, or not yet.
const UNFINISHED: &str = ".";
/// Locked while a file gets its name or is removed, so that nobody removes a newer file of the name than the one that was looked at.
const CHANGES: &str = ".changes";

/// The file of an orchestrator; it goes when this is dropped.
#[derive(Debug)]
pub struct Registration {
    path: PathBuf,
    /// The file, locked.
    file: File,
}

impl Registration {
    /// Lets processes of this machine know that `node` answers at `url`, under `address` as seen from here.
    ///
    /// # Errors
    ///
    /// When the file cannot be written into the state folder.
    pub fn write(state: &Path, node: &str, url: &str, address: SocketAddr) -> Result<Self> {
        let folder = state.join(FOLDER);
        let path = folder.join(node);
        let write = || {
            create_dir_all(&folder)?;
            let mut file = Builder::new().prefix(UNFINISHED).tempfile_in(&folder)?;
            // Before it is seen, as whoever sees it unlocked takes it away.
            file.as_file().lock()?;
            writeln!(file, "{url} {address}")?;
            let _changing = changes(&folder)?;
            // Renamed over whatever a killed orchestrator of the same name left behind, which holds no lock.
            file.persist(&path).map_err(|refused| refused.error)
        };
        let file = write().with_context(|| format!("cannot write {}", path.display()))?;
        Ok(Self { path, file })
    }
}

impl Drop for Registration {
    fn drop(&mut self) {
        // One that cannot be removed is not locked any more.
        let _ = remove(&self.path, &self.file);
    }
}

/// Waits until nobody else changes which files there are. The right ends when the file is dropped.
fn changes(folder: &Path) -> std::io::Result<File> {
    let lock = File::create(folder.join(CHANGES))?;
    lock.lock()?;
    Ok(lock)
}

/// Removes a file unless another one has come in its place, which is that of a living orchestrator of the same name.
fn remove(path: &Path, file: &File) -> std::io::Result<()> {
    let _changing = changes(path.parent().unwrap_or(Path::new(".")))?;
    let identity = |of: std::fs::Metadata| (of.dev(), of.ino());
    if identity(metadata(path)?) == identity(file.metadata()?) {
        remove_file(path)?;
    }
    Ok(())
}

/// The orchestrators that run with this state folder, as far as it is this user's.
///
/// # Errors
///
/// When the folder, or a file of a living orchestrator, cannot be read.
pub fn registered(state: &Path) -> Result<Vec<ServerUrl>> {
    let folder = state.join(FOLDER);
    let entries = match read_dir(&folder) {
        Ok(entries) => entries,
        // A user without an orchestrator of their own works on the database, so the state folder of somebody
        // else is the same as none.
        Err(error) if is_not_ours(&error) => return Ok(Vec::new()),
        Err(error) => return Err(error).with_context(|| format!("cannot read {}", folder.display())),
    };
    let mut found = Vec::new();
    for entry in entries {
        let path = entry
            .with_context(|| format!("cannot read {}", folder.display()))?
            .path();
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        if !name.starts_with(UNFINISHED)
            && let Some(text) =
                read_living(&path).with_context(|| format!("cannot read {}", path.display()))?
        {
            found.push(parse(&text).with_context(|| format!("{} is damaged", path.display()))?);
        }
    }
    Ok(found)
}

/// True where there is nothing, or nothing for this user, who cannot read the token beside it either.
fn is_not_ours(error: &std::io::Error) -> bool {
    matches!(error.kind(), ErrorKind::NotFound | ErrorKind::PermissionDenied)
}

/// The text of a file whose orchestrator lives. Any other file is removed.
fn read_living(path: &Path) -> std::io::Result<Option<String>> {
    let file = match File::open(path) {
        Ok(file) => file,
        Err(error) if is_not_ours(&error) => return Ok(None),
        Err(error) => return Err(error),
    };
    match file.try_lock_shared() {
        // The orchestrator holds the lock exclusively while it lives; a shared lock is tried so that several
        // commands at once do not take each other for one.
        Err(TryLockError::WouldBlock) => read_to_string(path).map(Some),
        Err(TryLockError::Error(error)) => Err(error),
        Ok(()) => {
            // Somebody else may have removed it, or it belongs to another user; it says nothing either way.
            let _ = remove(path, &file);
            Ok(None)
        }
    }
}

fn parse(text: &str) -> Result<ServerUrl> {
    let (url, address) = text.trim().split_once(' ').context("expected URL ADDRESS")?;
    let url: ServerUrl = url.parse()?;
    Ok(ServerUrl {
        dial: Some(address.parse()?),
        ..url
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_orchestrator_is_found_while_it_lives() {
        let state = tempfile::tempdir().unwrap();
        assert_eq!(registered(state.path()).unwrap(), []);
        let address: SocketAddr = "127.0.0.1:7480".parse().unwrap();
        let one = Registration::write(state.path(), "orch.1", "https://orch.example:7480", address).unwrap();
        let found = registered(state.path()).unwrap();
        assert_eq!(found[0].to_string(), "https://orch.example:7480");
        assert_eq!((found.len(), found[0].dial), (1, Some(address)));
        drop(one);
        assert_eq!(registered(state.path()).unwrap(), []);

        // What a killed one leaves is not locked.
        let left = state.path().join(FOLDER).join("orch.2");
        std::fs::write(&left, "http://127.0.0.1:1 127.0.0.1:1\n").unwrap();
        assert_eq!(registered(state.path()).unwrap(), []);
        assert!(!left.exists());
    }

    #[test]
    fn the_file_of_a_successor_stays() {
        let state = tempfile::tempdir().unwrap();
        let write = |port: u16| {
            let address = SocketAddr::from(([127, 0, 0, 1], port));
            Registration::write(state.path(), "orch.1", &format!("http://{address}"), address).unwrap()
        };
        let found = || registered(state.path()).unwrap().len();
        let path = state.path().join(FOLDER).join("orch.1");
        let first = write(7480);
        let second = write(7481);
        drop(first);
        assert_eq!(found(), 1);

        // A command has opened what a killed one left, and then its successor came.
        drop(second);
        std::fs::write(&path, "http://127.0.0.1:1 127.0.0.1:1\n").unwrap();
        let left = File::open(&path).unwrap();
        let _third = write(7482);
        remove(&path, &left).unwrap();
        assert_eq!(found(), 1);
    }
}
