use std::collections::BTreeMap;
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::sync::mpsc::{Receiver, TryRecvError, channel};
use std::time::Duration;

use nix::sys::signal::Signal;
use parkhang_core::domain::{JobKey, VolumeId};
use parkhang_store::artifact::{ArtifactLayout, ArtifactRow, Provenance, Table, VolumeLayout, read_table};
use parkhang_store::storage::{ArtifactKey, LocalStore};
use parkhang_test_support::Wait;
use serde_json::Value;

use crate::process::Process;
use crate::site::put_pages;

/// Longest time that a process takes to load its models and to read some pages.
const TIMEOUT: Duration = Duration::from_secs(120);

pub(crate) const VOLUME: &str = "W1-I1";

pub(crate) fn workspace() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap().to_owned()
}

pub(crate) fn sample() -> PathBuf {
    workspace().join("tests/fixtures/sample")
}

/// A woodblock page of seven lines; the smallest of the sample.
pub(crate) fn small_page() -> Vec<u8> {
    std::fs::read(sample().join("W0PARKHANG-I0SAMPLE/mme_img2.tif")).unwrap()
}

/// Scans in `PAGES/W1-I1`, to be read into `OUT`; gone with the test.
pub(crate) struct Fixture {
    folder: tempfile::TempDir,
}

impl Fixture {
    pub(crate) fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        std::fs::create_dir_all(folder.path().join("pages").join(VOLUME)).unwrap();
        Self { folder }
    }

    /// So many pages that look alike and differ in their bytes.
    pub(crate) fn with_pages(count: u8) -> Self {
        let fixture = Self::new();
        put_pages(&fixture.pages().join(VOLUME), 0, count);
        fixture
    }

    pub(crate) fn put(&self, name: &str, bytes: &[u8]) {
        std::fs::write(self.pages().join(VOLUME).join(name), bytes).unwrap();
    }

    pub(crate) fn pages(&self) -> PathBuf {
        self.folder.path().join("pages")
    }

    pub(crate) fn out(&self) -> PathBuf {
        self.folder.path().join("out")
    }

    /// Reads the pages into OUT.
    pub(crate) fn read(&self, options: &[&str]) -> Finished {
        self.read_into(&self.out(), options)
    }

    pub(crate) fn read_into(&self, out: &Path, options: &[&str]) -> Finished {
        finish(self.command(out, options))
    }

    pub(crate) fn start(&self, options: &[&str]) -> Running {
        Running::start(self.command(&self.out(), options))
    }

    fn command(&self, out: &Path, options: &[&str]) -> Command {
        let mut command = node(["ocr", "--json"]);
        command.arg(self.pages()).arg("--out").arg(out).args(options);
        command
    }

    pub(crate) fn layout(&self) -> VolumeLayout {
        layout(VOLUME)
    }

    /// Status of each page in the record of a stage's last run.
    pub(crate) fn manifest(&self, stage: &str) -> BTreeMap<String, String> {
        let name = format!("manifests/ocr/{VOLUME}/parkhang.{stage}.manifest.jsonl");
        let Ok(text) = std::fs::read_to_string(self.out().join(name)) else {
            return BTreeMap::new();
        };
        // A process that was killed may leave half a line.
        text.lines()
            .filter_map(|line| serde_json::from_str::<Value>(line).ok())
            .map(|row| {
                let field = |name: &str| row[name].as_str().unwrap().to_owned();
                (field("doc_id"), field("status"))
            })
            .collect()
    }

    /// How many pages a stage's last run made rather than took over.
    pub(crate) fn made(&self, stage: &str) -> usize {
        self.manifest(stage)
            .values()
            .filter(|status| *status == "success")
            .count()
    }
}

pub(crate) fn layout(volume: &str) -> VolumeLayout {
    let volume: VolumeId = volume.parse().unwrap();
    ArtifactLayout::bdrc_v2(&JobKey::new("ocr").unwrap()).volume(&volume)
}

/// `node` with arguments, away from the state that the surroundings may name.
pub(crate) fn node<const N: usize>(arguments: [&str; N]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_node"));
    command
        .args(arguments)
        .env_remove("DATABASE_URL")
        .env_remove("PARKHANG_SERVER")
        .env_remove("PARKHANG_TOKEN")
        .env_remove("PARKHANG_LOG");
    command
}

#[derive(Debug)]
pub(crate) struct Finished {
    pub(crate) code: Option<i32>,
    pub(crate) stdout: String,
    pub(crate) stderr: String,
}

impl Finished {
    #[track_caller]
    pub(crate) fn exits(self, code: i32) -> Self {
        assert_eq!(self.code, Some(code), "{}{}", self.stdout, self.stderr);
        self
    }

    /// Standard output, which must be one JSON value.
    #[track_caller]
    pub(crate) fn json(&self) -> Value {
        serde_json::from_str(&self.stdout).unwrap_or_else(|error| panic!("{error}: {}", self.stdout))
    }

    /// A number of the summary's only volume.
    #[track_caller]
    pub(crate) fn count(&self, field: &str) -> u64 {
        self.json()["volumes"][0][field].as_u64().unwrap()
    }
}

pub(crate) fn finish(mut command: Command) -> Finished {
    command.output().unwrap().into()
}

impl From<Output> for Finished {
    fn from(output: Output) -> Self {
        Self {
            code: output.status.code(),
            stdout: String::from_utf8(output.stdout).unwrap(),
            stderr: String::from_utf8(output.stderr).unwrap(),
        }
    }
}

/// A process at work, and what it says.
pub(crate) struct Running {
    process: Process,
    lines: Receiver<String>,
}

impl Running {
    pub(crate) fn start(mut command: Command) -> Self {
        command.stdout(Stdio::null()).stderr(Stdio::piped());
        let mut process = Process::spawn(command);
        let stderr = BufReader::new(process.stderr());
        let (sender, lines) = channel();
        std::thread::spawn(move || {
            for line in stderr.lines().map_while(Result::ok) {
                if sender.send(line).is_err() {
                    return;
                }
            }
        });
        Self { process, lines }
    }

    /// Returns once something is in a folder. A part of a table is there for a moment only.
    #[track_caller]
    pub(crate) fn wait_for_file_in(&mut self, what: &str, folder: &Path) {
        self.wait_for(what, || {
            std::fs::read_dir(folder).is_ok_and(|mut files| files.next().is_some())
        });
    }

    /// Returns once a file is there.
    #[track_caller]
    pub(crate) fn wait_for_file(&mut self, what: &str, path: &Path) {
        self.wait_for(what, || path.exists());
    }

    #[track_caller]
    fn wait_for(&mut self, what: &str, holds: impl Fn() -> bool) {
        let mut said = Vec::new();
        let look = || {
            let is_there = holds();
            let ended = loop {
                match self.lines.try_recv() {
                    Ok(line) => said.push(line),
                    Err(error) => break error == TryRecvError::Disconnected,
                }
            };
            assert!(is_there || !ended, "ended before {what}: {}", said.join("\n"));
            (is_there, said.last().cloned())
        };
        Wait::until(what)
            .at_most(TIMEOUT)
            .looking_every(Duration::from_millis(10))
            .sees(look, |(is_there, _)| *is_there);
    }

    /// SIGINT, as Ctrl-C sends it.
    pub(crate) fn interrupt(&self) {
        self.process.signal(Signal::SIGINT);
    }

    /// SIGKILL.
    pub(crate) fn kill(self) {
        self.process.kill();
    }

    pub(crate) fn exit_code(mut self) -> Option<i32> {
        self.process.wait().code()
    }
}

/// The rows of a table in an output folder.
pub(crate) fn rows<R: ArtifactRow>(out: &Path, key: &ArtifactKey) -> Vec<R> {
    table(out, key).rows
}

/// What made a table in an output folder.
pub(crate) fn provenance<R: ArtifactRow>(out: &Path, key: &ArtifactKey) -> Provenance {
    table::<R>(out, key).provenance
}

fn table<R: ArtifactRow>(out: &Path, key: &ArtifactKey) -> Table<R> {
    let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
    runtime.block_on(async {
        let store = LocalStore::open(out).await.unwrap();
        read_table::<R>(&store, key).await.unwrap()
    })
}

/// Every file below a folder, by its path there.
pub(crate) fn files(folder: &Path) -> BTreeMap<PathBuf, Vec<u8>> {
    fn gather(root: &Path, folder: &Path, found: &mut BTreeMap<PathBuf, Vec<u8>>) {
        for entry in std::fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                gather(root, &path, found);
            } else {
                let name = path.strip_prefix(root).unwrap().to_owned();
                found.insert(name, std::fs::read(&path).unwrap());
            }
        }
    }
    let mut found = BTreeMap::new();
    gather(folder, folder, &mut found);
    found
}

/// Fails naming the files that differ, not their bytes.
#[track_caller]
pub(crate) fn assert_same_files(one: &Path, other: &Path) {
    assert_same(&files(one), &files(other));
}

#[track_caller]
pub(crate) fn assert_same(one: &BTreeMap<PathBuf, Vec<u8>>, other: &BTreeMap<PathBuf, Vec<u8>>) {
    assert!(!one.is_empty());
    assert_eq!(one.keys().collect::<Vec<_>>(), other.keys().collect::<Vec<_>>());
    for (name, bytes) in one {
        assert!(other[name] == *bytes, "{} differs", name.display());
    }
}
