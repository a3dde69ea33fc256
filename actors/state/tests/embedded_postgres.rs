//! The private server as several real processes see it.

#![expect(clippy::unwrap_used, clippy::panic, reason = "a test fails by panicking")]

use std::fs::{self, File};
use std::io::{BufRead, BufReader, Read, Write};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdout, Command, Stdio};
use std::time::Duration;

use parkhang_core::domain::testing::{at, new_job};
use parkhang_state::{EmbeddedPostgres, PostgresStore, StateStore};

const FOLDER: &str = "PARKHANG_TEST_PG_FOLDER";

fn open(folder: &Path) -> EmbeddedPostgres {
    EmbeddedPostgres::open(Some(folder.to_owned())).unwrap_or_else(|error| panic!("{error}"))
}

/// A folder that another account can enter.
fn folder() -> tempfile::TempDir {
    use std::os::unix::fs::PermissionsExt;
    let folder = tempfile::Builder::new().prefix("pg-").tempdir().unwrap();
    fs::set_permissions(folder.path(), fs::Permissions::from_mode(0o755)).unwrap();
    folder
}

fn server_pid(folder: &Path) -> String {
    let text = fs::read_to_string(folder.join("data/postmaster.pid")).unwrap();
    text.lines().next().unwrap().to_owned()
}

/// Another process that uses the server of a folder until its input ends.
struct User {
    process: Child,
    /// Kept, as the test harness in there dislikes a broken pipe.
    output: BufReader<ChildStdout>,
}

impl User {
    fn start(folder: &Path) -> Self {
        let mut process = Command::new(std::env::current_exe().unwrap())
            .args(["--exact", "as_a_user", "--ignored", "--nocapture"])
            .env(FOLDER, folder)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let mut output = BufReader::new(process.stdout.take().unwrap());
        let joined = output
            .by_ref()
            .lines()
            .any(|line| line.unwrap().ends_with("joined"));
        assert!(joined, "the user process could not join the server");
        Self { process, output }
    }

    fn kill(mut self) {
        self.process.kill().unwrap();
        self.process.wait().unwrap();
    }

    fn leave(mut self) {
        drop(self.process.stdin.take());
        std::io::copy(&mut self.output, &mut std::io::sink()).unwrap();
        assert!(self.process.wait().unwrap().success());
    }
}

/// The body of [`User`]; run by it alone.
#[test]
#[ignore = "run as another process by the tests of this file"]
fn as_a_user() {
    let folder = PathBuf::from(std::env::var_os(FOLDER).unwrap());
    let _server = open(&folder);
    println!("joined");
    std::io::stdout().flush().unwrap();
    let _ = std::io::stdin().read(&mut [0]);
}

/// A connection that ends when the server stops. It has been answered once: a connection that arrives during a shutdown
/// would hold it up until the authentication timeout.
fn connection(folder: &Path) -> UnixStream {
    const SSL_REQUEST: [u8; 8] = [0, 0, 0, 8, 0x04, 0xd2, 0x16, 0x2f];
    let mut connection = UnixStream::connect(folder.join("sockets/.s.PGSQL.5432")).unwrap();
    connection
        .set_read_timeout(Some(Duration::from_secs(60)))
        .unwrap();
    connection.write_all(&SSL_REQUEST).unwrap();
    let mut answer = [0];
    connection.read_exact(&mut answer).unwrap();
    assert_eq!(answer, *b"N");
    connection
}

/// Returns once the server has stopped and its watcher is through.
fn wait_for_stop(folder: &Path, mut connection: UnixStream) {
    let end = connection.read(&mut [0; 256]);
    assert!(
        !end.is_err_and(|error| error.kind() == std::io::ErrorKind::WouldBlock),
        "the server did not stop"
    );
    File::open(folder.join("users.lock"))
        .unwrap()
        .lock_shared()
        .unwrap();
    assert!(!folder.join("data/postmaster.pid").exists());
}

#[test]
fn the_server_lives_as_long_as_one_of_its_users() {
    let root = folder();
    let folder = root.path().join("pg");
    let first = User::start(&folder);
    let second = User::start(&folder);
    let pid = server_pid(&folder);
    let connection = connection(&folder);

    first.kill();
    let third = open(&folder);
    assert_eq!(server_pid(&folder), pid, "it was not started again");
    second.leave();
    assert_eq!(server_pid(&folder), pid);
    drop(third);
    wait_for_stop(&folder, connection);
}

#[test]
fn many_newcomers_start_one_server() {
    let root = folder();
    let folder = root.path().join("pg");
    let users: Vec<User> = std::thread::scope(|scope| {
        let starts: Vec<_> = (0..4).map(|_| scope.spawn(|| User::start(&folder))).collect();
        starts.into_iter().map(|start| start.join().unwrap()).collect()
    });
    let connection = connection(&folder);
    users.into_iter().for_each(User::kill);
    wait_for_stop(&folder, connection);
}

#[tokio::test(flavor = "multi_thread")]
async fn data_survive_a_crash_of_everything() {
    let root = folder();
    let folder = root.path().join("pg");
    let server = open(&folder);
    let options = server.create_database("library").await.unwrap();
    let store = PostgresStore::connect_with(options).await.unwrap();
    let job = store.create_job(&new_job(&["ocr"], 1), at(0)).await.unwrap();

    let connection = connection(&folder);
    let pid = nix::unistd::Pid::from_raw(server_pid(&folder).parse().unwrap());
    nix::sys::signal::kill(pid, nix::sys::signal::Signal::SIGKILL).unwrap();
    let mut connection = connection;
    let _ = connection.read(&mut [0; 256]);
    assert!(
        folder.join("data/postmaster.pid").exists(),
        "the pid file is stale"
    );

    let again = open(&folder);
    let options = again.create_database("library").await.unwrap();
    let reopened = PostgresStore::connect_with(options).await.unwrap();
    assert_eq!(reopened.job(&job.key).await.unwrap(), Some(job));
    let connection = self::connection(&folder);
    drop((store, reopened, server, again));
    wait_for_stop(&folder, connection);
}

#[tokio::test(flavor = "multi_thread")]
async fn databases_of_folders_that_are_gone_are_removed() {
    let server = EmbeddedPostgres::temporary().unwrap();
    let (databases, outputs) = (server.folder_databases(), tempfile::tempdir().unwrap());
    let day = 24 * 60 * 60;
    let [there, used, unused] = ["there", "used", "unused"].map(|name| outputs.path().join(name));
    for folder in [&there, &used, &unused] {
        fs::create_dir(folder).unwrap();
        let name = folder.file_name().unwrap().to_str().unwrap();
        databases.open(name, folder, at(0)).await.unwrap();
    }
    // The state of a cluster has no folder.
    server.create_database("library").await.unwrap();
    assert!(databases.remove_unowned(at(100 * day)).await.unwrap().is_empty());

    fs::remove_dir(&used).unwrap();
    fs::remove_dir(&unused).unwrap();
    assert!(databases.remove_unowned(at(day - 1)).await.unwrap().is_empty());
    let store = PostgresStore::connect_with(databases.open("used", &used, at(0)).await.unwrap());
    let store = store.await.unwrap();
    assert_eq!(databases.remove_unowned(at(day)).await.unwrap(), [unused]);
    assert!(!server.has_database("unused").await.unwrap());
    for name in ["there", "used", "library"] {
        assert!(server.has_database(name).await.unwrap(), "{name}");
    }
    // Opened once more, it has another day.
    drop(store);
    databases.open("used", &used, at(day)).await.unwrap();
    assert!(
        databases
            .remove_unowned(at(2 * day - 1))
            .await
            .unwrap()
            .is_empty()
    );
}

#[test]
fn a_pid_file_that_names_a_stranger_is_stale() {
    let root = folder();
    let folder = root.path().join("pg");
    let server = open(&folder);
    let pid_file = folder.join("data/postmaster.pid");
    let left_behind = fs::read_to_string(&pid_file).unwrap();
    let connection_to_first = connection(&folder);
    drop(server);
    wait_for_stop(&folder, connection_to_first);

    let (pid, rest) = left_behind.split_once('\n').unwrap();
    fs::write(&pid_file, format!("{}\n{rest}", std::process::id())).unwrap();
    let server = open(&folder);
    let new_pid = server_pid(&folder);
    assert!(new_pid != pid && new_pid != std::process::id().to_string());
    let connection = connection(&folder);
    drop(server);
    wait_for_stop(&folder, connection);
}

#[test]
fn a_folder_that_cannot_be_used_says_why() {
    if !nix::unistd::Uid::effective().is_root() {
        return;
    }
    use std::os::unix::fs::PermissionsExt;
    let root = folder();
    fs::set_permissions(root.path(), fs::Permissions::from_mode(0o700)).unwrap();
    let error = EmbeddedPostgres::open(Some(root.path().join("pg"))).unwrap_err();
    let text = error.to_string();
    assert!(text.contains(&root.path().display().to_string()), "{text}");
    assert!(text.contains("choose a data folder"), "{text}");
}

#[test]
fn the_folder_of_a_temporary_server_goes_with_it() {
    let server = EmbeddedPostgres::temporary().unwrap_or_else(|error| panic!("{error}"));
    let folder = server.folder().to_owned();
    let mut connection = connection(&folder);
    let users = File::open(folder.join("users.lock")).unwrap();
    drop(server);
    let _ = connection.read(&mut [0; 256]);
    // The watcher holds the lock until it has removed the folder.
    users.lock_shared().unwrap();
    assert!(!folder.exists());
}
