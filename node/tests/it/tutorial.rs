//! The tutorial of the guide, followed to the letter: its commands in its order, and whether they say what it says they do.

use std::collections::BTreeSet;
use std::io::{BufRead, BufReader, Write};
use std::net::TcpListener;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::time::Duration;

use nix::sys::signal::{Signal, killpg};
use nix::unistd::Pid;
use parkhang_test_support::Wait;

use crate::support::workspace;

/// Longest that a command may take to say what it should.
const TIMEOUT: Duration = Duration::from_secs(180);
/// Ends what a command prints; its status follows.
const END: &str = "=== status ";

/// A command and what stands below it.
struct Step {
    command: String,
    output: Vec<String>,
}

fn steps(page: &str) -> Vec<Step> {
    let mut steps: Vec<Step> = Vec::new();
    let mut is_open = false;
    for line in page.lines() {
        match line.strip_prefix("    ") {
            Some(code) => match (code.strip_prefix("$ "), steps.last_mut()) {
                (Some(command), _) => {
                    is_open = true;
                    steps.push(Step {
                        command: command.to_owned(),
                        output: Vec::new(),
                    });
                }
                (None, Some(step)) if is_open => step.output.push(code.to_owned()),
                (None, _) => {}
            },
            None => is_open = false,
        }
    }
    steps
}

/// What of a line is the same on every machine: words that are neither numbers, names of files, nor text that was read.
fn constant(line: &str) -> Vec<&str> {
    let host = |word: &str| ["vm", hostname()].contains(&word);
    let is_constant = |word: &&str| {
        word.len() > 1
            && word.is_ascii()
            && !word.contains(|letter: char| letter.is_ascii_digit() || letter == '/')
            && !host(word)
    };
    line.split_whitespace().filter(is_constant).collect()
}

fn hostname() -> &'static str {
    static NAME: std::sync::LazyLock<String> = std::sync::LazyLock::new(|| {
        let name = std::fs::read_to_string("/proc/sys/kernel/hostname");
        name.unwrap_or_default().trim().to_owned()
    });
    &NAME
}

/// Every line that is promised is said, and no other where the promise does not end in dots.
fn keeps(promised: &[String], said: &[String]) -> bool {
    fn lines(lines: &[String]) -> BTreeSet<Vec<&str>> {
        let lines = lines.iter().map(|line| constant(line));
        lines.filter(|words| !words.is_empty()).collect()
    }
    let is_cut = promised.iter().any(|line| line == "...");
    let promised: Vec<String> = promised.iter().filter(|line| *line != "...").cloned().collect();
    let (promised, said) = (lines(&promised), lines(said));
    promised.is_subset(&said) && (is_cut || promised.is_empty() || said == promised)
}

/// A shell; it and all that it started is killed when dropped.
struct Shell {
    child: Child,
    stdin: ChildStdin,
    stdout: BufReader<ChildStdout>,
}

impl Shell {
    fn start(home: &Path) -> Self {
        let program = Path::new(env!("CARGO_BIN_EXE_node")).parent().unwrap();
        let path = format!("{}:{}", program.display(), std::env::var("PATH").unwrap());
        // Other clusters may run on this machine.
        let address = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
        let mut child = Command::new("bash")
            .current_dir(workspace())
            .env("PATH", path)
            .env("HOME", home)
            .env("PARKHANG_CLUSTER__LISTEN", address.to_string())
            .env("PARKHANG_CLUSTER__ORCHESTRATORS", address.to_string())
            .env("PARKHANG_API__LISTEN", "127.0.0.1:0")
            .env_remove("DATABASE_URL")
            .env_remove("PARKHANG_LOG")
            .env_remove("PARKHANG_CONFIG")
            .process_group(0)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        Self {
            stdin: child.stdin.take().unwrap(),
            stdout: BufReader::new(child.stdout.take().unwrap()),
            child,
        }
    }

    /// What a command prints on standard output.
    #[track_caller]
    fn run(&mut self, command: &str) -> Vec<String> {
        writeln!(self.stdin, "{{ {command}\n}} </dev/null; echo; echo \"{END}$?\"").unwrap();
        let mut said = Vec::new();
        loop {
            let mut line = String::new();
            assert_ne!(
                self.stdout.read_line(&mut line).unwrap(),
                0,
                "the shell ended after: {command}"
            );
            match line.trim_end().strip_prefix(END) {
                Some("0") => return said,
                Some(status) => panic!("{command}\nexits with {status}, having said {said:#?}"),
                None => said.push(line.trim_end().to_owned()),
            }
        }
    }
}

impl Drop for Shell {
    fn drop(&mut self) {
        // Both fail when all have ended already.
        let _ = killpg(
            Pid::from_raw(i32::try_from(self.child.id()).unwrap()),
            Signal::SIGKILL,
        );
        let _ = self.child.wait();
    }
}

/// Returns true for a command that only looks, at what may not have happened yet.
fn looks(command: &str) -> bool {
    let looking = [
        "node job status",
        "node tasks",
        "node nodes",
        "node search",
        "cat ",
    ];
    looking.iter().any(|start| command.starts_with(start)) && !command.ends_with("--wait")
}

/// Does what a page of the guide says, in this home, and returns the shell and the numbers of commands and of those with output.
fn follow(page: &str, home: &Path) -> (Shell, usize, usize) {
    let page = std::fs::read_to_string(workspace().join("docs").join(page)).unwrap();
    // The private Postgres may run as another user, who must come through here.
    std::fs::set_permissions(home, PermissionsExt::from_mode(0o755)).unwrap();
    let mut shell = Shell::start(home);
    let (mut run, mut compared) = (0, 0);
    for Step { command, output } in steps(&page) {
        // The release build, which this is not.
        if command.starts_with("scripts/") || command.starts_with("export PATH=") {
            continue;
        }
        let timeout = if looks(&command) { TIMEOUT } else { Duration::ZERO };
        Wait::until(&format!("{command:?} says {output:#?}"))
            .at_most(timeout)
            .sees(|| shell.run(&command), |said| keeps(&output, said));
        run += 1;
        compared += usize::from(!output.is_empty());
    }
    (shell, run, compared)
}

#[test]
fn the_tutorial_does_what_it_says() {
    let home = tempfile::tempdir().unwrap();
    let (mut shell, run, compared) = follow("tutorial.md", home.path());
    assert!(
        run >= 20 && compared >= 10,
        "{run} commands, {compared} with output"
    );
    shell.run("wait");
    let html = home.path().join("press/text/html/W0PARKHANG-I0SAMPLE.html");
    assert!(std::fs::read_to_string(html).unwrap().contains("mme_img2"));
}

#[test]
fn the_tutorial_of_documents_does_what_it_says() {
    let home = tempfile::tempdir().unwrap();
    let (mut shell, run, compared) = follow("tutorial-documents.md", home.path());
    assert!(
        run >= 15 && compared >= 8,
        "{run} commands, {compared} with output"
    );
    let tables = shell.run("grep -c '\"kind\":\"table\"' docs/chunks/library-paper.jsonl");
    assert_ne!(tables[0], "0");
    let found =
        shell.run("node search 'mud that the tide moves in a port' --by meaning --limit 1 --out docs-out");
    assert!(found[0].starts_with("library-paper "), "{found:?}");
}

#[test]
fn a_promise_is_compared_by_its_words() {
    let lines = |text: &str| text.lines().map(str::to_owned).collect::<Vec<_>>();
    let promised = lines("job first-job: running\n       1  waiting for ocr");
    assert!(keeps(
        &promised,
        &lines("job first-job: running\n       4  waiting for ocr\n")
    ));
    assert!(!keeps(
        &promised,
        &lines("job first-job: running\n       1  waiting for reduce")
    ));
    assert!(!keeps(&promised, &lines("job first-job: running")));
    assert!(!keeps(
        &promised,
        &lines("job first-job: running\n 1 waiting for ocr\nno node")
    ));
    assert!(keeps(&lines("one line\n..."), &lines("one line\nanother line")));
    assert!(keeps(&[], &lines("whatever")));
    let steps = steps("text\n\n    no output of a command\n\n    $ a\n    b\n    $ c\n\nd\n\n    e\n");
    let steps: Vec<_> = steps
        .iter()
        .map(|step| (step.command.as_str(), step.output.len()))
        .collect();
    assert_eq!(steps, [("a", 1), ("c", 0)]);
}
