//! Names and permissions of the files in an authority's folder.

use std::fs;
use std::io;
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};

use super::{TlsError, at};
use crate::whole_file;

const PUBLIC: u32 = 0o644;
const PRIVATE: u32 = 0o600;

#[derive(Debug, Clone)]
pub struct Folder(PathBuf);

impl Folder {
    pub fn new(path: &Path) -> Self {
        Self(path.to_owned())
    }

    pub fn path(&self) -> &Path {
        &self.0
    }

    pub fn ca_certificate(&self) -> PathBuf {
        self.0.join("ca.pem")
    }

    pub fn ca_key(&self) -> PathBuf {
        self.0.join("ca.key")
    }

    /// List of the certificates that were revoked.
    pub fn revoked(&self) -> PathBuf {
        self.0.join("revoked.crl")
    }

    pub fn cookie(&self) -> PathBuf {
        self.0.join("cookie")
    }

    pub fn certificate(&self, node: &str) -> PathBuf {
        self.0.join(format!("{node}.pem"))
    }

    pub fn key(&self, node: &str) -> PathBuf {
        self.0.join(format!("{node}.key"))
    }

    /// Creates the folder, which other users cannot read, unless it exists. In an empty folder a `.gitignore` keeps the keys out of
    /// repositories.
    ///
    /// # Errors
    ///
    /// If the folder cannot be created.
    pub fn create(&self) -> Result<(), TlsError> {
        let mut builder = fs::DirBuilder::new();
        builder
            .recursive(true)
            .mode(0o700)
            .create(&self.0)
            .map_err(at(&self.0))?;
        // A folder with other files may be a repository's own, whose rules are not to be changed.
        if fs::read_dir(&self.0).map_err(at(&self.0))?.next().is_none() {
            write_public(&self.0.join(".gitignore"), "*\n")?;
        }
        Ok(())
    }

    /// Returns the certificates in the folder, by name.
    pub fn certificates(&self) -> Result<Vec<PathBuf>, TlsError> {
        let mut found = Vec::new();
        for entry in fs::read_dir(&self.0).map_err(at(&self.0))? {
            let path = entry.map_err(at(&self.0))?.path();
            if path.extension().is_some_and(|extension| extension == "pem") {
                found.push(path);
            }
        }
        found.sort();
        Ok(found)
    }
}

/// Checks that none of the files exists, before anything is written.
///
/// # Errors
///
/// [`TlsError::Exists`] with the first that does.
pub fn refuse_existing(paths: &[PathBuf]) -> Result<(), TlsError> {
    // The entry itself is looked at: a link whose target is missing is a name that is taken, too.
    match paths.iter().find(|path| path.symlink_metadata().is_ok()) {
        Some(path) => Err(TlsError::Exists(path.clone())),
        None => Ok(()),
    }
}

pub fn write_public(path: &Path, text: &str) -> Result<(), TlsError> {
    write_new(path, text, PUBLIC)
}

/// Writes a file that everybody can read, in place of an earlier one.
pub fn replace_public(path: &Path, text: &str) -> Result<(), TlsError> {
    whole_file::replace(path, text, PUBLIC).map_err(at(path))
}

/// Writes a new file that only the owner can read, from its first byte on.
pub fn write_private(path: &Path, text: &str) -> Result<(), TlsError> {
    write_new(path, text, PRIVATE)
}

fn write_new(path: &Path, text: &str, mode: u32) -> Result<(), TlsError> {
    whole_file::create(path, text, mode).map_err(|source| match source.kind() {
        io::ErrorKind::AlreadyExists => TlsError::Exists(path.to_owned()),
        _ => at(path)(source),
    })
}
