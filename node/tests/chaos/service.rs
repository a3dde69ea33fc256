//! Service in a process of its own, `tests/python/service.py`, and what it says of the jobs that it was given.

use std::collections::BTreeMap;
use std::io::{Read, Write};
use std::iter;
use std::net::{TcpListener, TcpStream};
use std::process::Command;
use std::sync::atomic::{AtomicU16, Ordering};

use parkhang_test_s3::external::Server;
use serde::Deserialize;

use crate::support::workspace;

pub(crate) const SECRET: &str = "hunter2";

/// Job as the service remembers it; each has another key.
#[derive(Debug, Deserialize)]
pub(crate) struct ServedJob {
    pub(crate) stage: String,
    pub(crate) id: String,
    /// Submits under its key.
    pub(crate) submits: usize,
    /// Different bodies of these.
    pub(crate) bodies: usize,
}

pub(crate) struct Service {
    server: Server,
    /// Port for whoever listens for its webhooks.
    pub(crate) webhook_port: u16,
}

/// A port that is free now and stays so until a process of ours listens there: below those that the kernel gives to connections and to
/// listeners that ask for any.
fn free_port() -> u16 {
    // No two services of these tests get the same one, though nobody listens there yet.
    static NEXT: AtomicU16 = AtomicU16::new(0);
    let first = 20_000 + (std::process::id() % 10_000) as u16;
    let is_free = |port: &u16| TcpListener::bind(("127.0.0.1", *port)).is_ok();
    let next = || first + NEXT.fetch_add(1, Ordering::Relaxed);
    iter::repeat_with(next)
        .take(1_000)
        .find(is_free)
        .expect("a port is free")
}

impl Service {
    /// Starts the service, which tells of the ends of these stages by itself.
    pub(crate) fn start(tells: &str, options: &[&str]) -> Self {
        let port = free_port();
        let python = std::env::var("PYTHON").unwrap_or_else(|_| "python3".to_owned());
        let mut command = Command::new(python);
        command
            .arg(workspace().join("tests/python/service.py"))
            .args([
                "--tell",
                tells,
                "--webhook",
                &format!("http://127.0.0.1:{port}/job-complete"),
            ])
            .args(options)
            .env("WEBHOOK_SECRET", SECRET);
        Self {
            server: Server::start(command),
            webhook_port: port,
        }
    }

    pub(crate) fn url(&self) -> &str {
        &self.server.url
    }

    /// All jobs that it has taken.
    pub(crate) fn jobs(&self) -> Vec<ServedJob> {
        serde_json::from_str(&self.ask("GET", "/log")).unwrap()
    }

    /// The same by what they are for, a stage and a row or task.
    pub(crate) fn jobs_by_purpose(&self) -> BTreeMap<(String, String), Vec<ServedJob>> {
        let mut purposes = BTreeMap::<_, Vec<_>>::new();
        for job in self.jobs() {
            let purpose = (job.stage.clone(), job.id.clone());
            purposes.entry(purpose).or_default().push(job);
        }
        purposes
    }

    /// Lets the jobs of a service end that holds them.
    pub(crate) fn release(&self) {
        self.ask("POST", "/release");
    }

    fn ask(&self, method: &str, path: &str) -> String {
        let address = self.url().trim_start_matches("http://");
        let mut stream = TcpStream::connect(address).unwrap();
        write!(stream, "{method} {path} HTTP/1.1\r\n\r\n").unwrap();
        stream.shutdown(std::net::Shutdown::Write).unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).unwrap();
        answer.split_once("\r\n\r\n").unwrap().1.to_owned()
    }
}
