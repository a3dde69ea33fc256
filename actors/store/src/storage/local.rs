mod folders;

use std::collections::{BTreeMap, BTreeSet};
use std::fs::{self, File};
use std::io::{self, Read, Seek, SeekFrom};
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};

use async_trait::async_trait;
use bytes::Bytes;

use self::folders::{has_entries, make_folders, sync_all, sync_parent};
use super::staging::Staging;
use super::{
    ArtifactKey, ArtifactStore, MAX_OBJECT, ObjectMeta, PutOutcome, StorageError, clamp_range, read_within,
    version_of,
};
use parkhang_core::failpoint::Failpoint;

/// Number of times that a write starts over because its folder was removed as empty in between.
const FOLDER_RETRIES: usize = 16;

/// Store in a folder of files, one per artifact, whose path below the root is the key.
///
/// An object appears by `rename`, or by `link` where it must not exist, from a staging folder on the same file system;
/// durable writes flush the file first and its folder after. Any number of processes may share a root.
#[derive(Debug, Clone)]
pub struct LocalStore {
    folder: Arc<Folder>,
}

impl LocalStore {
    /// Opens the store in `root`, creating the folder if it is not there, and removes files that crashed writers left in staging.
    ///
    /// # Errors
    ///
    /// [`StorageError::Open`] if the folder cannot be created or written.
    pub async fn open(root: impl Into<PathBuf>) -> Result<Self, StorageError> {
        let root = root.into();
        let opened = tokio::task::spawn_blocking({
            let root = root.clone();
            move || -> io::Result<Folder> {
                make_folders(&root)?;
                let folder = Folder::new(root);
                folder.staging()?;
                Ok(folder)
            }
        });
        let folder = opened
            .await
            .unwrap_or_else(|stopped| Err(io::Error::other(stopped)));
        Ok(Self {
            folder: Arc::new(folder.map_err(|source| StorageError::Open { root, source })?),
        })
    }

    /// Store in a folder that is only read, which may be on a file system that takes no writes.
    pub fn for_reading(root: impl Into<PathBuf>) -> Self {
        Self {
            folder: Arc::new(Folder::new(root.into())),
        }
    }

    /// Folder of the store.
    pub fn root(&self) -> &Path {
        &self.folder.root
    }

    async fn blocking<T: Send + 'static>(
        &self,
        key: &ArtifactKey,
        work: impl FnOnce(&Folder, &ArtifactKey) -> Result<T, StorageError> + Send + 'static,
    ) -> Result<T, StorageError> {
        let (folder, owned_key) = (Arc::clone(&self.folder), key.clone());
        tokio::task::spawn_blocking(move || work(&folder, &owned_key))
            .await
            .unwrap_or_else(|_| Err(StorageError::ShuttingDown { key: key.clone() }))
    }
}

#[async_trait]
impl ArtifactStore for LocalStore {
    async fn get_within(&self, key: &ArtifactKey, limit: u64) -> Result<Bytes, StorageError> {
        self.blocking(key, move |folder, key| folder.read(key, limit))
            .await
    }

    async fn get_range(&self, key: &ArtifactKey, range: Range<u64>) -> Result<Bytes, StorageError> {
        self.blocking(key, move |folder, key| folder.read_range(key, &range))
            .await
    }

    async fn head(&self, key: &ArtifactKey) -> Result<Option<ObjectMeta>, StorageError> {
        self.blocking(key, |folder, key| folder.head(key)).await
    }

    async fn put(&self, key: &ArtifactKey, bytes: Bytes) -> Result<(), StorageError> {
        self.blocking(key, move |folder, key| folder.put(key, &bytes, true))
            .await
    }

    async fn put_unsynced(&self, key: &ArtifactKey, bytes: Bytes) -> Result<(), StorageError> {
        self.blocking(key, move |folder, key| folder.put(key, &bytes, false))
            .await
    }

    async fn sync(&self, prefix: &ArtifactKey) -> Result<(), StorageError> {
        self.blocking(prefix, |folder, prefix| folder.sync(prefix)).await
    }

    async fn put_if_absent(&self, key: &ArtifactKey, bytes: Bytes) -> Result<PutOutcome, StorageError> {
        self.blocking(key, move |folder, key| folder.put_if_absent(key, &bytes))
            .await
    }

    async fn replace(
        &self,
        key: &ArtifactKey,
        bytes: Bytes,
        seen: Option<&str>,
    ) -> Result<PutOutcome, StorageError> {
        let Some(seen) = seen.map(str::to_owned) else {
            return self.put_if_absent(key, bytes).await;
        };
        self.blocking(key, move |folder, key| folder.replace(key, &bytes, &seen))
            .await
    }

    async fn delete(&self, key: &ArtifactKey) -> Result<(), StorageError> {
        self.blocking(key, |folder, key| folder.delete(key)).await
    }

    async fn list(&self, prefix: &ArtifactKey) -> Result<Vec<(ArtifactKey, ObjectMeta)>, StorageError> {
        self.blocking(prefix, |folder, prefix| folder.list(prefix)).await
    }

    async fn folders(&self, prefix: &ArtifactKey) -> Result<Vec<String>, StorageError> {
        self.blocking(prefix, |folder, prefix| folder.folders(prefix))
            .await
    }
}

/// Blocking half of the store.
#[derive(Debug)]
struct Folder {
    root: PathBuf,
    /// The root held something when the store was opened.
    had_entries: bool,
    /// Staging folder, created for the first write.
    staging: OnceLock<Staging>,
    /// Files that `put_unsynced` wrote since the last sync, each with the number of its last write: a write during a sync needs
    /// another one.
    unsynced: Mutex<BTreeMap<ArtifactKey, u64>>,
    /// Number of the next write, counted over all files: one that is deleted and written again must not get a number that it had.
    next_write: AtomicU64,
    /// Lock that is held while folders come and go, so that a folder that another writer sees is already durable.
    folder_changes: Mutex<()>,
}

impl Folder {
    fn new(root: PathBuf) -> Self {
        Self {
            had_entries: has_entries(&root),
            root,
            staging: OnceLock::new(),
            unsynced: Mutex::default(),
            next_write: AtomicU64::default(),
            folder_changes: Mutex::default(),
        }
    }

    fn staging(&self) -> io::Result<&Staging> {
        if let Some(staging) = self.staging.get() {
            return Ok(staging);
        }
        let opened = Staging::open(&self.root)?;
        // Of two first writers one finds the place taken; its staging folder removes itself.
        Ok(self.staging.get_or_init(|| opened))
    }

    fn path(&self, key: &ArtifactKey) -> PathBuf {
        self.root.join(key.as_str())
    }

    /// Checks, where something was not found, that the folder of the store is there at all: of a file system that is not mounted any
    /// more, an empty folder is left.
    fn check_root(&self, action: &'static str, key: &ArtifactKey) -> Result<(), StorageError> {
        let is_there = match self.staging.get() {
            Some(staging) => staging.is_there(),
            None => !self.had_entries || has_entries(&self.root),
        };
        if is_there {
            return Ok(());
        }
        let gone = format!("what was in {} is gone: is it mounted?", self.root.display());
        Err(failed(action, key, io::Error::other(gone)))
    }

    /// Error of a read, which tells an object that is not there from a folder that is not.
    fn reading(&self, key: &ArtifactKey, source: io::Error) -> StorageError {
        if !is_absence(&source) && source.kind() != io::ErrorKind::IsADirectory {
            return failed("read", key, source);
        }
        let absent = StorageError::NotFound { key: key.clone() };
        self.check_root("read", key).err().unwrap_or(absent)
    }

    fn unsynced(&self) -> MutexGuard<'_, BTreeMap<ArtifactKey, u64>> {
        self.unsynced.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn folder_changes(&self) -> MutexGuard<'_, ()> {
        self.folder_changes.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn head(&self, key: &ArtifactKey) -> Result<Option<ObjectMeta>, StorageError> {
        match fs::metadata(self.path(key)) {
            Ok(meta) if meta.is_file() => Ok(Some(ObjectMeta { size: meta.len() })),
            Ok(_) => Ok(None),
            Err(error) if is_absence(&error) => self.check_root("inspect", key).map(|()| None),
            Err(source) => Err(failed("inspect", key, source)),
        }
    }

    /// Opens an object; returns its length, too.
    fn open(&self, key: &ArtifactKey) -> Result<(File, u64), StorageError> {
        let fail = |source| self.reading(key, source);
        let file = File::open(self.path(key)).map_err(fail)?;
        let meta = file.metadata().map_err(fail)?;
        // A folder can be opened too, and has a length.
        if !meta.is_file() {
            return Err(StorageError::NotFound { key: key.clone() });
        }
        Ok((file, meta.len()))
    }

    fn read(&self, key: &ArtifactKey, limit: u64) -> Result<Bytes, StorageError> {
        let (file, size) = self.open(key)?;
        let read = read_within(file, size, limit).map_err(|source| self.reading(key, source))?;
        let too_large = |size| StorageError::TooLarge {
            key: key.clone(),
            size,
            limit,
        };
        read.map(Bytes::from).map_err(too_large)
    }

    fn read_range(&self, key: &ArtifactKey, range: &Range<u64>) -> Result<Bytes, StorageError> {
        let fail = |source| self.reading(key, source);
        let (mut file, size) = self.open(key)?;
        let range = clamp_range(key, range, size)?;
        let mut bytes = vec![0; (range.end - range.start) as usize];
        file.seek(SeekFrom::Start(range.start)).map_err(fail)?;
        file.read_exact(&mut bytes).map_err(fail)?;
        Ok(Bytes::from(bytes))
    }

    fn put(&self, key: &ArtifactKey, bytes: &[u8], durable: bool) -> Result<(), StorageError> {
        let fail = |source| writing(key, source);
        if Failpoint::StoreWrite.is_full() {
            return Err(fail(io::ErrorKind::StorageFull.into()));
        }
        let staged = self
            .staging()
            .and_then(|staging| staging.write(&[bytes], durable));
        let staged = staged.map_err(fail)?;
        let target = self.path(key);
        self.place(&target, || fs::rename(staged.path(), &target))
            .map_err(fail)?;
        if durable {
            // The new name is an entry of the folder, which a flush of the file does not write.
            return sync_parent(&target).map_err(fail);
        }
        // Noted once the file is in its place, so that a sync that finds the note finds the file.
        let mut unsynced = self.unsynced();
        // Counted under the lock, so that of two writes of a file the later note has the larger number.
        unsynced.insert(key.clone(), self.next_write.fetch_add(1, Ordering::Relaxed));
        Ok(())
    }

    fn put_if_absent(&self, key: &ArtifactKey, bytes: &[u8]) -> Result<PutOutcome, StorageError> {
        let fail = |source| writing(key, source);
        let staged = self.staging().and_then(|staging| staging.write(&[bytes], true));
        let staged = staged.map_err(fail)?;
        let target = self.path(key);
        match self.place(&target, || fs::hard_link(staged.path(), &target)) {
            Ok(()) => sync_parent(&target).map_err(fail).map(|()| PutOutcome::Created),
            // A link fails with the same error over a folder, which is no object of this key.
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists && !target.is_dir() => {
                Ok(PutOutcome::Exists)
            }
            Err(_) if target.is_dir() => Err(StorageError::PrefixConflict { key: key.clone() }),
            Err(source) => Err(fail(source)),
        }
    }

    fn replace(&self, key: &ArtifactKey, bytes: &[u8], seen: &str) -> Result<PutOutcome, StorageError> {
        let locked = self.staging().and_then(Staging::lock_replacements);
        // A rename cannot compare, so those who compare take turns, in whatever process they are.
        let _turn = locked.map_err(|source| writing(key, source))?;
        match self.read(key, MAX_OBJECT) {
            Ok(there) if version_of(&there) == seen => {}
            Ok(_) | Err(StorageError::NotFound { .. }) => return Ok(PutOutcome::Exists),
            Err(error) => return Err(error),
        }
        self.put(key, bytes, true).map(|()| PutOutcome::Created)
    }

    /// Runs `appear`, which makes `target` exist, once its folder does.
    fn place(&self, target: &Path, appear: impl Fn() -> io::Result<()>) -> io::Result<()> {
        let folder = target.parent().unwrap_or(&self.root);
        for _ in 0..FOLDER_RETRIES {
            self.make_folder(folder)?;
            match appear() {
                Err(error) if error.kind() == io::ErrorKind::NotFound => {}
                settled => return settled,
            }
        }
        appear()
    }

    fn make_folder(&self, folder: &Path) -> io::Result<()> {
        let _changing = self.folder_changes();
        make_folders(folder)
    }

    fn sync(&self, prefix: &ArtifactKey) -> Result<(), StorageError> {
        let pending: Vec<(ArtifactKey, u64)> = self
            .unsynced()
            .iter()
            .filter(|(key, _)| key.is_under(prefix))
            .map(|(key, writes)| (key.clone(), *writes))
            .collect();
        let files: BTreeSet<PathBuf> = pending.iter().map(|(key, _)| self.path(key)).collect();
        let folders = files
            .iter()
            .filter_map(|file| file.parent().map(Path::to_owned))
            .collect();
        for paths in [files, folders] {
            sync_all(&paths).map_err(|source| failed("flush", prefix, source))?;
        }
        let mut unsynced = self.unsynced();
        for (key, writes) in pending {
            // A file that was written again during the flush stays noted, as the flush may have missed it.
            if unsynced.get(&key) == Some(&writes) {
                unsynced.remove(&key);
            }
        }
        Ok(())
    }

    fn delete(&self, key: &ArtifactKey) -> Result<(), StorageError> {
        let path = self.path(key);
        // Taken back before the file goes: a `put_unsynced` of this key that comes from now on leaves a note of its own, which must stay.
        let noted = self.unsynced().remove(key);
        match fs::remove_file(&path) {
            Ok(()) => {}
            Err(error) if is_absence(&error) || path.is_dir() => return Ok(()),
            Err(source) => {
                // The file is still there, and still to be flushed.
                if let Some(write) = noted {
                    self.unsynced().entry(key.clone()).or_insert(write);
                }
                return Err(failed("delete", key, source));
            }
        }
        // An empty folder would keep its name from being used as a key.
        let _changing = self.folder_changes();
        let folders = path.ancestors().skip(1).take_while(|folder| *folder != self.root);
        for folder in folders {
            // A folder that is not empty is still needed, and so is every one above it.
            if fs::remove_dir(folder).is_err() {
                break;
            }
        }
        Ok(())
    }

    fn list(&self, prefix: &ArtifactKey) -> Result<Vec<(ArtifactKey, ObjectMeta)>, StorageError> {
        let mut found = Vec::new();
        let mut folders = vec![prefix.clone()];
        while let Some(folder) = folders.pop() {
            let entries = match fs::read_dir(self.path(&folder)) {
                Ok(entries) => entries,
                Err(error) if is_absence(&error) => {
                    self.check_root("list", prefix)?;
                    continue;
                }
                Err(source) => return Err(failed("list", prefix, source)),
            };
            for entry in entries {
                let entry = entry.map_err(|source| failed("list", prefix, source))?;
                // A name that is no key was not written by a store.
                let Some(key) = entry.file_name().to_str().and_then(|name| folder.join(name).ok()) else {
                    continue;
                };
                match entry.metadata() {
                    Ok(meta) if meta.is_dir() => folders.push(key),
                    Ok(meta) if meta.is_file() => found.push((key, ObjectMeta { size: meta.len() })),
                    Ok(_) => {}
                    // Deleted since the folder was read.
                    Err(error) if is_absence(&error) => {}
                    Err(source) => return Err(failed("list", prefix, source)),
                }
            }
        }
        found.sort_by(|(a, _), (b, _)| a.cmp(b));
        Ok(found)
    }

    /// Lists folders, of which none is empty: the removal of the last object removes its folder.
    fn folders(&self, prefix: &ArtifactKey) -> Result<Vec<String>, StorageError> {
        let entries = match fs::read_dir(self.path(prefix)) {
            Ok(entries) => entries,
            Err(error) if is_absence(&error) => return self.check_root("list", prefix).map(|()| Vec::new()),
            Err(source) => return Err(failed("list", prefix, source)),
        };
        let mut names = Vec::new();
        for entry in entries {
            let entry = entry.map_err(|source| failed("list", prefix, source))?;
            let name = entry.file_name().into_string().ok();
            // A name that is no key was not written by a store.
            let name = name.filter(|name| prefix.join(name).is_ok());
            names.extend(name.filter(|_| entry.path().is_dir()));
        }
        names.sort_unstable();
        Ok(names)
    }
}

fn is_absence(error: &io::Error) -> bool {
    matches!(
        error.kind(),
        io::ErrorKind::NotFound | io::ErrorKind::NotADirectory
    )
}

fn failed(action: &'static str, key: &ArtifactKey, source: io::Error) -> StorageError {
    StorageError::Io {
        action,
        key: key.clone(),
        source,
    }
}

fn writing(key: &ArtifactKey, source: io::Error) -> StorageError {
    match source.kind() {
        io::ErrorKind::NotADirectory | io::ErrorKind::IsADirectory => {
            StorageError::PrefixConflict { key: key.clone() }
        }
        _ => failed("write", key, source),
    }
}

#[cfg(test)]
mod tests;
