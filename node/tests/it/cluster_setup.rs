//! What an operator does before a cluster starts: certificates, a configuration, and the question whether it is sound.

use std::path::Path;

use crate::support::{Finished, finish, node, workspace};

fn tls(arguments: &[&str], folder: &Path) -> Finished {
    let mut command = node(["tls", arguments[0]]);
    command.arg(folder).args(&arguments[1..]);
    finish(command)
}

fn config(arguments: &[&str], file: &Path) -> Finished {
    let mut command = node(["config"]);
    command.args(arguments).arg("--config-file").arg(file);
    finish(command)
}

#[test]
fn two_commands_make_a_secure_cluster() {
    let folder = tempfile::tempdir().unwrap();
    let pki = folder.path().join("pki");
    tls(&["init"], &pki).exits(0);
    let issued = tls(&["issue", "orch-1", "--host", "orch.example"], &pki).exits(0);
    let file = folder.path().join("cluster.toml");
    std::fs::write(&file, &issued.stdout).unwrap();

    let public = ["check", "--set", "cluster.listen=0.0.0.0:7400", "--set"];
    let sound = [&public[..], &["cluster.advertise=orch.example:7400"]].concat();
    config(&sound, &file).exits(0);
    let elsewhere = [&public[..], &["cluster.advertise=other.example:7400"]].concat();
    let refused = config(&elsewhere, &file).exits(1);
    let reported = format!("{}:5: cluster.tls.certificate_file: ", file.display());
    assert!(refused.stderr.contains(&reported), "{}", refused.stderr);
    assert!(
        refused.stderr.contains("not valid for name"),
        "{}",
        refused.stderr
    );

    let shown = tls(&["show"], &pki).exits(0).stdout;
    let row = |file: &str| shown.lines().find(|line| line.contains(file)).unwrap().to_owned();
    assert!(row("ca.pem").contains("authority"), "{shown}");
    assert!(
        row("orch-1.pem").contains("orch.example") && row("orch-1.pem").contains("good"),
        "{shown}"
    );

    let again = tls(&["init"], &pki).exits(1);
    assert!(again.stderr.contains("not overwritten"), "{}", again.stderr);
}

#[test]
fn a_host_that_is_none_is_refused_and_nothing_is_issued() {
    let folder = tempfile::tempdir().unwrap();
    let pki = folder.path().join("pki");
    tls(&["init"], &pki).exits(0);
    for host in ["orch 1", "", "orch_1:7400", "*"] {
        let refused = tls(&["issue", "orch-1", "--host", "127.0.0.1", "--host", host], &pki).exits(1);
        let reported = format!("error: {host:?} is neither a DNS name nor an IP address\n");
        assert_eq!(refused.stderr, reported);
        assert!(!pki.join("orch-1.pem").exists());
    }
}

#[test]
fn a_foreign_authority_or_key_is_found_before_the_node_starts() {
    let folder = tempfile::tempdir().unwrap();
    let (ours, theirs) = (folder.path().join("ours"), folder.path().join("theirs"));
    for pki in [&ours, &theirs] {
        tls(&["init"], pki).exits(0);
        tls(&["issue", "cpu-1"], pki).exits(0);
    }
    let file = folder.path().join("cluster.toml");
    let cookie = ours.join("cookie");
    let check = |certificate: &Path, key: &Path, ca: &Path| {
        let text = format!(
            "[node]\nroles = ['cpu']\n[cluster]\ncookie_file = {cookie:?}\n[cluster.tls]\ncertificate_file = {certificate:?}\nkey_file = {key:?}\nca_file = {ca:?}\n"
        );
        std::fs::write(&file, text).unwrap();
        config(&["check"], &file)
    };
    let (certificate, key, ca) = (
        ours.join("cpu-1.pem"),
        ours.join("cpu-1.key"),
        ours.join("ca.pem"),
    );
    check(&certificate, &key, &ca).exits(0);
    let foreign = check(&certificate, &key, &theirs.join("ca.pem")).exits(1);
    assert!(foreign.stderr.contains("UnknownIssuer"), "{}", foreign.stderr);
    let other_key = check(&certificate, &theirs.join("cpu-1.key"), &ca).exits(1);
    assert!(
        other_key.stderr.contains("cluster.toml:7: cluster.tls.key_file"),
        "{}",
        other_key.stderr
    );
    let none = check(&certificate, &key, &ours.join("none.pem")).exits(1);
    assert!(
        none.stderr.contains("cluster.toml:8: cluster.tls.ca_file"),
        "{}",
        none.stderr
    );
}

/// Rows: F13.
#[test]
fn the_configuration_in_force_is_shown_with_its_origins() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("cluster.toml");
    std::fs::write(&file, "[cluster]\nlease = '90s'\n").unwrap();
    let show = |arguments: &[&str]| {
        let mut command = node(["config", "show", "--set", "node.name=gpu-1"]);
        command
            .args(arguments)
            .env("PARKHANG_CONFIG", &file)
            .env("PARKHANG_NODE__ROLES", "gpu")
            .env("PARKHANG_CLUSTER__COOKIE", "open sesame, open sesame");
        finish(command).exits(0)
    };
    let shown = show(&["--origin"]).stdout;
    for line in [
        format!("lease = \"90s\"  # {}:2", file.display()),
        "roles = [\"gpu\"]  # PARKHANG_NODE__ROLES".to_owned(),
        "name = \"gpu-1\"  # --set".to_owned(),
        "heartbeat = \"5s\"  # built in".to_owned(),
        "# cookie: a secret from PARKHANG_CLUSTER__COOKIE".to_owned(),
    ] {
        assert!(shown.lines().any(|shown| shown == line), "{line}\n{shown}");
    }
    assert!(!shown.contains("sesame"));
    assert_eq!(show(&["--json"]).json()["cluster"]["lease"], "90s");
    let origins = show(&["--json", "--origin"]).json();
    assert_eq!(origins["node.name"]["origin"], "--set");
    assert_eq!(origins["cluster.cookie"]["secret"], true);
}

#[test]
fn all_mistakes_are_told_at_once() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("cluster.toml");
    std::fs::write(&file, "[cluster]\nhartbeat = '1s'\nlease = '1s'\n").unwrap();
    let reported = config(
        &["check", "--set", "storage.kind=s3", "--set", "node.roles=king"],
        &file,
    )
    .exits(1);
    for part in [
        "cluster.toml:2: cluster.hartbeat: there is no such key; did you mean cluster.heartbeat?",
        "cluster.toml:3: cluster.heartbeat: must be less than half of cluster.lease, 500ms",
        "--set: node.roles: unknown variant `king`",
        "--set: storage.s3.bucket: required",
    ] {
        assert!(reported.stderr.contains(part), "{part}\n{}", reported.stderr);
    }
    let shown = config(&["show"], &file).exits(1);
    assert!(shown.stderr.contains("cluster.hartbeat"), "{}", shown.stderr);
}

#[test]
fn shells_complete_the_commands() {
    for shell in ["bash", "zsh", "fish"] {
        let script = finish(node(["completions", shell])).exits(0).stdout;
        for word in ["config-file", "origin", "issue", "host"] {
            assert!(script.contains(word), "{shell}: {word}");
        }
    }
}

#[test]
fn every_command_has_a_manual_page() {
    let page = finish(node(["man"])).exits(0).stdout;
    assert!(
        page.contains(".TH node 1") && page.contains("node\\-simulate(1)"),
        "{page}"
    );

    let folder = tempfile::tempdir().unwrap();
    let pages = folder.path().join("man1");
    let mut command = node(["man", "--out"]);
    command.arg(&pages);
    finish(command).exits(0);
    let documented = ["cli.md", "commands.md"].map(|name| {
        let text = std::fs::read_to_string(workspace().join("docs").join(name)).unwrap();
        let names = text.lines().filter_map(|line| {
            line.strip_prefix("##")?
                .split_once(" node")
                .map(|name| name.1.to_owned())
        });
        names.collect::<Vec<_>>()
    });
    let documented = documented.concat();
    assert!(documented.len() > 40, "{documented:?}");
    for name in documented {
        let file = pages.join(format!("node{}.1", name.replace(' ', "-")));
        assert!(file.is_file(), "{}", file.display());
    }
    let create = std::fs::read_to_string(pages.join("node-job-create.1")).unwrap();
    assert!(
        create.contains("\\-\\-priority") && create.contains("\\-\\-config\\-file"),
        "{create}"
    );
}
