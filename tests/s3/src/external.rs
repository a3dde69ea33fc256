//! Servers of other people that speak protocols of AWS, each a process of its own.

use std::io::{BufRead, BufReader};
use std::path::PathBuf;
use std::process::{Child, Command};

/// Arguments of `moto_server`.
const MOTO_ARGUMENTS: [&str; 4] = ["-H", "127.0.0.1", "-p", "0"];

/// Program that is `moto_server` but for its threads.
const MOTO_IN_TURN: &str = r#"
import sys
from moto import server

def run_in_turn(*arguments, **options):
    run(*arguments, **{**options, "threaded": False})

run, server.run_simple = server.run_simple, run_in_turn
server.main(sys.argv[1:])
"#;

/// A program of the Python environment that the tests use.
fn beside_python(program: &str) -> Command {
    let python = std::env::var_os("PYTHON").map(PathBuf::from);
    let folder = python.and_then(|python| Some(python.parent()?.to_owned()));
    Command::new(folder.unwrap_or_default().join(program))
}

/// `ministack` with these services, on a port of its own.
pub fn ministack(services: &str) -> Command {
    let mut ministack = beside_python("ministack");
    ministack
        .env("BIND_HOST", "127.0.0.1")
        .env("GATEWAY_PORT", "0")
        .env("SERVICES", services)
        .env("IOT_MTLS_ENABLED", "0");
    ministack
}

/// `moto_server`, on a port of its own.
pub fn moto() -> Command {
    let mut moto = beside_python("moto_server");
    moto.args(MOTO_ARGUMENTS);
    moto
}

/// `moto_server` that answers one request after the other, on a port of its own.
///
/// With threads it looks whether the object of a conditional write is there and writes it in two steps, and another writer may
/// come between: of racing writers two could win, which S3 rules out.
pub fn moto_in_turn() -> Command {
    let mut moto = beside_python("python3");
    moto.args(["-c", MOTO_IN_TURN]).args(MOTO_ARGUMENTS);
    moto
}

/// A server that says where it listens; killed with this value.
#[derive(Debug)]
pub struct Server {
    child: Child,
    /// Address that it printed.
    pub url: String,
}

impl Server {
    /// Starts the server and waits until it listens.
    ///
    /// # Panics
    ///
    /// If it cannot be started, or ends before it listens.
    pub fn start(mut command: Command) -> Self {
        let (said, says) = std::io::pipe().unwrap();
        command
            .stdin(std::process::Stdio::null())
            .stdout(says.try_clone().unwrap())
            .stderr(says);
        let mut child = command
            .spawn()
            .unwrap_or_else(|error| panic!("{command:?}: {error}"));
        // Its end of the pipe must be the only one.
        drop(command);
        let mut lines = BufReader::new(said).lines().map_while(Result::ok);
        let url = lines.find_map(|line| {
            let start = line.find("http://127.0.0.1:")?;
            line[start..].split_whitespace().next().map(str::to_owned)
        });
        let Some(url) = url else {
            let _ = child.kill();
            panic!("the server ended before it listened: {:?}", child.wait());
        };
        // A full pipe would stop it.
        std::thread::spawn(move || lines.for_each(drop));
        Self { child, url }
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        // It may have ended already.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
