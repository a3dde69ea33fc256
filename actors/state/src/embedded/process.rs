//! Processes of the server: their account and their surroundings.

use std::ffi::OsStr;
use std::os::unix::process::CommandExt;
use std::process::{Child, Command, Stdio};
use std::thread;

use nix::unistd::{Uid, User};

use super::EmbeddedError;

/// Account that the server runs as when this process is root's.
#[derive(Debug, Clone)]
pub(super) struct Account {
    pub(super) name: String,
    pub(super) uid: u32,
    pub(super) gid: u32,
}

impl Account {
    /// Account for the server; `None` if this process is not root's, as the server then runs as the same user.
    pub(super) fn for_server() -> Result<Option<Self>, EmbeddedError> {
        if !Uid::effective().is_root() {
            return Ok(None);
        }
        ["postgres", "nobody"]
            .iter()
            .find_map(|name| User::from_name(name).ok().flatten())
            .map(|user| {
                Some(Self {
                    name: user.name,
                    uid: user.uid.as_raw(),
                    gid: user.gid.as_raw(),
                })
            })
            .ok_or(EmbeddedError::NoAccount)
    }
}

/// Command that runs as `account`, with no input, and out of the terminal's process group: an interrupt from the keyboard is
/// for this process, not for a server that others may use.
pub(super) fn command(program: impl AsRef<OsStr>, account: Option<&Account>) -> Command {
    let mut command = Command::new(program);
    command.current_dir("/").stdin(Stdio::null()).process_group(0);
    if let Some(account) = account {
        command.uid(account.uid).gid(account.gid);
    }
    command
}

/// Waits for `child` on a thread of its own, so that it does not stay a zombie for as long as this process runs.
pub(super) fn reap(mut child: Child) {
    thread::spawn(move || child.wait());
}
