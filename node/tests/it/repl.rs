//! Commands by hand, given to a cluster over HTTP.

use std::io::{BufRead, BufReader, Write};
use std::os::unix::fs::PermissionsExt as _;
use std::process::{Child, ChildStderr, ChildStdin, ChildStdout, Command, Stdio};

use crate::nodes::{Node, Site};
use crate::support::{Finished, finish};

/// `node repl` for the orchestrators of the machine, or for the one that is named.
fn repl(site: &Site, server: Option<&Node>) -> Command {
    let mut command = site.command(["repl"]);
    if let Some(server) = server {
        command.arg("--server").arg(format!("http://{}", server.api()));
    }
    command
}

/// Gives lines on standard input, and waits for the end.
fn give(mut command: Command, lines: &str) -> Finished {
    let piped = command
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped());
    let mut child = piped.spawn().unwrap();
    let mut stdin = child.stdin.take().unwrap();
    // Refused by a process that has ended.
    let _ = stdin.write_all(lines.as_bytes());
    drop(stdin);
    child.wait_with_output().unwrap().into()
}

/// A session that goes on; killed when dropped.
struct Conversation {
    child: Child,
    stdin: ChildStdin,
    answers: BufReader<ChildStdout>,
    news: BufReader<ChildStderr>,
}

impl Conversation {
    fn begin(mut command: Command) -> Self {
        let piped = command
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped());
        let mut child = piped.spawn().unwrap();
        Self {
            stdin: child.stdin.take().unwrap(),
            answers: BufReader::new(child.stdout.take().unwrap()),
            news: BufReader::new(child.stderr.take().unwrap()),
            child,
        }
    }

    fn say(&mut self, line: &str) {
        writeln!(self.stdin, "{line}").unwrap();
    }

    fn answered(&mut self, what: &str) -> String {
        Self::until(&mut self.answers, what)
    }

    fn reported(&mut self, what: &str) -> String {
        Self::until(&mut self.news, what)
    }

    /// The first line that says so.
    fn until(lines: &mut impl BufRead, what: &str) -> String {
        let mut heard = Vec::new();
        for line in lines.lines() {
            let line = line.unwrap();
            if line.contains(what) {
                return line;
            }
            heard.push(line);
        }
        panic!("{what:?} was not among {heard:#?}");
    }
}

impl Drop for Conversation {
    fn drop(&mut self) {
        // Both fail when it has ended already.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Rows: 102, 103.
#[test]
fn a_job_is_made_listed_and_seen_to_finish() {
    let site = Site::with_volumes(2, 1);
    let orchestrator = Node::start(&site, "orchestrator", &["127.0.0.1:1"]);
    let _worker = Node::start(&site, "cpu,gpu", &[orchestrator.address()]);
    let attach = || repl(&site, Some(&orchestrator));

    let lines = "# the seeds' spelling\n\
        create_job --op ocr --volumes W1-I0\n\
        job list\n\
        job_status J1 --wait\n\
        tasks list J1\n";
    let session = give(attach(), lines).exits(0);
    for said in [
        "J1: 1 volume\n",
        "\u{2502} J1  \u{2506}",
        "job J1: completed",
        "W1-I0",
    ] {
        assert!(session.stdout.contains(said), "{said:?}: {}", session.stdout);
    }

    let mut command = attach();
    command.args(["-c", "audit list --json"]);
    let audit = finish(command).exits(0).json();
    let entry = &audit["entries"][0];
    assert_eq!(
        (&entry["via"], &entry["command"]),
        (&"http".into(), &"job create".into())
    );
    assert_eq!(entry["arguments"]["volume"][0], "W1-I0");
    assert_eq!(entry["who"], "api-token", "the name of the token");

    let refused = give(attach(), "job status nothing\njob list\n").exits(1);
    assert!(
        refused.stderr.contains("there is no job nothing"),
        "{}",
        refused.stderr
    );
    assert_eq!(refused.stdout, "", "commands after a refused one are not given");
    let mut launch = attach();
    launch.args(["-c", "launch_workers --job J1 --count 10"]);
    let refused = finish(launch).exits(1).stderr;
    assert!(refused.contains("this cluster has no launcher"), "{refused}");
}

#[test]
fn a_session_goes_on_when_the_leader_dies() {
    let site = Site::with_volumes(1, 1);
    let first = Node::start(&site, "orchestrator", &["127.0.0.1:1"]);
    let second = Node::start(&site, "orchestrator", &["127.0.0.1:1"]);
    let mut session = Conversation::begin(repl(&site, None));
    session.say("cluster status");
    session.answered(" leads, ");
    session.say("job create before");
    session.answered("before: 1 volume");

    let (killed, successor) = (first.name().to_owned(), second.name().to_owned());
    first.kill();
    let news = session.reported(&format!("{successor} leads"));
    assert!(news.ends_with(" leads") || news.ends_with(&killed), "{news}");
    session.say("job create after");
    session.answered("after: 1 volume");
    session.say("cluster status");
    session.answered(&format!("{successor} leads, "));

    // Without anybody it waits, and goes on when somebody is there.
    second.kill();
    session.reported("no orchestrator is in touch");
    session.say("job list");
    let _third = Node::start(&site, "orchestrator", &["127.0.0.1:1"]);
    session.answered("after");
}

#[test]
fn who_has_no_token_is_refused_and_told_why() {
    let site = Site::with_volumes(1, 1);
    let orchestrator = Node::start(&site, "orchestrator", &["127.0.0.1:1"]);
    let file = site.path("token");
    std::fs::write(&file, "quite-another-token-that-nobody-knows").unwrap();
    std::fs::set_permissions(&file, std::fs::Permissions::from_mode(0o600)).unwrap();
    for words in [&["repl", "-c", "job list"][..], &["job", "list"]] {
        let mut command = site.command_of(words);
        command.arg("--token-file").arg(&file);
        let refused = finish(command).exits(1);
        assert_eq!(refused.stdout, "");
        for said in [
            orchestrator.api(),
            file.to_str().unwrap(),
            "api-token",
            "--token-file",
        ] {
            assert!(refused.stderr.contains(said), "{}", refused.stderr);
        }
        assert!(!refused.stderr.contains("quite-another"), "{}", refused.stderr);
    }
    // `--patience` is the former name of the option, which scripts may still use.
    for option in ["--timeout", "--patience"] {
        let nobody = finish({
            let mut command = site.command(["repl", "--server", "http://127.0.0.1:1"]);
            command.args(["-c", "job list", option, "100ms"]);
            command
        });
        let reported = nobody.exits(1).stderr;
        assert!(reported.contains("waiting for one, 100ms at most"), "{reported}");
        assert!(
            reported.contains("is an orchestrator running there?"),
            "{reported}"
        );
    }
}

#[test]
fn an_orchestrator_takes_commands_itself() {
    let site = Site::with_volumes(1, 1);
    let mut command = site.command(["--role", "orchestrator", "--repl"]);
    command.args(["--set", "node.name=orch"]);
    let mut session = Conversation::begin(command);
    session.answered("READY orch.");
    session.say("job create here");
    session.answered("here: 1 volume");
    session.say("audit list");
    let audit = session.answered("job create");
    assert!(audit.contains("orch.") && audit.contains("repl"), "{audit}");
    session.say("exit");
    let process = i32::try_from(session.child.id()).unwrap();
    let signal = nix::sys::signal::Signal::SIGTERM;
    nix::sys::signal::kill(nix::unistd::Pid::from_raw(process), signal).unwrap();
    assert_eq!(session.child.wait().unwrap().code(), Some(0));
    assert!(site.path("state/orchestrator.log").is_file());

    let mut worker = site.command(["--role", "cpu", "--repl"]);
    worker.args(["--set", "cluster.orchestrators=127.0.0.1:1"]);
    let refused = finish(worker).exits(1).stderr;
    assert!(refused.contains("the role orchestrator alone"), "{refused}");
}
