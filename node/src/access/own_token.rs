//! The token of the user who runs an orchestrator: a file in its state folder that only this user can read.

use std::fs::{create_dir_all, read_to_string};
use std::io::ErrorKind;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

use anyhow::{Context, Result, bail};

use super::tokens::{is_long_enough, token};
use crate::file_access::{check_private, is_trusted};
use crate::whole_file;

/// Name of the file, and the caller's name in the audit log for requests that present the token.
pub const OWN_TOKEN: &str = "api-token";

/// Reads the token in a state folder, and makes one if there is none.
///
/// # Errors
///
/// If the file can be neither written nor read, is another user's, can be read by all, or holds no token: an empty file, which an earlier
/// version left behind when it was stopped while writing, would let everybody in.
pub fn own_token(folder: &Path) -> Result<String> {
    let path = folder.join(OWN_TOKEN);
    create_dir_all(folder).with_context(|| format!("cannot make {}", folder.display()))?;
    // Written whole or not at all, and private from its first byte: a start that is cut off leaves no empty
    // token.
    match whole_file::create(&path, &format!("{}\n", token()), 0o600) {
        // Kept over restarts, so that scripts and sessions stay valid.
        Err(error) if error.kind() == ErrorKind::AlreadyExists => {}
        written => written.with_context(|| format!("cannot write {}", path.display()))?,
    }
    // The file is read again also after it was written, since another process may have made it at the same
    // time, and both must accept the same token.
    let token = read_own_token(folder)?.with_context(|| format!("cannot read {}", path.display()))?;
    // Who has made the folder before, as below /tmp, may have put a token there that they know.
    let found = path.metadata().with_context(|| path.display().to_string())?;
    let own = nix::unistd::geteuid().as_raw();
    let trusted = is_trusted(found.uid(), found.mode(), own).map_err(str::to_owned);
    if let Err(reason) = trusted.and_then(|()| check_private(&path)) {
        bail!(
            "{}: {reason}; remove it, and the next start makes a new one",
            path.display()
        );
    }
    Ok(token)
}

/// Reads the token in a state folder where an orchestrator has made one.
///
/// # Errors
///
/// When the file cannot be read, or holds no token.
pub fn read_own_token(folder: &Path) -> Result<Option<String>> {
    let path = folder.join(OWN_TOKEN);
    let text = match read_to_string(&path) {
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(None),
        text => text.with_context(|| format!("cannot read {}", path.display()))?,
    };
    let token = text.trim();
    anyhow::ensure!(
        is_long_enough(token),
        "{} holds no token; remove it, and the next start makes a new one",
        path.display()
    );
    Ok(Some(token.to_owned()))
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::PermissionsExt;
    use std::sync::Barrier;
    use std::thread;

    use super::*;

    #[test]
    fn an_empty_or_cut_token_file_is_refused_and_stays_for_whoever_looks() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join(OWN_TOKEN);
        for left in ["", "\n", "4KMVL7Qw3njxhxgIEqL3HKz"] {
            fs::write(&path, left).unwrap();
            let error = own_token(folder.path()).unwrap_err().to_string();
            assert!(error.contains("api-token holds no token; remove it"), "{error}");
            assert_eq!(read_to_string(&path).unwrap(), left);
        }
    }

    #[test]
    fn a_token_that_others_can_read_is_refused() {
        let folder = tempfile::tempdir().unwrap();
        let made = own_token(folder.path()).unwrap();
        assert_eq!(own_token(folder.path()).unwrap(), made);
        let path = folder.path().join(OWN_TOKEN);
        fs::set_permissions(&path, fs::Permissions::from_mode(0o644)).unwrap();
        let error = own_token(folder.path()).unwrap_err().to_string();
        assert!(
            error.contains("all users may read") && error.contains("remove it"),
            "{error}"
        );
    }

    #[test]
    fn orchestrators_that_start_together_agree_on_one_token() {
        const STARTS: usize = 8;
        let folder = tempfile::tempdir().unwrap();
        let (state, gate) = (folder.path().join("state"), Barrier::new(STARTS));
        let tokens = thread::scope(|scope| {
            let start = || {
                gate.wait();
                own_token(&state).unwrap()
            };
            let starts: Vec<_> = (0..STARTS).map(|_| scope.spawn(start)).collect();
            let tokens = starts.into_iter().map(|start| start.join().unwrap());
            tokens.collect::<Vec<_>>()
        });
        assert_eq!(tokens[0].len(), 43);
        assert!(tokens.iter().all(|token| *token == tokens[0]), "{tokens:?}");
        let mode = fs::metadata(state.join(OWN_TOKEN)).unwrap().permissions().mode();
        assert_eq!(mode & 0o777, 0o600);
    }
}
