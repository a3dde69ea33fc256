use std::ffi::OsStr;
use std::fs::{self, File, OpenOptions};
use std::io;
use std::os::unix::fs::{MetadataExt, chown};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process::{Child, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use super::binaries::Binaries;
use super::process::{Account, command, reap};
use super::{EmbeddedError, at, create_owned};

pub(super) const PORT: u16 = 5432;
pub(super) const SUPERUSER: &str = "postgres";
/// Folder of the data within the server's.
pub(super) const DATA: &str = "data";

/// `sun_path` holds 108 bytes and ends in a zero.
const MAX_SOCKET_PATH: usize = 107;

/// Crash recovery of a busy server takes seconds; longer than this it needs a human.
const START_TIMEOUT: Duration = Duration::from_secs(60);

/// Postgres offers nothing to wait on but its pid file.
const POLL_INTERVAL: Duration = Duration::from_millis(5);

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Durability {
    /// What is committed survives a power cut.
    Full,
    /// Nothing survives anything; for tests.
    None,
}

/// Only there once the data are.
pub(super) fn version_file(data: &Path) -> PathBuf {
    data.join("PG_VERSION")
}

/// A server's folder: `data`, `sockets`, `log` and the lock files.
#[derive(Debug)]
pub(super) struct Server {
    folder: PathBuf,
    account: Option<Account>,
    durability: Durability,
}

#[derive(Debug, PartialEq, Eq)]
enum State {
    /// No process works on the data; a pid file, if there is one, is stale.
    Stopped,
    /// Starting, stopping, or the children of a killed server have not all noticed.
    Busy,
    Ready,
}

impl Server {
    pub(super) fn new(
        folder: PathBuf,
        account: Option<Account>,
        durability: Durability,
    ) -> Result<Self, EmbeddedError> {
        let server = Self {
            folder,
            account,
            durability,
        };
        let socket = server.socket();
        if socket.as_os_str().len() > MAX_SOCKET_PATH {
            return Err(EmbeddedError::SocketPathTooLong(socket));
        }
        Ok(server)
    }

    pub(super) fn folder(&self) -> &Path {
        &self.folder
    }

    pub(super) fn data(&self) -> PathBuf {
        self.folder.join(DATA)
    }

    pub(super) fn sockets(&self) -> PathBuf {
        self.folder.join("sockets")
    }

    fn socket(&self) -> PathBuf {
        self.sockets().join(format!(".s.PGSQL.{PORT}"))
    }

    fn log(&self) -> PathBuf {
        self.folder.join("log")
    }

    fn pid_file(&self) -> PathBuf {
        self.data().join("postmaster.pid")
    }

    pub(super) fn prepare_folder(&self) -> Result<(), EmbeddedError> {
        let account = self.account.as_ref();
        create_owned(&self.folder, account)?;
        if let Some(account) = account {
            // The server is neither owner nor group of the folders above, so it enters as anybody would.
            for ancestor in self.folder.ancestors().skip(1) {
                let mode = fs::metadata(ancestor).map_err(at(ancestor))?.mode();
                if mode & 0o001 == 0 {
                    return Err(EmbeddedError::Unreachable {
                        account: account.name.clone(),
                        folder: ancestor.to_owned(),
                    });
                }
            }
        }
        create_owned(&self.sockets(), account)
    }

    /// A file to lock, which the watcher can open too.
    pub(super) fn open_lock(&self, name: &str) -> Result<File, EmbeddedError> {
        let path = self.folder.join(name);
        let file = OpenOptions::new()
            .create(true)
            .truncate(false)
            .write(true)
            .open(&path)
            .map_err(at(&path))?;
        if let Some(account) = &self.account {
            chown(&path, Some(account.uid), Some(account.gid)).map_err(at(&path))?;
        }
        Ok(file)
    }

    /// Whether nothing has been kept here yet.
    pub(super) fn is_new(&self) -> bool {
        !version_file(&self.data()).exists()
    }

    /// To be called with both locks held: nobody else starts the server, and nobody stops it.
    pub(super) fn ensure_running(&self, binaries: &Binaries) -> Result<(), EmbeddedError> {
        let deadline = Instant::now() + START_TIMEOUT;
        let mut started: Option<Child> = None;
        loop {
            let has_exited = match &mut started {
                Some(child) => child.try_wait().map_err(at(&self.folder))?.is_some(),
                None => false,
            };
            match self.state() {
                State::Ready if UnixStream::connect(self.socket()).is_ok() => {
                    started.into_iter().for_each(reap);
                    return Ok(());
                }
                State::Stopped if started.is_none() => {
                    self.clear_stale_files()?;
                    self.make_data(binaries)?;
                    self.start_watcher(binaries)?;
                    started = Some(self.start(binaries)?);
                }
                _ if has_exited || Instant::now() > deadline => {
                    started.into_iter().for_each(reap);
                    return Err(self.not_ready());
                }
                _ => thread::sleep(POLL_INTERVAL),
            }
        }
    }

    fn state(&self) -> State {
        let text = fs::read_to_string(self.pid_file()).unwrap_or_default();
        match parse_pid_file(&text) {
            (Some(pid), status) if self.is_server(pid) => match status {
                "ready" => State::Ready,
                _ => State::Busy,
            },
            _ if self.has_server_process() => State::Busy,
            _ => State::Stopped,
        }
    }

    /// Process ids are used again, so what counts is that all processes of a server have its data as working folder: the folder
    /// itself, as the same path may be another folder in a container.
    fn is_server(&self, pid: u32) -> bool {
        let process = PathBuf::from(format!("/proc/{pid}"));
        let is_postgres =
            fs::read_to_string(process.join("comm")).is_ok_and(|name| name.trim() == "postgres");
        is_postgres
            && identity(&process.join("cwd")).is_some_and(|folder| identity(&self.data()) == Some(folder))
    }

    fn has_server_process(&self) -> bool {
        let Ok(processes) = fs::read_dir("/proc") else {
            return false;
        };
        processes
            .flatten()
            .filter_map(|entry| entry.file_name().to_str()?.parse().ok())
            .any(|pid| self.is_server(pid))
    }

    /// Postgres does this itself unless the process id is in use again; then it refuses to start. To be called only
    /// when no server process is left, as the pid file is what keeps a second server off the memory of the first.
    fn clear_stale_files(&self) -> Result<(), EmbeddedError> {
        let mut socket_lock = self.socket().into_os_string();
        socket_lock.push(".lock");
        for path in [self.pid_file(), self.socket(), socket_lock.into()] {
            match fs::remove_file(&path) {
                Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(at(&path)(error)),
                _ => {}
            }
        }
        Ok(())
    }

    /// Under another name until it is complete and on disk, so that a crash leaves no half cluster behind. One sync of
    /// the file system is several times faster than initdb's own, which goes file by file.
    fn make_data(&self, binaries: &Binaries) -> Result<(), EmbeddedError> {
        if !self.is_new() {
            return Ok(());
        }
        let data = self.data();
        let unfinished = self.folder.join("data.new");
        match fs::remove_dir_all(&unfinished) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(at(&unfinished)(error)),
            _ => {}
        }
        let initdb = binaries.program("initdb");
        let output = command(&initdb, self.account.as_ref())
            .arg("--pgdata")
            .arg(&unfinished)
            .args(["--username", SUPERUSER, "--auth", "trust", "--encoding", "UTF8"])
            .args(["--no-locale", "--no-instructions", "--no-sync"])
            .output()
            .map_err(cannot_run(initdb.as_os_str()))?;
        if !output.status.success() {
            let stderr = String::from_utf8_lossy(&output.stderr).trim().to_owned();
            return Err(EmbeddedError::Initdb(stderr));
        }
        let folder = File::open(&self.folder).map_err(at(&self.folder))?;
        let sync = || match self.durability {
            Durability::Full => nix::unistd::syncfs(&folder).map_err(|errno| at(&self.folder)(errno.into())),
            Durability::None => Ok(()),
        };
        sync()?;
        fs::rename(&unfinished, &data).map_err(at(&data))?;
        sync()
    }

    fn start(&self, binaries: &Binaries) -> Result<Child, EmbeddedError> {
        let log = File::create(self.log()).map_err(at(&self.log()))?;
        let also_log = log.try_clone().map_err(at(&self.log()))?;
        let postgres = binaries.program("postgres");
        let mut command = command(&postgres, self.account.as_ref());
        command
            .arg("-D")
            .arg(self.data())
            .arg("-k")
            .arg(self.sockets())
            .args(["-h", "", "-p", &PORT.to_string()])
            // Anybody who reaches the socket is superuser: only the owner may.
            .args(["-c", "unix_socket_permissions=0700"])
            .stdout(log)
            .stderr(also_log);
        if self.durability == Durability::None {
            for setting in ["fsync=off", "synchronous_commit=off", "full_page_writes=off"] {
                command.args(["-c", setting]);
            }
        }
        command.spawn().map_err(cannot_run(postgres.as_os_str()))
    }

    /// Before the server: whatever happens to us in between, nothing is left running.
    fn start_watcher(&self, binaries: &Binaries) -> Result<(), EmbeddedError> {
        let mut watcher = command("flock", self.account.as_ref());
        watcher.arg(self.folder.join("users.lock"));
        match self.durability {
            Durability::Full => watcher
                .arg(binaries.program("pg_ctl"))
                .args(["stop", "--mode", "fast", "--wait", "--timeout", "300", "--pgdata"])
                .arg(self.data()),
            Durability::None => watcher
                .args([
                    "sh",
                    "-c",
                    "\"$0\" stop --mode immediate --pgdata \"$1\"; rm -rf -- \"$2\"",
                ])
                .arg(binaries.program("pg_ctl"))
                .arg(self.data())
                .arg(&self.folder),
        };
        let watcher = watcher
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .map_err(cannot_run(OsStr::new("flock (package util-linux)")))?;
        reap(watcher);
        Ok(())
    }

    fn not_ready(&self) -> EmbeddedError {
        let log = fs::read_to_string(self.log()).unwrap_or_default();
        let lines: Vec<&str> = log.lines().collect();
        EmbeddedError::NotReady {
            log: self.log(),
            tail: lines[lines.len().saturating_sub(5)..].join("; "),
        }
    }
}

/// Device and inode of what the path leads to.
fn identity(path: &Path) -> Option<(u64, u64)> {
    let metadata = fs::metadata(path).ok()?;
    Some((metadata.dev(), metadata.ino()))
}

/// Process id and status: the first and the eighth line. An unfinished file has no status.
fn parse_pid_file(text: &str) -> (Option<u32>, &str) {
    let mut lines = text.lines();
    let pid = lines.next().and_then(|line| line.trim().parse().ok());
    (pid, lines.nth(6).map_or("", str::trim))
}

fn cannot_run(program: &OsStr) -> impl FnOnce(io::Error) -> EmbeddedError {
    let program = program.to_string_lossy().into_owned();
    move |source| EmbeddedError::Program { program, source }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_pid_file_is_read_by_line() {
        let text = "4711\n/d\n1700000000\n5432\n/s\n\n  123 0\nready   \n";
        assert_eq!(parse_pid_file(text), (Some(4711), "ready"));
        assert_eq!(parse_pid_file("4711\n/d\n"), (Some(4711), ""));
        assert_eq!(parse_pid_file(""), (None, ""));
    }

    #[test]
    fn a_long_folder_is_refused_before_anything_is_made() {
        let folder = PathBuf::from(format!("/{}", "x".repeat(100)));
        let refused = Server::new(folder, None, Durability::None);
        assert!(matches!(refused, Err(EmbeddedError::SocketPathTooLong(_))));
    }
}
