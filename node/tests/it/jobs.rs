//! Jobs steered from the command line, with nodes there to run them and without.

use std::os::unix::fs::{MetadataExt, PermissionsExt};

use parkhang_store::artifact::ArtifactLayout;
use parkhang_test_support::Wait;
use serde_json::{Value, json};

use crate::nodes::{JOB, Node, Site};
use crate::support::{Finished, finish, node, small_page};

/// A database of its own, and scans of two volumes.
struct Office {
    folder: tempfile::TempDir,
}

impl Office {
    fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        // The private Postgres may run as another user, who must come through here.
        std::fs::set_permissions(folder.path(), PermissionsExt::from_mode(0o755)).unwrap();
        for volume in ["W1-I1", "W1-I2"] {
            let scans = folder.path().join("scans").join(volume);
            std::fs::create_dir_all(&scans).unwrap();
            std::fs::write(scans.join("page.tif"), small_page()).unwrap();
        }
        Self { folder }
    }

    fn job(&self, arguments: &[&str]) -> Finished {
        self.run("job", arguments)
    }

    fn run(&self, command: &str, arguments: &[&str]) -> Finished {
        let path = |name: &str| self.folder.path().join(name).display().to_string();
        let mut command = node([command]);
        command.current_dir(self.folder.path()).args(arguments);
        command
            .arg("--set")
            .arg(format!("node.state_dir={}", path("state")));
        // Not the usual one, where somebody's own cluster may be.
        command.args(["--set", "cluster.orchestrators=127.0.0.1:1"]);
        command
            .arg("--set")
            .arg(format!("pages.folder={}", path("scans")));
        finish(command)
    }

    #[track_caller]
    fn refused(&self, arguments: &[&str], reason: &str) {
        self.refused_run("job", arguments, reason);
    }

    #[track_caller]
    fn refused_run(&self, command: &str, arguments: &[&str], reason: &str) {
        let refused = self.run(command, arguments).exits(1);
        assert!(refused.stderr.contains(reason), "{}", refused.stderr);
    }
}

fn fields(value: &Value, names: &[&str]) -> Value {
    names.iter().map(|name| value[*name].clone()).collect()
}

/// Rows: F1, F3.
#[test]
fn a_job_is_steered_from_the_command_line() {
    let office = Office::new();
    let created = office
        .job(&[
            "create",
            "press",
            "--priority",
            "-2",
            "--max-running",
            "3",
            "--json",
        ])
        .exits(0)
        .json();
    let reported = ["job", "status", "priority", "max_running", "volumes", "done"];
    assert_eq!(
        fields(&created, &reported),
        json!(["press", "running", -2, 3, 2, 0])
    );

    let paused = office.job(&["pause", "press"]).exits(0);
    assert_eq!(paused.stdout, "press: paused, priority -2\n");
    let raised = office.job(&["priority", "press", "7", "--json"]).exits(0).json();
    assert_eq!(fields(&raised, &reported), json!(["press", "paused", 7, 3, 2, 0]));
    let limits = office
        .job(&["limits", "press", "retries=5", "max_running=0"])
        .exits(0);
    assert!(limits.stdout.contains("\nmax_running = 0\n"), "{}", limits.stdout);
    let limits = office.job(&["limits", "press", "--json"]).exits(0).json();
    assert_eq!(fields(&limits, &["retries", "priority"]), json!([5, 7]));
    let listed = office.job(&["list", "--json"]).exits(0).json();
    assert_eq!(
        fields(&listed["jobs"][0], &reported),
        json!(["press", "paused", 7, 0, 2, 0])
    );
    assert_eq!(listed["jobs"].as_array().unwrap().len(), 1);

    let whole = office
        .job(&[
            "rerun",
            "press",
            "--from",
            "line_detection",
            "--volume",
            "*-I2",
            "--force",
            "--json",
        ])
        .exits(0)
        .json();
    assert_eq!(
        whole,
        json!({
            "job": "press",
            "from": "line_detection",
            "force": true,
            "dry_run": false,
            "number": 1,
            "volumes": ["W1-I2"],
            "not_reached_number": 0,
            "not_reached": [],
        })
    );
    let early = office
        .job(&["rerun", "press", "--from", "ocr", "--dry-run"])
        .exits(0);
    assert_eq!(
        early.stdout,
        "0 volumes would go back to ocr\n2 have not reached it yet and will run it anyway\n"
    );

    let resumed = office.job(&["resume", "press", "--json"]).exits(0).json();
    assert_eq!(resumed["status"], "running");
    let cancelled = office.job(&["cancel", "press"]).exits(0);
    assert_eq!(cancelled.stdout, "press: cancelled, priority 7\n");
    let status = office.job(&["status", "press", "--json"]).exits(1).json();
    assert_eq!(
        fields(&status, &reported),
        json!(["press", "cancelled", 7, 0, 2, 0])
    );
    let listed = office.run("tasks", &["list", "press", "--json"]).exits(0).json();
    assert_eq!(
        fields(&listed["tasks"][1], &["volume", "words"]),
        json!(["W1-I2", "cancelled"])
    );
}

#[test]
fn a_standing_job_begins_with_what_is_named_and_ends_when_it_is_closed() {
    let office = Office::new();
    let created = office.job(&["create", "press", "--standing"]).exits(0);
    assert_eq!(created.stdout, "press: 0 volumes\n");
    let named = office
        .job(&["create", "shelf", "--standing", "--volume", "W1-I2", "--json"])
        .exits(0)
        .json();
    let reported = ["status", "standing", "volumes"];
    assert_eq!(fields(&named, &reported), json!(["running", true, 1]));
    let status = office.job(&["status", "press"]).exits(0).stdout;
    assert!(status.starts_with("job press: running, standing\n"), "{status}");
    let listed = office.job(&["list"]).exits(0).stdout;
    assert!(listed.contains("running, standing"), "{listed}");
    let closed = office.job(&["close", "press", "--json"]).exits(0).json();
    assert_eq!(fields(&closed, &reported), json!(["running", false, 0]));
    office.job(&["cancel", "shelf"]).exits(0);
    office.refused(&["close", "shelf"], "a job that is cancelled cannot be closed");
}

/// Rows: F3.
#[test]
fn a_job_is_shown_updated_and_deleted() {
    let office = Office::new();
    office
        .job(&["create", "press", "--config", "k_factor=2"])
        .exits(0);
    let updated = office
        .job(&[
            "update",
            "press",
            "k_factor=2.5",
            "--text",
            "{\"decoder\": \"greedy\"}",
            "--json",
        ])
        .exits(0)
        .json();
    assert_eq!(
        updated,
        json!({
            "job": "press",
            "changed": {
                "decoder": { "before": "beam", "after": "greedy" },
                "k_factor": { "before": 2.0, "after": 2.5 },
            },
            "stale": ["line_extraction", "ocr", "reduce"],
            "advice": "node job rerun press --from line_extraction",
        })
    );
    let config = office.job(&["config", "press", "--json"]).exits(0).json();
    assert_eq!(config["config"]["k_factor"], 2.5);
    assert_eq!(config["config"]["decoder"], "greedy");
    office.refused(&["update", "press", "k_factor=99"], "k_factor must be 0.1 to 10");
    office.refused(
        &["update", "press", "layout=bdrc_v1"],
        "layout holds for as long as the job is there",
    );

    office.refused(
        &["delete", "press", "--yes"],
        "a job that is running cannot be deleted; cancel it first: node job cancel press",
    );
    office.job(&["cancel", "press"]).exits(0);
    office.refused(
        &["update", "press", "k_factor=3"],
        "a job that is cancelled cannot be updated",
    );
    office.refused(&["delete", "press"], "--yes confirms it");
    let deleted = office.job(&["delete", "press", "--yes"]).exits(0);
    assert_eq!(deleted.stdout, "press: 2 volumes deleted\n");
    office.refused(&["status", "press"], "there is no job press");
    office.job(&["create", "press"]).exits(0);
}

#[test]
fn what_cannot_be_done_to_a_job_is_refused_with_the_reason() {
    let office = Office::new();
    let first = office.job(&["create", "press"]).exits(0).stderr;
    let (folder, reported) = (
        office.folder.path().display(),
        "using built-in defaults: no cluster.toml in",
    );
    assert!(
        first.contains(&format!(
            "{reported} {folder}; new private database in {folder}/state/pg\n"
        )),
        "{first}"
    );
    let second = office.job(&["list"]).exits(0).stderr;
    assert_eq!(second, "", "the database is known");
    office.refused(&["create", "press"], "job press exists already");
    office.refused(&["pause", "nobody"], "there is no job nobody");
    office.refused(&["limits", "press", "k_factor=2"], "k_factor cannot be changed while the job runs: pause the job (job pause), then change it (job update)");
    office.refused(
        &["limits", "press", "k_facto=2"],
        "there is no limit k_facto; limits are priority",
    );
    office.refused(
        &["limits", "press", "max_running=few"],
        "max_running must be a whole number, 0 or more, not few",
    );
    office.refused(
        &["create", "scanless", "--input-folder="],
        "no scans are configured: in cluster.toml set `folder` of [pages]",
    );
    office.refused(
        &["limits", "press", "max_attempts=0"],
        "max_attempts must be 1 to 100",
    );
    office.refused(
        &["rerun", "press", "--from", "proofs"],
        "no stage proofs; its stages are line_detection",
    );
    let elsewhere = ["rerun", "press", "--from", "ocr", "--volume", "W9-*"];
    office.refused(&elsewhere, "job press has no volume W9-*");
    office.job(&["cancel", "press"]).exits(0);
    office.refused(&["resume", "press"], "a job that is cancelled cannot be resumed");
    let unknown = office
        .job(&["rerun", "press", "--from", "ocr", "--error", "weather"])
        .exits(2);
    assert!(
        unknown.stderr.contains("must be one of input, config"),
        "{}",
        unknown.stderr
    );
}

/// Rows: F8.
#[test]
fn the_volumes_of_a_job_are_read_from_a_list() {
    let office = Office::new();
    let list = office.folder.path().join("volumes.txt");
    let list_of = |text: &str| std::fs::write(&list, text).unwrap();
    let create = ["create", "press", "--volumes-from", "volumes.txt"];
    list_of("# all\nW1,I1\nW1/I2\n");
    office.refused(
        &create,
        "volumes.txt: lines that name no volume:\n  line 3: \"W1/I2\" is not",
    );
    list_of("W1-I1\nW1-I9\n");
    office.refused(
        &create,
        "1 of 2 volumes cannot be read:\n  volume W1-I9 is not in this source",
    );
    list_of("W1-I2  # the second\n\n");
    assert_eq!(office.job(&create).exits(0).stdout, "press: 1 volume\n");
    let listed = office.run("tasks", &["list", "press", "--json"]).exits(0).json();
    assert_eq!(listed["tasks"][0]["volume"], "W1-I2");
}

/// Rows: 75, 120, 167, 249.
#[test]
fn a_job_that_nobody_works_on_says_who_is_missing() {
    let site = Site::with_volumes(1, 1);
    finish(site.command(["job", "create", JOB])).exits(0);
    let status = || finish(site.command(["job", "status", JOB])).exits(0).stdout;
    let leader_gone = status();
    let waiting = "job press: running\n       1  waiting for line_detection\n";
    assert!(leader_gone.starts_with(waiting), "{leader_gone}");
    assert!(
        leader_gone.contains("`node --role orchestrator` starts one"),
        "{leader_gone}"
    );

    let orchestrator = Node::start(&site, "orchestrator", &["127.0.0.1:1"]);
    let gpu = "no node that is there runs line_detection; `node --role gpu` starts one";
    Wait::until("a node with a device is missed").sees(status, |status| status.contains(gpu));
    let _gpu = Node::start(&site, "gpu", &[orchestrator.address()]);
    let cpu = "no node that is there runs line_extraction; `node --role cpu` starts one";
    Wait::until("a node with processors is missed").sees(status, |status| status.contains(cpu));
    let _cpu = Node::start(&site, "cpu", &[orchestrator.address()]);
    let done = finish(site.command(["job", "status", JOB, "--wait"])).exits(0);
    assert_eq!(done.stdout, "job press: completed\n       1  done\n");
}

#[test]
fn what_a_job_does_not_have_is_not_exported() {
    let office = Office::new();
    office.job(&["create", "press"]).exits(0);
    let refused = |arguments: &[&str], reason| {
        let arguments = [&["--to", "exported"], arguments].concat();
        office.refused_run("export", &arguments, reason);
    };
    refused(&["--job", "press"], "job press has no text yet");
    refused(
        &["--job", "press", "--volume", "W1-I9"],
        "job press has no volume W1-I9",
    );
    refused(&["--job", "nobody"], "there is no job nobody");
    refused(&["--job", "press", "--shards"], "press");
    let nowhere = office.run("export", &["--job", "press"]).exits(2);
    assert!(nowhere.stderr.contains("--to <DIR>"), "{}", nowhere.stderr);
}

/// Where a file lies on the disk, and what is in it.
fn recognised(site: &Site, job: &str) -> (u64, Vec<u8>) {
    let layout = ArtifactLayout::bdrc_v2(&job.parse().unwrap()).volume(&"W1-I0".parse().unwrap());
    let table = site.path("artifacts").join(layout.ocr_results().as_str());
    let inode = std::fs::metadata(&table).unwrap().ino();
    (inode, std::fs::read(table).unwrap())
}

/// Rows: F10.
#[test]
fn running_work_is_stopped_and_finished_work_done_again() {
    let site = Site::with_volumes(2, 3);
    let orchestrator = Node::start(&site, "orchestrator", &["127.0.0.1:1"]);
    let _worker = Node::start(&site, "cpu,gpu", &[orchestrator.address()]);
    let ask = |arguments: [&str; 4]| finish(site.command(arguments)).exits(0);
    ask(["job", "create", "unwanted", "--json"]);
    Wait::until("a stage runs").sees(
        || ask(["job", "status", "unwanted", "--json"]).json(),
        |status| status["running"] != 0,
    );
    let cancelled = finish(site.command(["job", "cancel", "unwanted", "--wait", "--json"]));
    let cancelled = cancelled.exits(0).json();
    assert_eq!(
        fields(&cancelled, &["status", "running"]),
        json!(["cancelled", 0])
    );
    assert!(cancelled["finished_at"].is_string(), "{cancelled:#}");

    ask(["job", "create", "press", "--json"]);
    ask(["job", "status", "press", "--wait"]);
    let made = recognised(&site, "press");
    let rerun = |force: &str| {
        let again = [
            "job",
            "rerun",
            "press",
            "--from",
            "line_extraction",
            force,
            "--json",
        ];
        let answer = finish(site.command(again)).exits(0).json();
        assert_eq!(answer["volumes"], json!(["W1-I0", "W1-I1"]));
        ask(["job", "status", "press", "--wait"]);
        recognised(&site, "press")
    };
    assert_eq!(rerun("--volume=*"), made, "what stands is not touched");
    let (inode, table) = rerun("--force");
    assert_ne!(inode, made.0, "it was made again");
    assert!(table == made.1, "and came out the same");

    let retry = |options: &[&str]| {
        let words = [&["tasks", "retry", "press", "W1-I0", "--from", "ocr"], options].concat();
        let reported = finish(site.command_of(&words)).exits(0).stdout;
        ask(["job", "status", "press", "--wait"]);
        (reported, recognised(&site, "press").0)
    };
    let (reported, kept) = retry(&[]);
    assert!(
        reported.contains("are kept (--force recomputes them)"),
        "{reported}"
    );
    assert_eq!(kept, inode, "what stands is not touched");
    let runs = ask(["tasks", "show", "press", "W1-I0"]).stdout;
    assert!(runs.contains(" 3 kept "), "{runs}");
    let (reported, forced) = retry(&["--force"]);
    assert!(!reported.contains("kept"), "{reported}");
    assert_ne!(forced, inode, "it was made again");
}

/// Rows: 118, F11, F37.
#[test]
fn a_job_tells_why_a_volume_failed_and_reads_it_once_it_is_mended() {
    let site = Site::with_volumes(2, 1);
    let scan = site.path("scans/W1-I1/page00.tif");
    std::fs::write(&scan, &small_page()[..300]).unwrap();
    let orchestrator = Node::start(&site, "orchestrator", &["127.0.0.1:1"]);
    let _worker = Node::start(&site, "cpu,gpu", &[orchestrator.address()]);
    let mut create = site.command(["job", "create", JOB]);
    create.args(["--config", "on_item_error=fail"]);
    finish(create).exits(0);

    let reported = ["status", "done", "failed"];
    let status = finish(site.command(["job", "status", JOB, "--wait", "--json"]));
    let status = status.exits(1).json();
    assert_eq!(fields(&status, &reported), json!(["failed", 1, 1]));
    let cause = status["failures"][0].as_str().unwrap();
    assert!(
        cause.starts_with("1 at line_detection: ") && cause.ends_with(" (W1-I1)"),
        "{cause}"
    );
    let errors = finish(site.command(["job", "errors", JOB, "--json"]));
    let group = &errors.exits(0).json()["groups"][0];
    assert_eq!(
        fields(group, &["category", "terminal", "volumes"]),
        json!(["input", 1, ["W1-I1"]])
    );
    let why = finish(site.command(["tasks", "why", JOB, "W1-I1", "--json"]));
    let why = why.exits(0).json();
    assert_eq!(why["blocker"], "failed");
    let advice = why["advice"].as_str().unwrap();
    assert!(
        advice.ends_with("job rerun press --from line_detection --status failed"),
        "{advice}"
    );

    std::fs::write(&scan, small_page()).unwrap();
    let mut rerun = site.command(["job", "rerun", JOB, "--from", "line_detection"]);
    rerun.args(["--status", "failed"]);
    assert_eq!(
        finish(rerun).exits(0).stdout,
        "1 volume goes back to line_detection\n"
    );
    let status = finish(site.command(["job", "status", JOB, "--wait", "--json"]));
    assert_eq!(
        fields(&status.exits(0).json(), &reported),
        json!(["completed", 2, 0])
    );
}
