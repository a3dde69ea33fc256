use std::io;
use std::os::unix::process::CommandExt;
use std::process::{Command, Stdio};

use nix::errno::Errno;
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use serde::{Deserialize, Serialize};
use tokio::process::Child;

/// Identity of a process of this machine, which a later process with the same number does not share.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Process {
    pub(super) number: i32,
    /// Time from the boot to the start of the process, in ticks of the kernel's clock.
    pub(super) started: u64,
    /// Identity of the boot, as after the next one both numbers may occur again.
    pub(super) boot: String,
}

/// Starts a process that is told what to do by signals alone: in a process group of its own, as Ctrl-C at a terminal is not for it, and
/// without the socket of the service manager, to which only the process that it started may report. The caller waits for the child.
///
/// # Errors
///
/// If the program cannot be started, or the system does not say which process it is.
pub fn start_process(mut command: Command) -> io::Result<(Process, Child)> {
    command
        .env_remove("NOTIFY_SOCKET")
        .stdin(Stdio::null())
        .process_group(0);
    let child = tokio::process::Command::from(command).spawn()?;
    let number = child
        .id()
        .ok_or_else(|| io::Error::other("it has ended already"))?;
    Ok((Process::of(number)?, child))
}

impl Process {
    /// Identifies a running process, or one that has ended and was not waited for yet.
    pub(super) fn of(number: u32) -> io::Result<Self> {
        let number = i32::try_from(number).map_err(io::Error::other)?;
        let (started, _) = process_state(number)?;
        Ok(Self {
            number,
            started,
            boot: boot()?,
        })
    }

    /// Finds the process that was started with a variable of this value, among those that still run: the first one, as others that have it
    /// inherited it.
    pub(super) fn with_variable(name: &str, value: &str) -> Option<Self> {
        let sought = format!("{name}={value}");
        let folders = std::fs::read_dir("/proc").ok()?;
        let numbers = folders.filter_map(|folder| folder.ok()?.file_name().to_str()?.parse::<u32>().ok());
        numbers
            .filter(|number| {
                // Those of other users cannot be read, and are none of ours.
                std::fs::read(format!("/proc/{number}/environ")).is_ok_and(|variables| {
                    variables
                        .split(|byte| *byte == 0)
                        .any(|variable| variable == sought.as_bytes())
                })
            })
            .filter_map(|number| Self::of(number).ok())
            .min_by_key(|process| process.started)
    }

    /// Returns whether the process runs. One that has ended and was not waited for does not.
    pub(super) fn is_alive(&self) -> bool {
        let is_the_same = process_state(self.number)
            .is_ok_and(|(started, state)| started == self.started && !matches!(state, 'Z' | 'X'));
        is_the_same && boot().is_ok_and(|boot| boot == self.boot)
    }

    /// Sends a signal to this process and to no other that was given its number. One that has ended needs none.
    ///
    /// # Errors
    ///
    /// If the process is another user's.
    pub fn signal(&self, order: Signal) -> io::Result<()> {
        if !self.is_alive() {
            return Ok(());
        }
        // It may have ended since the check, which is as good as a signal.
        match kill(Pid::from_raw(self.number), order) {
            Ok(()) | Err(Errno::ESRCH) => Ok(()),
            Err(error) => Err(error.into()),
        }
    }
}

/// Start of a process in ticks since the boot, and its state.
fn process_state(number: i32) -> io::Result<(u64, char)> {
    let text = std::fs::read_to_string(format!("/proc/{number}/stat"))?;
    parse(&text).ok_or_else(|| io::Error::other(format!("/proc/{number}/stat has an unknown form")))
}

/// Takes fields 22 and 3 of proc_pid_stat(5). The second field is the program's name in parentheses, and may itself hold some,
/// so the others are counted from the last one.
fn parse(stat: &str) -> Option<(u64, char)> {
    let (_, fields) = stat.rsplit_once(')')?;
    let mut fields = fields.split_whitespace();
    let state = fields.next()?.chars().next()?;
    // The third field is taken, so the fourth has index 0 here and the 22nd has index 18.
    Some((fields.nth(18)?.parse().ok()?, state))
}

fn boot() -> io::Result<String> {
    Ok(std::fs::read_to_string("/proc/sys/kernel/random/boot_id")?
        .trim()
        .to_owned())
}

#[cfg(test)]
mod tests {
    use std::process::{Child, Command};

    use super::*;

    fn sleeper() -> Child {
        Command::new("sleep").arg("1000").spawn().unwrap()
    }

    #[test]
    fn a_process_is_alive_until_it_ends_and_is_told_only_while_it_lives() {
        let mut child = sleeper();
        let process = Process::of(child.id()).unwrap();
        assert!(process.is_alive());
        process.signal(Signal::SIGTERM).unwrap();
        assert!(!child.wait().unwrap().success());
        assert!(!process.is_alive());
        process.signal(Signal::SIGTERM).unwrap();
    }

    #[test]
    fn another_process_of_the_same_number_is_left_alone() {
        let mut child = sleeper();
        let process = Process::of(child.id()).unwrap();
        for other in [
            Process {
                started: process.started + 1,
                ..process.clone()
            },
            Process {
                boot: "another".to_owned(),
                ..process
            },
        ] {
            assert!(!other.is_alive());
            other.signal(Signal::SIGKILL).unwrap();
        }
        assert!(child.try_wait().unwrap().is_none(), "it runs on");
        child.kill().unwrap();
        child.wait().unwrap();
    }

    #[test]
    fn a_name_may_hold_parentheses() {
        let stat = "7 (a) S (b) Z 1 7 7 0 -1 4 0 0 0 0 0 0 0 0 20 0 1 0 4242 0 0";
        assert_eq!(parse(stat), Some((4242, 'Z')));
        assert_eq!(parse("7 (a) S 1"), None);
    }
}
