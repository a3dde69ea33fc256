//! Private Postgres server for machines without one: the distribution's binaries on a data folder of our own, reached by a unix
//! socket only.
//!
//! All processes that open the same folder share one server, and it lives exactly as long as one of them does. Each user holds
//! a shared lock on `users.lock`; the process that starts the server also starts a watcher, `flock users.lock pg_ctl stop`,
//! which gets the exclusive lock when the last user has gone. The kernel drops the locks of a killed process, so this holds
//! however the users end. A newcomer blocks on its shared lock until a shutdown under way is over. If the watcher is killed
//! too, the server stays and the next user finds it running; if the machine goes down, the next user clears the stale pid file
//! and Postgres recovers.
//!
//! The binaries come with the distribution, so that they get its security updates; a server is never downloaded. `binaries`
//! finds them,
//! `process` runs them as an account that Postgres accepts, and `server` knows the folder and the life of the server in it.

mod binaries;
mod process;
mod server;

use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};

use sqlx::postgres::PgConnectOptions;

use self::binaries::Binaries;
use self::process::Account;
use self::server::{Durability, Server};
use super::StateError;
use super::postgres::{FolderDatabases, create_database, has_database};

/// Reason for which the private server could not be started or joined.
#[derive(Debug, thiserror::Error)]
pub enum EmbeddedError {
    #[error(
        "no PostgreSQL server binaries in {searched}: install the postgresql package, or set PG_BIN to the folder \
         that holds postgres and initdb, or set DATABASE_URL to a running server"
    )]
    NoBinaries { searched: String },
    #[error(
        "the data in {} was made by PostgreSQL {version}, whose binaries are not installed: install \
         postgresql-{version} or set PG_BIN", .data.display()
    )]
    WrongVersion { data: PathBuf, version: String },
    #[error(
        "PostgreSQL refuses to run as root, and this system has neither a user postgres nor a user nobody"
    )]
    NoAccount,
    #[error(
        "user {account}, as which PostgreSQL runs, cannot enter {}: choose a data folder outside of it",
        .folder.display()
    )]
    Unreachable { account: String, folder: PathBuf },
    #[error("the socket path {} is longer than the 107 bytes that unix allows: choose a shorter data folder", .0.display())]
    SocketPathTooLong(PathBuf),
    #[error("no folder for data: set HOME or XDG_DATA_HOME")]
    NoDataFolder,
    #[error("{}: {source}", .path.display())]
    Io { path: PathBuf, source: io::Error },
    #[error("cannot run {program}: {source}")]
    Program { program: String, source: io::Error },
    #[error("initdb failed: {0}")]
    Initdb(String),
    #[error("the PostgreSQL server did not start; its log {} ends with: {tail}", .log.display())]
    NotReady { log: PathBuf, tail: String },
}

/// Attaches the path to an I/O error.
fn at(path: &Path) -> impl FnOnce(io::Error) -> EmbeddedError {
    let path = path.to_owned();
    move |source| EmbeddedError::Io { path, source }
}

/// Share of this process in the private server of a folder. Drop it to leave; the server stops when the last user has left.
#[derive(Debug)]
pub struct EmbeddedPostgres {
    folder: PathBuf,
    sockets: PathBuf,
    /// File on which the shared lock is held.
    _users: File,
}

impl EmbeddedPostgres {
    /// Joins the server of `folder`, starting it if need be; by default that is `/var/lib/parkhang/pg` for root and
    /// `$XDG_DATA_HOME/parkhang/pg` for others. Commits are durable. Blocks: 0.1 s to start, 1 s more to make the
    /// folder, a minute at the very most.
    ///
    /// # Errors
    ///
    /// [`EmbeddedError`], if binaries, an account or the folder are not fit for a server, or if the server does not start.
    pub fn open(folder: Option<PathBuf>) -> Result<Self, EmbeddedError> {
        let account = Account::for_server()?;
        let folder = match folder {
            Some(folder) => std::path::absolute(&folder).map_err(at(&folder))?,
            None => data_folder()?.join("pg"),
        };
        Self::join(folder, account, Durability::Full)
    }

    /// Starts a server for tests: in a new temporary folder, with nothing flushed to disk. The folder is removed with the last
    /// user.
    ///
    /// # Errors
    ///
    /// Those of [`EmbeddedPostgres::open`].
    pub fn temporary() -> Result<Self, EmbeddedError> {
        let parent = std::env::temp_dir();
        let folder = tempfile::Builder::new()
            .prefix("pg-")
            .tempdir_in(&parent)
            .map_err(at(&parent))?;
        let account = Account::for_server()?;
        let joined = Self::join(folder.path().to_owned(), account, Durability::None)?;
        // From here on the watcher removes it.
        let _ = folder.keep();
        Ok(joined)
    }

    /// Joins the server of a folder, and starts it if it does not run.
    fn join(
        folder: PathBuf,
        account: Option<Account>,
        durability: Durability,
    ) -> Result<Self, EmbeddedError> {
        let server = Server::new(folder, account, durability)?;
        server.prepare_folder()?;
        let binaries = Binaries::find(&server.data())?;
        // Only one process at a time looks whether the server runs and starts it. This lock comes first: the process that holds
        // it waits below until a shutdown under way is over.
        let starting = server.open_lock("start.lock")?;
        starting.lock().map_err(at(server.folder()))?;
        let users = server.open_lock("users.lock")?;
        users.lock_shared().map_err(at(server.folder()))?;
        server.ensure_running(&binaries)?;
        Ok(Self {
            folder: server.folder().to_owned(),
            sockets: server.sockets(),
            _users: users,
        })
    }

    /// Folder of the server.
    pub fn folder(&self) -> &Path {
        &self.folder
    }

    /// Returns true if a server has ever kept data in the folder. One that cannot be entered is taken to hold some:
    /// [`Self::open`] says what is wrong with it.
    pub fn is_made(folder: &Path) -> bool {
        server::version_file(&folder.join(server::DATA))
            .try_exists()
            .unwrap_or(true)
    }

    /// Returns true if the server has the database.
    ///
    /// # Errors
    ///
    /// [`StateError::Unavailable`] if the server does not answer.
    pub async fn has_database(&self, database: &str) -> Result<bool, StateError> {
        has_database(&self.options("postgres"), database).await
    }

    /// Options to connect to `database` with.
    pub fn options(&self, database: &str) -> PgConnectOptions {
        PgConnectOptions::new_without_pgpass()
            .socket(&self.sockets)
            .port(server::PORT)
            .username(server::SUPERUSER)
            .database(database)
    }

    /// Creates `database` if it is not there, and returns the options to connect to it with. The name is 1 to 63 of `a-z 0-9 _`.
    ///
    /// # Errors
    ///
    /// [`StateError::Corrupt`] if the name is not of that kind, [`StateError::Unavailable`] if the server does not answer.
    pub async fn create_database(&self, database: &str) -> Result<PgConnectOptions, StateError> {
        create_database(&self.options("postgres"), database).await?;
        Ok(self.options(database))
    }

    /// Databases of output folders on this server.
    pub fn folder_databases(&self) -> FolderDatabases {
        FolderDatabases::on(self.options("postgres"))
    }
}

/// Default folder for data of this machine: `/var/lib/parkhang` for root, `$XDG_DATA_HOME/parkhang` or
/// `~/.local/share/parkhang` for others.
///
/// # Errors
///
/// [`EmbeddedError::NoDataFolder`] if the environment names no home folder.
pub fn data_folder() -> Result<PathBuf, EmbeddedError> {
    // For root the server runs as another account, which could not enter root's home folder.
    if nix::unistd::geteuid().is_root() {
        return Ok(PathBuf::from("/var/lib/parkhang"));
    }
    let parent = std::env::var_os("XDG_DATA_HOME")
        .filter(|path| !path.is_empty())
        .map(PathBuf::from)
        .or_else(|| std::env::home_dir().map(|home| home.join(".local/share")))
        .ok_or(EmbeddedError::NoDataFolder)?;
    Ok(parent.join("parkhang"))
}

/// Flag of an open that fails where the last part of the path is a link.
const NO_LINK: i32 = nix::fcntl::OFlag::O_NOFOLLOW.bits();

/// Creates `folder` with its parents; only the last one gets the account as its owner.
/// `flags` are those with which it is opened.
fn create_owned(folder: &Path, account: Option<&Account>, flags: i32) -> Result<(), EmbeddedError> {
    use std::os::unix::fs::{OpenOptionsExt, PermissionsExt, fchown};
    fs::create_dir_all(folder).map_err(at(folder))?;
    // By what was opened, which is the folder itself and nothing that the account has put in its place.
    let mut options = fs::OpenOptions::new();
    let opened = options
        .read(true)
        .custom_flags(flags)
        .open(folder)
        .map_err(at(folder))?;
    if let Some(account) = account {
        fchown(&opened, Some(account.uid), Some(account.gid)).map_err(at(folder))?;
    }
    // Every process that reaches the socket is superuser, so no other account may enter.
    opened
        .set_permissions(fs::Permissions::from_mode(0o700))
        .map_err(at(folder))
}
