//! Commands of another process: which orchestrator they are given to, who gives them, and what is done where there is none.

use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;
use std::process::Command;

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use serde_json::json;

use crate::nodes::{Node, Site};
use crate::support::{finish, node};

/// A token for `eva`, in a file of its own, and the file by which an orchestrator knows it.
fn token_of_eva(site: &Site, role: &str) -> (PathBuf, PathBuf) {
    let made = finish(node(["token", "eva", role])).exits(0);
    let (known, token) = (site.path("tokens"), site.path("token-of-eva"));
    std::fs::write(&known, &made.stdout).unwrap();
    std::fs::write(&token, made.stderr.trim().rsplit(' ').next().unwrap()).unwrap();
    std::fs::set_permissions(&token, PermissionsExt::from_mode(0o600)).unwrap();
    (known, token)
}

/// A process that shares neither folder nor configuration with the cluster.
fn elsewhere(site: &Site, words: &[&str]) -> Command {
    let mut command = node([]);
    command.args(words).current_dir(site.path("scans"));
    command
        .arg("--set")
        .arg(format!("node.state_dir={}", site.path("elsewhere").display()));
    command
}

#[test]
fn a_command_goes_to_the_server_that_is_named_in_the_name_of_its_token() {
    let site = Site::with_volumes(2, 1);
    let (known, token) = token_of_eva(&site, "operate");
    let orchestrator = Node::start_with(&site, "orchestrator", &["127.0.0.1:1"], |command| {
        command
            .arg("--set")
            .arg(format!("api.tokens_file={}", known.display()));
    });
    let server = format!("http://{}", orchestrator.api());
    let ask = |words: &[&str]| {
        let mut command = elsewhere(&site, words);
        command
            .args(["--server", &server])
            .arg("--token-file")
            .arg(&token);
        finish(command)
    };
    let list = site.path("list");
    std::fs::write(&list, "W1-I1\n").unwrap();
    let made = ask(&["job", "create", "press", "--volumes-from", list.to_str().unwrap()]).exits(0);
    assert_eq!(made.stdout, "press: 1 volume\n");
    assert!(ask(&["job", "list"]).exits(0).stdout.contains("press"));
    let tasks = ask(&["tasks", "list", "press", "--json"]).exits(0).json();
    assert_eq!(tasks["tasks"][0]["volume"], "W1-I1");
    let audit = ask(&["audit", "list", "--json"]).exits(0).json();
    assert_eq!(audit["entries"][0]["who"], "eva");
    assert_eq!(audit["entries"][0]["via"], "http");
    let refused = ask(&["job", "delete", "press", "--yes"]).exits(1).stderr;
    assert!(refused.contains("asks for the role admin"), "{refused}");
    let unknown = ask(&["job", "status", "nobody"]).exits(1).stderr;
    assert_eq!(unknown.trim(), "error: there is no job nobody");
    let local = ask(&["volumes", "import", "lists"]).exits(1).stderr;
    assert!(
        local.contains("does not read the files of this machine"),
        "{local}"
    );

    // As the environment says it.
    let mut command = elsewhere(&site, &["job", "list", "--json"]);
    command.env("PARKHANG_SERVER", &server);
    command.env("PARKHANG_TOKEN", std::fs::read_to_string(&token).unwrap());
    assert_eq!(finish(command).exits(0).json()["jobs"][0]["job"], "press");
}

#[test]
fn other_spellings_of_failures_are_understood() {
    let site = Site::with_volumes(1, 1);
    let _orchestrator = Node::start(&site, "orchestrator", &["127.0.0.1:1"]);
    finish(site.command(["job", "create", "press"])).exits(0);
    let dead = finish(site.command(["dead", "list", "press", "--json"]))
        .exits(0)
        .json();
    assert_eq!(dead, json!({ "tasks": [], "next": null }));
    let shown = finish(site.command(["dead", "show", "press", "W1-I0", "--json"])).exits(0);
    assert_eq!(shown.json()["volume"], "W1-I0");
    let which = finish(site.command(["dead", "redrive", "press"])).exits(1).stderr;
    assert!(which.contains("needs one of --volume"), "{which}");
    let none = finish(site.command(["dead", "redrive", "press", "--all"]))
        .exits(1)
        .stderr;
    assert!(
        none.contains("no volume of job press that failed for good is meant"),
        "{none}"
    );
}

#[test]
fn a_token_is_not_sent_in_the_clear_or_to_just_anybody() {
    let site = Site::with_volumes(1, 1);
    let (_, token) = token_of_eva(&site, "read");
    let ask = |server: &str, rest: &[&str]| {
        let mut command = elsewhere(&site, &["job", "list", "--server", server]);
        command.args(rest);
        finish(command).exits(1).stderr
    };
    let shown = ["--token-file", token.to_str().unwrap()];
    let clear = ask("http://library.invalid:7480", &shown);
    assert!(
        clear.contains("everybody on the way there could read the token"),
        "{clear}"
    );
    let allowed = ask(
        "http://library.invalid:7480",
        &[&shown[..], &["--plain-http"]].concat(),
    );
    assert!(allowed.contains("is an orchestrator running there?"), "{allowed}");
    let none = ask("https://library.invalid", &[]);
    assert!(
        none.contains("no token for https://library.invalid:443"),
        "{none}"
    );
    std::fs::set_permissions(&token, PermissionsExt::from_mode(0o644)).unwrap();
    let open = ask("https://library.invalid", &shown);
    assert!(open.contains("chmod 600 it"), "{open}");
    let odd = ask_usage(&site);
    assert!(odd.contains("must be a URL such as"), "{odd}");
}

fn ask_usage(site: &Site) -> String {
    finish(elsewhere(site, &["job", "list", "--server", "library.invalid"]))
        .exits(2)
        .stderr
}

#[test]
fn tls_is_believed_with_the_authority_of_the_cluster_and_without_it_not() {
    let site = Site::with_volumes(1, 1);
    let tls = site.path("tls");
    finish(node([
        "tls",
        "issue",
        tls.to_str().unwrap(),
        "api",
        "--host",
        "localhost",
    ]))
    .exits(0);
    let orchestrator = Node::start_with(&site, "orchestrator", &["127.0.0.1:1"], |command| {
        for key in ["certificate_file=tls/api.pem", "key_file=tls/api.key"] {
            command.arg("--set").arg(format!("api.tls.{key}"));
        }
    });
    let (_, port) = orchestrator.said("api=https://").rsplit_once(':').unwrap();
    let server = format!("https://localhost:{port}");
    let ask = |trusted: &[&str]| {
        let mut command = elsewhere(&site, &["cluster", "status", "--server", &server]);
        command
            .arg("--token-file")
            .arg(site.path("state/api-token"))
            .args(trusted);
        finish(command)
    };
    let refused = ask(&[]).exits(1).stderr;
    assert!(refused.contains("cluster.tls.ca_file names"), "{refused}");
    let files = [
        "ca_file=../tls/ca.pem",
        "certificate_file=../tls/all.pem",
        "key_file=../tls/all.key",
    ];
    let trusted: Vec<String> = files.iter().map(|file| format!("cluster.tls.{file}")).collect();
    let trusted: Vec<&str> = trusted.iter().flat_map(|set| ["--set", set]).collect();
    ask(&trusted).exits(0);
    // The orchestrator of this machine is found under the name in its certificate.
    let audit = || finish(site.command(["job", "create", "press"])).exits(0);
    audit();
    let entries = finish(site.command(["audit", "list", "--json"])).exits(0).json();
    assert_eq!(entries["entries"][0]["via"], "http");
}

#[test]
fn without_an_orchestrator_that_answers_commands_work_on_the_database() {
    let site = Site::with_volumes(1, 1);
    let orchestrator = Node::start(&site, "orchestrator", &["127.0.0.1:1"]);
    finish(site.command(["job", "create", "first"])).exits(0);
    let process = Pid::from_raw(i32::try_from(orchestrator.id()).unwrap());
    kill(process, Signal::SIGSTOP).unwrap();
    let frozen = finish(site.command(["job", "create", "second"])).exits(0);
    assert!(frozen.stderr.contains("did not answer"), "{}", frozen.stderr);
    kill(process, Signal::SIGCONT).unwrap();
    orchestrator.kill();
    let killed = finish(site.command(["job", "create", "third"])).exits(0);
    assert!(!killed.stderr.contains("did not answer"), "{}", killed.stderr);
    let audit = finish(site.command(["audit", "list", "--json"])).exits(0).json();
    let ways = audit["entries"].as_array().unwrap().iter().rev();
    let ways: Vec<&str> = ways.map(|entry| entry["via"].as_str().unwrap()).collect();
    assert_eq!(ways, ["http", "cli", "cli"]);
}
