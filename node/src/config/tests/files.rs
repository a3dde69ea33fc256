//! Tests of the checks of files and folders.

use super::*;

#[test]
fn a_check_tells_of_a_folder_without_scans() {
    let folder = tempfile::tempdir().unwrap();
    let scans = format!("pages.folder={}", folder.path().display());
    let fit = |flags: &[&str]| load(None, &[COOKIE], flags).fit_to_work().map(drop);
    load(None, &[COOKIE], &[&scans]).fit_to_start().unwrap();
    let told = fit(&[&scans]).unwrap_err().0[0].to_string();
    assert!(told.starts_with("--set: pages.folder: "), "{told}");
    assert!(told.contains("holds no page images"), "{told}");
    let told = fit(&[&scans, "pages.kind=bdrc"]).unwrap_err().0[0].to_string();
    assert!(told.contains("has no folder Works"), "{told}");
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
    let told = fit(&[missing]).unwrap_err().0[0].to_string();
    assert_eq!(told, "--set: pages.folder: /nowhere/at/all does not exist");
    fit(&[missing, "node.roles=orchestrator"]).unwrap();
    load(None, &[], &[missing]).validated().unwrap();
    fit(&["pages.folder=/"]).unwrap();
}

#[test]
fn a_file_where_a_folder_belongs_is_refused() {
    let desk = Desk::new();
    let file = desk.write("file", 0o644, "");
    let problem = the_problem(&[&format!("node.state_dir={}", file.display())]);
    assert!(problem.contains("is not a folder"), "{problem}");
}

#[test]
fn an_orchestrator_must_find_its_tokens_and_others_need_not() {
    let desk = Desk::new();
    let missing = desk.0.path().join("none");
    let digest = "0".repeat(64);
    let bad = desk.write("bad", 0o600, &format!("eva read {digest}\notto chief {digest}\n"));
    let good = desk.write("good", 0o600, &format!("eva read {digest}\n"));
    let flag = |path: &Path| format!("api.tokens_file={}", path.display());
    let fit = |flags: &[&str]| load(None, &[COOKIE], flags).fit_to_start().map(drop);
    let told = |path: &Path| {
        let loaded = load(None, &[COOKIE], &[&flag(path)]);
        loaded.fit_to_work().unwrap_err().0[0].to_string()
    };
    let none = told(&missing);
    assert!(none.starts_with("--set: api.tokens_file: cannot read "), "{none}");
    let chief = told(&bad);
    assert!(
        chief.contains("line 2: chief is no role; there are read, operate and admin"),
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
    let told = fit(&["node.roles=gpu"]).unwrap_err().0[0].to_string();
    assert!(
        told.starts_with("--set: cluster.cookie_file: needed: a secret that all nodes"),
        "{told}"
    );
    fit(&["node.roles=gpu", "source.kind=postgres"]).unwrap();
    let unread = fit(&["cluster.cookie_file=/nowhere/at/all"]).unwrap_err().0;
    assert_eq!(unread.len(), 1, "{unread:?}");
}
