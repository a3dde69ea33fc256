//! Nodes that take their work themselves: processes that meet in the database alone, or in the storage alone.

use parkhang_test_support::Wait;
use serde_json::{Value, json};

use crate::nodes::{JOB, Node, Site, assert_exports, assert_finished, runs_at, undisturbed};
use crate::support::{assert_same_files, files, finish};

/// Rows: F36.
#[test]
fn a_job_survives_the_death_of_a_node_without_an_orchestrator() {
    let site = Site::with_volumes(2, 4);
    let start = |role| {
        Node::start_with(&site, role, &[], |command| {
            command.args(["--source", "postgres", "--set", "source.poll=500ms"]);
        })
    };
    let doomed = start("cpu,gpu");
    let created = finish(site.command(["job", "create", JOB])).exits(0);
    assert_eq!(created.stdout, "press: 2 volumes\n");
    Wait::until("a stage runs on the node that will die")
        .sees(|| site.tasks(), |tasks| runs_at(tasks, doomed.name()));
    let doomed_name = doomed.name().to_owned();
    doomed.kill();
    // Nodes of a single kind of hardware do together what the other did alone.
    let survivors = ["gpu", "cpu"].map(start);
    Wait::until("a stage runs on a node that is left").sees(
        || site.tasks(),
        |tasks| survivors.iter().any(|node| runs_at(tasks, node.name())),
    );
    let nodes = || {
        let listed = finish(site.command(["nodes", "list", "--json"])).exits(0).json();
        listed["nodes"].as_array().unwrap().clone()
    };
    for (node, role) in survivors.iter().zip(["gpu", "cpu"]) {
        // The other one may still be starting its stages.
        let works = |listed: &Value| {
            (&listed["name"], &listed["state"], &listed["roles"])
                == (&json!(node.name()), &json!("joined"), &json!([role]))
                && listed["workers"]
                    .as_array()
                    .is_some_and(|workers| !workers.is_empty())
        };
        Wait::until("a node that is left is listed with its workers")
            .sees(nodes, |nodes| nodes.iter().any(works));
    }
    assert_finished(&site, &undisturbed(&site));
    let is_lost = |listed: &Value| listed["name"] == doomed_name && listed["state"] == "lost";
    Wait::until("the dead node is listed as lost").sees(nodes, |nodes| nodes.iter().any(is_lost));
}

/// Rows: 102.
#[test]
fn jobs_of_shards_are_made_and_ordered_about() {
    let site = Site::with_volumes(1, 1);
    let refused = finish(site.command(["shards", "create", JOB, "--size", "1048577"])).exits(2);
    assert!(
        refused.stderr.contains("from 1 to 1048576 volumes"),
        "{}",
        refused.stderr
    );
    let created = finish(site.command(["shards", "create", JOB])).exits(0);
    assert_eq!(created.stdout, "press: 1 volume in 1 shard\n");
    let created = finish(site.command(["shards", "create", "other", "--json"])).exits(0);
    assert_eq!(
        created.json(),
        json!({ "job": "other", "volumes": 1, "shards": 1 })
    );

    let paused = finish(site.command(["shards", "pause", JOB])).exits(0);
    assert_eq!(paused.stdout, "press: paused\n");
    let status = finish(site.command(["shards", "status", JOB])).exits(0);
    assert!(
        status
            .stdout
            .starts_with("job press (paused): 0 of 1 shard finished\n"),
        "{}",
        status.stdout
    );
    let resumed = finish(site.command(["shards", "resume", JOB, "--json"])).exits(0);
    assert_eq!(resumed.json(), json!({ "job": JOB, "status": "running" }));
    finish(site.command(["shards", "cancel", JOB])).exits(0);
    let refused = finish(site.command(["shards", "resume", JOB])).exits(1);
    assert!(
        refused
            .stderr
            .contains("a job that is cancelled cannot be resumed"),
        "{}",
        refused.stderr
    );
    finish(site.command(["shards", "cancel", "nowhere"])).exits(1);

    let listed = finish(site.command(["shards", "list", "--json"])).exits(0).json();
    let jobs = listed["jobs"].as_array().unwrap().iter();
    let jobs: Vec<_> = jobs
        .map(|job| (&job["job"], &job["status"], &job["volumes"]))
        .collect();
    assert_eq!(
        jobs,
        [
            (&json!("other"), &json!("running"), &json!(1)),
            (&json!(JOB), &json!("cancelled"), &json!(1))
        ]
    );
    let over = finish(site.command(["shards", "status", JOB, "--wait"])).exits(0);
    assert!(
        over.stdout.starts_with("job press (cancelled)"),
        "{}",
        over.stdout
    );

    let nameless = finish(site.command(["--role", "cpu", "--source", "shards"])).exits(1);
    assert!(nameless.stderr.contains("--job NAME"), "{}", nameless.stderr);
}

/// Rows: 96, 97, 98, 99, 102.
#[test]
fn a_job_of_shards_becomes_one_of_the_database() {
    let site = Site::with_volumes(3, 1);
    finish(site.command(["shards", "create", JOB, "--size", "2"])).exits(0);
    let import = ["shards", "import", JOB, "--chunk-size", "1"];
    let imported = finish(site.command(import)).exits(0);
    assert_eq!(
        imported.stdout,
        "press: 3 volumes of 2 shards; the job in the artifact store is paused\n"
    );
    let status = finish(site.command(["job", "status", JOB, "--json"]))
        .exits(0)
        .json();
    assert_eq!(
        (&status["status"], &status["volumes"]),
        (&json!("running"), &json!(3))
    );
    let listed = finish(site.command(["shards", "list"])).exits(0).stdout;
    assert!(listed.contains("paused"), "{listed}");
    let refused = finish(site.command(import)).exits(1);
    assert!(
        refused.stderr.contains("job press is in the database already"),
        "{}",
        refused.stderr
    );
    finish(site.command(["shards", "import", "nowhere"])).exits(1);
    let shard = site.path("artifacts/manifests/jobs/cut/shards/shard-00000.jsonl");
    finish(site.command(["shards", "create", "cut"])).exits(0);
    std::fs::write(shard, "{\"volume_id\":\"W1-I0\"}\n").unwrap();
    let refused = finish(site.command(["shards", "import", "cut"])).exits(1);
    assert!(
        refused
            .stderr
            .contains("shard-00000.jsonl cannot be read: it is not the one that the job was made with"),
        "{}",
        refused.stderr
    );
    // A job that was made before there were digests.
    let manifest = site.path("artifacts/manifests/jobs/cut/job.json");
    let mut older: Value = serde_json::from_slice(&std::fs::read(&manifest).unwrap()).unwrap();
    older.as_object_mut().unwrap().remove("shards_sha256").unwrap();
    std::fs::write(manifest, older.to_string()).unwrap();
    let refused = finish(site.command(["shards", "import", "cut"])).exits(1);
    assert!(
        refused
            .stderr
            .contains("3 volumes by its job.json, and 1 in its shards"),
        "{}",
        refused.stderr
    );
}

/// Rows: 102, 138.
#[test]
fn a_job_survives_the_death_of_a_node_without_a_database() {
    let site = Site::with_volumes(2, 4);
    let created = finish(site.command(["shards", "create", JOB, "--size", "1"])).exits(0);
    assert_eq!(created.stdout, "press: 2 volumes in 2 shards\n");
    finish(site.command(["shards", "create", JOB])).exits(1);

    let start = || {
        Node::start_with(&site, "cpu,gpu", &[], |command| {
            command.args(["--source", "shards", "--job", JOB, "--set", "source.poll=500ms"]);
        })
    };
    let doomed = start();
    let manifests = site.path("artifacts/manifests/jobs").join(JOB);
    let records = || {
        let folder = manifests.join("tasks");
        if !folder.is_dir() {
            return Vec::new();
        }
        files(&folder)
            .into_values()
            .map(|record| String::from_utf8_lossy(&record).into_owned())
            .collect()
    };
    let name = |records: &Vec<String>, node: &Node| records.iter().any(|record| record.contains(node.name()));
    Wait::until("a stage runs on the node that will die").sees(records, |records| name(records, &doomed));
    doomed.kill();
    let survivor = start();
    Wait::until("a stage runs on the node that is left").sees(records, |records| name(records, &survivor));
    let status = finish(site.command(["shards", "status", JOB, "--wait", "--json"]))
        .exits(0)
        .json();
    assert_eq!(status["finished"], true, "{status:#}");
    assert_eq!(status["volumes"]["done"], 2, "{status:#}");
    let result = undisturbed(&site);
    assert_same_files(&site.path("artifacts/jobs"), &result.join("jobs"));
    assert_exports(&site, &["--shards"], &result);
    assert!(!site.path("state/pg").exists(), "no database was started");
}
