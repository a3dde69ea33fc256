//! Server of a folder: its files, its start and its stop.

use std::ffi::OsStr;
use std::fs::{self, File, OpenOptions};
use std::io::{self, Read};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt, fchown};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process::{Child, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use super::binaries::Binaries;
use super::process::{Account, command, reap};
use super::{EmbeddedError, NO_LINK, at, create_owned};

/// Number in the name of the socket; the server listens on no TCP port.
pub(super) const PORT: u16 = 5432;
/// Name of the database's superuser.
pub(super) const SUPERUSER: &str = "postgres";
/// Folder of the data within the server's.
pub(super) const DATA: &str = "data";

/// Longest path of a unix socket, in bytes: `sun_path` holds 108 and ends in a zero.
const MAX_SOCKET_PATH: usize = 107;

/// Longest wait for the server to start: crash recovery of a busy server takes seconds, and one that takes longer needs a human.
const START_TIMEOUT: Duration = Duration::from_secs(60);

/// Time between two looks at the pid file, the only thing that Postgres offers to wait on.
const POLL_INTERVAL: Duration = Duration::from_millis(5);

/// Promise about committed data after a crash of the machine.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Durability {
    /// Committed data survive a power cut.
    Full,
    /// Nothing is flushed to disk; for tests.
    None,
}

/// File that is there only once the data are complete.
pub(super) fn version_file(data: &Path) -> PathBuf {
    data.join("PG_VERSION")
}

/// Folder of a server: `data`, `sockets`, `log` and the lock files.
#[derive(Debug)]
pub(super) struct Server {
    folder: PathBuf,
    account: Option<Account>,
    durability: Durability,
}

/// State of the server, by its pid file and the processes of the machine.
#[derive(Debug, PartialEq, Eq)]
enum State {
    /// No process works on the data; a pid file, if there is one, is stale.
    Stopped,
    /// Starting, stopping, or killed with children that have not all ended yet.
    Busy,
    /// Accepting connections.
    Ready,
}

impl Server {
    /// Server of a folder; nothing is created or started yet.
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

    /// Folder of the data.
    pub(super) fn data(&self) -> PathBuf {
        self.folder.join(DATA)
    }

    /// Folder of the socket.
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

    /// Creates the folders and checks that the server's account can enter them.
    pub(super) fn prepare_folder(&self) -> Result<(), EmbeddedError> {
        let account = self.account.as_ref();
        // Whoever administers the machine may have put it on another disk by a link.
        create_owned(&self.folder, account, 0)?;
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
        create_owned(&self.sockets(), account, NO_LINK)
    }

    /// Opens a file to lock, which the watcher can open too.
    pub(super) fn open_lock(&self, name: &str) -> Result<File, EmbeddedError> {
        let path = self.folder.join(name);
        let mut options = OpenOptions::new();
        let file = options.create(true).truncate(false).write(true);
        // The folder is the account's, which may have put a link there: neither is what that leads to opened, nor given away.
        let file = file.custom_flags(NO_LINK).open(&path).map_err(at(&path))?;
        if let Some(account) = &self.account {
            fchown(&file, Some(account.uid), Some(account.gid)).map_err(at(&path))?;
        }
        Ok(file)
    }

    /// Returns true if no data have been kept here yet.
    pub(super) fn is_new(&self) -> bool {
        !version_file(&self.data()).exists()
    }

    /// Waits until the server accepts connections, and starts it if it is stopped. Both locks must be held, so that no other
    /// process starts the server or stops it.
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
                // Started once only: a server that exits while it starts has written the reason to its log,
                // and would exit again.
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

    /// State of the server at this moment.
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

    /// Returns true if the process is one of this server. Process ids are used again, so it is told by its working folder,
    /// which is that of the data for all processes of a server: by the folder itself, as the same path may be another one in a
    /// container.
    fn is_server(&self, pid: u32) -> bool {
        let process = PathBuf::from(format!("/proc/{pid}"));
        let is_postgres =
            fs::read_to_string(process.join("comm")).is_ok_and(|name| name.trim() == "postgres");
        is_postgres
            && identity(&process.join("cwd")).is_some_and(|folder| identity(&self.data()) == Some(folder))
    }

    /// Returns true if any process of the machine is one of this server.
    fn has_server_process(&self) -> bool {
        let Ok(processes) = fs::read_dir("/proc") else {
            return false;
        };
        processes
            .flatten()
            .filter_map(|entry| entry.file_name().to_str()?.parse().ok())
            .any(|pid| self.is_server(pid))
    }

    /// Removes the pid file and the socket of a server that was killed. Postgres does this itself unless the process id is in
    /// use again; then it refuses to start. No server process may be left, as the pid file is what keeps a second server off
    /// the memory of the first.
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

    /// Creates the data of a new server, under another name until they are complete and on disk, so that a crash leaves no half
    /// cluster behind. One sync of the file system is several times faster than initdb's own, which goes file by file.
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
        // The data are on disk before their name says that they are complete, and the name before a user
        // relies on it.
        sync()?;
        fs::rename(&unfinished, &data).map_err(at(&data))?;
        sync()
    }

    /// Starts the server.
    fn start(&self, binaries: &Binaries) -> Result<Child, EmbeddedError> {
        let mut options = OpenOptions::new();
        let log = options.create(true).truncate(true).write(true);
        let log = log
            .custom_flags(NO_LINK)
            .open(self.log())
            .map_err(at(&self.log()))?;
        let also_log = log.try_clone().map_err(at(&self.log()))?;
        let postgres = binaries.program("postgres");
        let mut command = command(&postgres, self.account.as_ref());
        command
            .arg("-D")
            .arg(self.data())
            .arg("-k")
            .arg(self.sockets())
            .args(["-h", "", "-p", &PORT.to_string()])
            // Every process that reaches the socket is superuser, so only its owner may.
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

    /// Starts the watcher that stops the server after its last user. It comes before the server, so that nothing is left
    /// running if this process dies in between.
    fn start_watcher(&self, binaries: &Binaries) -> Result<(), EmbeddedError> {
        let mut watcher = command("flock", self.account.as_ref());
        watcher.arg(self.folder.join("users.lock"));
        match self.durability {
            Durability::Full => watcher
                .arg(binaries.program("pg_ctl"))
                .args(["stop", "--mode", "fast", "--wait", "--timeout", "300", "--pgdata"])
                .arg(self.data()),
            // Stopped without a checkpoint, as the data are removed next.
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

    /// Error with the end of the server's log.
    fn not_ready(&self) -> EmbeddedError {
        let mut log = String::new();
        let opened = OpenOptions::new()
            .read(true)
            .custom_flags(NO_LINK)
            .open(self.log());
        // Of a log that cannot be read there is nothing to tell.
        let _ = opened.and_then(|mut file| file.read_to_string(&mut log));
        let lines: Vec<&str> = log.lines().collect();
        EmbeddedError::NotReady {
            log: self.log(),
            tail: lines[lines.len().saturating_sub(5)..].join("; "),
        }
    }
}

/// Device and inode of the file or folder at the end of the path.
fn identity(path: &Path) -> Option<(u64, u64)> {
    let metadata = fs::metadata(path).ok()?;
    Some((metadata.dev(), metadata.ino()))
}

/// Process id and status in the text of a pid file: its first and eighth line. An unfinished file has no status.
fn parse_pid_file(text: &str) -> (Option<u32>, &str) {
    let mut lines = text.lines();
    let pid = lines.next().and_then(|line| line.trim().parse().ok());
    (pid, lines.nth(6).map_or("", str::trim))
}

/// Attaches the program to an I/O error.
fn cannot_run(program: &OsStr) -> impl FnOnce(io::Error) -> EmbeddedError {
    let program = program.to_string_lossy().into_owned();
    move |source| EmbeddedError::Program { program, source }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::{PermissionsExt, symlink};

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

    #[test]
    fn what_a_link_leads_to_is_neither_opened_nor_changed() {
        let folder = tempfile::tempdir().unwrap();
        let target = folder.path().join("target");
        fs::write(&target, "kept").unwrap();
        let server = Server::new(folder.path().join("pg"), None, Durability::None).unwrap();
        server.prepare_folder().unwrap();
        symlink(&target, server.folder().join("users.lock")).unwrap();
        assert!(server.open_lock("users.lock").is_err());
        fs::remove_dir(server.sockets()).unwrap();
        let elsewhere = folder.path().join("elsewhere");
        fs::create_dir(&elsewhere).unwrap();
        fs::set_permissions(&elsewhere, fs::Permissions::from_mode(0o755)).unwrap();
        symlink(&elsewhere, server.sockets()).unwrap();
        assert!(server.prepare_folder().is_err());
        assert_eq!(elsewhere.metadata().unwrap().mode() & 0o777, 0o755);
        assert_eq!(fs::read_to_string(&target).unwrap(), "kept");
    }
}
