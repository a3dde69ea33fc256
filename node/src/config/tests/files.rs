//! Tests of the checks of files and folders.

use std::os::unix::fs::PermissionsExt;

use super::*;

#[test]
fn a_check_tells_of_a_folder_without_scans() {
    let folder = tempfile::tempdir().unwrap();
    let scans = format!("pages.folder={}", folder.path().display());
    let fit = |flags: &[&str]| load(None, &[COOKIE], flags).fit_to_work().map(drop);
    load(None, &[COOKIE], &[&scans]).fit_to_start().unwrap();
    let message = fit(&[&scans]).unwrap_err().0[0].to_string();
    assert!(message.starts_with("--set: pages.folder: "), "{message}");
    assert!(message.contains("holds no page images"), "{message}");
    let message = fit(&[&scans, "pages.kind=bdrc"]).unwrap_err().0[0].to_string();
    assert!(message.contains("has no folder Works"), "{message}");
    std::fs::create_dir_all(folder.path().join("Works/60")).unwrap();
    fit(&[&scans, "pages.kind=bdrc"]).unwrap();
    std::fs::write(folder.path().join("1.tif"), "scan").unwrap();
    fit(&[&scans]).unwrap();
    fit(&[]).unwrap();
}

#[test]
fn a_node_that_reads_scans_must_find_them_and_others_need_not() {
    let fit = |flags: &[&str]| load(None, &[COOKIE], flags).fit_to_start().map(drop);
    let missing = "pages.folder=/nowhere/at/all";
    let message = fit(&[missing]).unwrap_err().0[0].to_string();
    assert_eq!(message, "--set: pages.folder: /nowhere/at/all does not exist");
    fit(&[missing, "node.roles=orchestrator"]).unwrap();
    load(None, &[], &[missing]).validated().unwrap();
    fit(&["pages.folder=/"]).unwrap();
}

#[test]
fn a_file_where_a_folder_belongs_is_refused() {
    let fixture = Fixture::new();
    let file = fixture.write("file", 0o644, "");
    let problem = the_problem(&[&format!("node.state_dir={}", file.display())]);
    assert!(problem.contains("is not a folder"), "{problem}");
}

#[test]
fn an_orchestrator_must_find_its_tokens_and_others_need_not() {
    let fixture = Fixture::new();
    let missing = fixture.0.path().join("none");
    let digest = "0".repeat(64);
    let bad = fixture.write("bad", 0o600, &format!("eva read {digest}\notto chief {digest}\n"));
    let good = fixture.write("good", 0o600, &format!("eva read {digest}\n"));
    let flag = |path: &Path| format!("api.tokens_file={}", path.display());
    let fit = |flags: &[&str]| load(None, &[COOKIE], flags).fit_to_start().map(drop);
    let message = |path: &Path| {
        let loaded = load(None, &[COOKIE], &[&flag(path)]);
        loaded.fit_to_work().unwrap_err().0[0].to_string()
    };
    let none = message(&missing);
    assert!(none.starts_with("--set: api.tokens_file: cannot read "), "{none}");
    let chief = message(&bad);
    assert!(
        chief.contains("line 2: chief is no role; there are read, edit, operate and admin"),
        "{chief}"
    );
    fit(&[&flag(&missing)]).unwrap_err();
    fit(&[&flag(&good)]).unwrap();
    fit(&[&flag(&missing), "node.roles=cpu,gpu"]).unwrap();
    load(None, &[], &[&flag(&missing)]).validated().unwrap();
}

#[test]
fn a_node_that_meets_others_needs_the_secret_that_they_share() {
    let fit = |flags: &[&str]| load(None, &[], flags).fit_to_start().map(drop);
    let message = fit(&["node.roles=gpu"]).unwrap_err().0[0].to_string();
    assert!(
        message.starts_with("--set: cluster.cookie_file: required: a secret that all nodes"),
        "{message}"
    );
    fit(&["node.roles=gpu", "source.kind=postgres"]).unwrap();
    let unread = fit(&["cluster.cookie_file=/nowhere/at/all"]).unwrap_err().0;
    assert_eq!(unread.len(), 1, "{unread:?}");
}

#[test]
fn nobody_else_may_change_the_tokens() {
    let fixture = Fixture::new();
    let fit = |mode| {
        let tokens = fixture.write("tokens", mode, "");
        let flag = format!("api.tokens_file={}", tokens.display());
        load(None, &[COOKIE], &[&flag]).fit_to_start().map(drop)
    };
    let message = fit(0o666).unwrap_err().0[0].to_string();
    assert!(message.starts_with("--set: api.tokens_file: "), "{message}");
    assert!(
        message.contains("all users may change this file (mode 666)"),
        "{message}"
    );
    fit(0o664).unwrap();
    fit(0o644).unwrap();
    let folder = fixture.write("tokens", 0o600, "");
    let folder = folder.parent().unwrap();
    let of_folder = |mode| std::fs::set_permissions(folder, PermissionsExt::from_mode(mode)).unwrap();
    of_folder(0o777);
    let message = fit(0o600).unwrap_err().0[0].to_string();
    assert!(message.contains("all users may replace this file"), "{message}");
    of_folder(0o1777);
    fit(0o600).unwrap();
}
