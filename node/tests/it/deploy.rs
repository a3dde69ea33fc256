//! The files under `deploy/`, as far as this machine has the tools to judge them.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use crate::support::{finish, node, workspace};

/// Program as the unit names it. systemd looks for it where packages and administrators put programs.
const PROGRAM: &str = "parkhang";

fn unit() -> String {
    std::fs::read_to_string(workspace().join("deploy/parkhang@.service")).unwrap()
}

/// Values of a key of the unit, in order.
fn values(key: &str) -> Vec<String> {
    let unit = unit();
    let lines = unit
        .lines()
        .filter_map(|line| line.strip_prefix(key)?.strip_prefix('='));
    lines.map(str::to_owned).collect()
}

/// The unit in a folder of its own, with the program where it really is.
fn installed_unit(folder: &Path) -> PathBuf {
    let path = folder.join("parkhang@gpu.service");
    let program = env!("CARGO_BIN_EXE_node");
    let lines: Vec<String> = unit()
        .lines()
        .map(|line| match line.split_once('=') {
            Some((key, command)) if key.starts_with("Exec") => {
                format!("{key}={}", command.replacen(PROGRAM, program, 1))
            }
            _ => line.to_owned(),
        })
        .collect();
    std::fs::write(&path, lines.join("\n")).unwrap();
    path
}

/// Rows: F22.
#[test]
fn systemd_accepts_the_unit() {
    if Command::new("systemd-analyze").arg("--version").output().is_err() {
        eprintln!("SKIPPED: no systemd-analyze here, so nobody has checked deploy/parkhang@.service");
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let mut command = Command::new("systemd-analyze");
    command
        .args(["verify", "--man=no", "--recursive-errors=no"])
        .arg(installed_unit(folder.path()));
    let verdict = finish(command).exits(0);
    assert!(
        !verdict.stderr.contains("parkhang@"),
        "systemd has doubts: {}",
        verdict.stderr
    );
}

/// Rows: F22.
#[test]
fn a_unit_is_stopped_later_than_its_node_drains() {
    let shown = finish(node(["config", "show", "--json", "--config-file", "/dev/null"])).exits(0);
    let drain = shown.json()["node"]["drain_deadline"]
        .as_str()
        .unwrap()
        .trim_end_matches('s')
        .parse()
        .map(Duration::from_secs)
        .unwrap();
    let stop = values("TimeoutStopSec")[0]
        .parse()
        .map(Duration::from_secs)
        .unwrap();
    assert!(
        stop > drain,
        "systemd kills after {stop:?}, the drain takes {drain:?}"
    );
}

/// Rows: F22.
#[test]
fn a_unit_is_held_back_before_it_is_ended_and_both_before_its_host_has_no_memory() {
    let share = |key: &str| -> f64 {
        let values = values(key);
        assert_eq!(values.len(), 1, "{key}");
        values[0].strip_suffix('%').unwrap().parse().unwrap()
    };
    let (high, most) = (share("MemoryHigh"), share("MemoryMax"));
    assert!(0.0 < high && high < most && most < 100.0, "{high} and {most}");
}

/// Rows: F21, F22.
#[test]
fn a_node_that_left_as_it_had_nothing_to_do_is_not_started_again() {
    for key in ["SuccessExitStatus", "RestartPreventExitStatus"] {
        assert_eq!(
            values(key),
            [crate::idle::LEFT_IDLE.unwrap().to_string()],
            "{key}"
        );
    }
}

#[test]
fn a_unit_refuses_to_start_on_an_unsound_configuration() {
    let folder = tempfile::tempdir().unwrap();
    let before = values("ExecStartPre");
    let arguments: Vec<&str> = before[0]
        .strip_prefix(PROGRAM)
        .unwrap()
        .split_whitespace()
        .collect();
    let check = |role: &str| {
        let mut command = node([]);
        command
            .args(&arguments)
            .env("PARKHANG_CONFIG", folder.path().join("cluster.toml"));
        for setting in values("Environment") {
            let (name, value) = setting.split_once('=').unwrap();
            if name != "PARKHANG_CONFIG" {
                let state = folder.path().to_str().unwrap();
                let value = value.replace("%S", state).replace("%I", role).replace("%i", role);
                command.env(name, value);
            }
        }
        finish(command)
    };
    finish(node(["tls", "init", folder.path().join("pki").to_str().unwrap()])).exits(0);
    let cookie = folder.path().join("pki/cookie");
    let settings = format!(
        "[node]\nname = 'x'\n[cluster]\ncookie_file = '{}'\n",
        cookie.display()
    );
    std::fs::write(folder.path().join("cluster.toml"), settings).unwrap();
    for role in ["orchestrator", "cpu", "gpu", "cpu,gpu"] {
        check(role).exits(0);
    }
    let refused = check("king").exits(1);
    assert!(
        refused.stderr.contains("PARKHANG_NODE__ROLES: node.roles"),
        "{}",
        refused.stderr
    );
}

#[test]
fn the_program_goes_by_the_name_that_it_is_called_by() {
    let folder = tempfile::tempdir().unwrap();
    for name in ["node", "parkhang"] {
        let called = folder.path().join(name);
        std::os::unix::fs::symlink(env!("CARGO_BIN_EXE_node"), &called).unwrap();
        let says = |arguments: &[&str]| {
            let mut command = Command::new(&called);
            command.args(arguments);
            finish(command).exits(0).stdout
        };
        assert!(says(&["--version"]).starts_with(&format!("{name} ")));
        assert!(says(&["ocr", "--help"]).contains(&format!("Usage: {name} ocr ")));
        assert!(says(&["job", "create", "--help"]).contains(&format!("Usage: {name} job create ")));
        assert!(says(&["man"]).contains(&format!(".TH {name} 1")));
        assert!(says(&["completions", "bash"]).ends_with(&format!(" {name}\nfi\n")));
        let pages = folder.path().join(format!("{name}-pages"));
        says(&["man", "--out", pages.to_str().unwrap()]);
        assert!(pages.join(format!("{name}-job-create.1")).exists());
    }
}

#[test]
fn docker_accepts_the_dockerfile() {
    let dockerfile = workspace().join("deploy/Dockerfile");
    let daemon = Command::new("docker").arg("info").output();
    if !daemon.is_ok_and(|output| output.status.success()) {
        eprintln!(
            "SKIPPED: no Docker daemon here, so nobody has checked {}",
            dockerfile.display()
        );
        return;
    }
    let mut command = Command::new("docker");
    command
        .args(["build", "--check", "--file"])
        .arg(dockerfile)
        .arg(workspace());
    finish(command).exits(0);
}
