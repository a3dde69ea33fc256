//! Checks of who else may read, change or replace a file.

use std::os::unix::fs::MetadataExt;
use std::path::Path;

/// Checks that only its owner and group may change or replace a file, which all may read.
///
/// # Errors
///
/// With the mode of the file and how to change it, or if its metadata cannot be read.
pub fn check_unchangeable(path: &Path) -> Result<(), String> {
    let mode = std::fs::metadata(path).map_err(|error| error.to_string())?.mode() & 0o777;
    if mode & 0o002 == 0 {
        return check_folder(path);
    }
    Err(format!(
        "all users may change this file (mode {mode:o}); restrict it with chmod o-w"
    ))
}

/// Checks that only its owner and group may replace a file.
fn check_folder(path: &Path) -> Result<(), String> {
    // A name by itself is of the current folder.
    let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty());
    let folder = folder.unwrap_or(Path::new("."));
    let mode = std::fs::metadata(folder)
        .map_err(|error| error.to_string())?
        .mode();
    // Where the sticky bit is set, as in /tmp, all may add files, and replace their own only.
    if mode & 0o002 == 0 || mode & 0o1000 != 0 {
        return Ok(());
    }
    Err(format!(
        "all users may replace this file, as they may change its folder {} (mode {:o}); restrict that with chmod o-w",
        folder.display(),
        mode & 0o777
    ))
}

/// Checks that only its owner and group may access or replace a file.
///
/// # Errors
///
/// With the mode of the file and how to change it, or if its metadata cannot be read.
pub fn check_private(path: &Path) -> Result<(), String> {
    let mode = std::fs::metadata(path).map_err(|error| error.to_string())?.mode() & 0o777;
    if mode & 0o007 == 0 {
        return check_folder(path);
    }
    Err(format!(
        "all users may read or change this file (mode {mode:o}); restrict it with chmod 600"
    ))
}

/// Checks that nobody but root and the user `own` can have written a file.
pub fn is_trusted(owner: u32, mode: u32, own: u32) -> Result<(), &'static str> {
    if owner != own && owner != 0 {
        return Err("belongs to another user");
    }
    if mode & 0o002 != 0 {
        return Err("may be changed by all users");
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_in_the_current_folder_is_the_users_own_or_roots() {
        let (own, other) = (1000, 1001);
        assert_eq!(is_trusted(own, 0o644, own), Ok(()));
        assert_eq!(is_trusted(0, 0o644, own), Ok(()));
        assert_eq!(is_trusted(own, 0o660, own), Ok(()));
        assert!(
            is_trusted(other, 0o600, own)
                .unwrap_err()
                .contains("another user")
        );
        assert!(is_trusted(other, 0o600, 0).unwrap_err().contains("another user"));
        assert!(is_trusted(own, 0o666, own).unwrap_err().contains("by all users"));
    }
}
