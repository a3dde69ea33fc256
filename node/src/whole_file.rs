//! Atomic creation of files: keys, certificates and tokens, of which a part would be worse than none.

use std::fs::{File, Permissions};
use std::io::{self, Write};
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

use tempfile::{Builder, NamedTempFile};

/// Writes a new file with these permission bits; returns once it would survive a power cut.
///
/// # Errors
///
/// [`io::ErrorKind::AlreadyExists`] if the file exists, which stays as it is; else the failure to write, after which there is no
/// file.
pub fn create(path: &Path, text: &str, mode: u32) -> io::Result<()> {
    let file = written(path, text, mode)?;
    file.persist_noclobber(path).map_err(|refused| refused.error)?;
    sync_folder(path)
}

/// Writes a file with these permission bits, in place of an earlier one; returns once it would survive a power cut.
///
/// # Errors
///
/// The failure to write, after which the earlier one is there.
pub fn replace(path: &Path, text: &str, mode: u32) -> io::Result<()> {
    let file = written(path, text, mode)?;
    file.persist(path).map_err(|refused| refused.error)?;
    sync_folder(path)
}

fn written(path: &Path, text: &str, mode: u32) -> io::Result<NamedTempFile> {
    // The temporary file is readable by its owner only from its first byte on; the final mode is set when it is complete.
    let mut file = Builder::new().prefix(".new-").tempfile_in(folder(path))?;
    file.write_all(text.as_bytes())?;
    file.as_file().set_permissions(Permissions::from_mode(mode))?;
    file.as_file().sync_all()?;
    Ok(file)
}

/// Without this the new name itself may be lost in a power cut.
fn sync_folder(path: &Path) -> io::Result<()> {
    File::open(folder(path))?.sync_all()
}

fn folder(path: &Path) -> &Path {
    let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty());
    folder.unwrap_or(Path::new("."))
}

#[cfg(test)]
pub mod testing {
    use std::fs;
    use std::path::Path;

    /// Names of what lies in a folder.
    pub fn names(folder: &Path) -> Vec<String> {
        let entries = fs::read_dir(folder).unwrap();
        entries
            .map(|entry| entry.unwrap().file_name().into_string().unwrap())
            .collect()
    }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::testing::names;
    use super::*;

    #[test]
    fn a_file_is_whole_its_owners_alone_and_nothing_is_left_beside_it() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("secret");
        create(&path, "one\n", 0o600).unwrap();
        let refused = create(&path, "two\n", 0o600).unwrap_err();
        assert_eq!(refused.kind(), io::ErrorKind::AlreadyExists);
        assert_eq!(fs::read_to_string(&path).unwrap(), "one\n");
        replace(&path, "three\n", 0o600).unwrap();
        assert_eq!(fs::read_to_string(&path).unwrap(), "three\n");
        assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);
        assert_eq!(names(folder.path()), ["secret"]);
    }

    #[test]
    fn a_file_that_cannot_be_written_is_not_there() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("missing/secret");
        assert!(create(&path, "one", 0o600).is_err());
        assert_eq!(names(folder.path()), Vec::<String>::new());
    }
}
