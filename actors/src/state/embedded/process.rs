use std::ffi::OsStr;
use std::os::unix::process::CommandExt;
use std::process::{Child, Command, Stdio};
use std::thread;

use nix::unistd::{Uid, User};

use super::EmbeddedError;

/// The account that the server runs as when we are root.
#[derive(Debug, Clone)]
pub(super) struct Account {
    pub(super) name: String,
    pub(super) uid: u32,
    pub(super) gid: u32,
}

impl Account {
    /// `None` when we are not root: the server then runs as ourselves.
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

/// A command that runs as `account`, with no input, and out of the terminal's process group: an interrupt from the
/// keyboard is for us, not for a server that others may use.
pub(super) fn command(program: impl AsRef<OsStr>, account: Option<&Account>) -> Command {
    let mut command = Command::new(program);
    command.current_dir("/").stdin(Stdio::null()).process_group(0);
    if let Some(account) = account {
        command.uid(account.uid).gid(account.gid);
    }
    command
}

/// Waits for `child` aside, so that it does not stay a zombie for as long as we run.
pub(super) fn reap(mut child: Child) {
    thread::spawn(move || child.wait());
}
