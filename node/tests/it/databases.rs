//! Which database commands ask, and that none begins one which no orchestrator reads.

use std::net::TcpListener;

use serde_json::json;

use crate::nodes::{JOB, Site};
use crate::support::{Finished, finish};

fn run(site: &Site, line: &str, orchestrators: &str) -> Finished {
    let words: Vec<&str> = line.split(' ').collect();
    let mut command = site.command_of(&words);
    command.args(["--set", &format!("cluster.orchestrators={orchestrators}")]);
    finish(command)
}

#[test]
fn a_question_before_there_is_a_database_says_so_and_begins_none() {
    let site = Site::with_volumes(1, 1);
    for line in [
        "job list",
        "nodes list",
        "job pause press",
        "export --job press --to out",
    ] {
        let reported = run(&site, line, "127.0.0.1:1").exits(1).stderr;
        for said in [
            "no database here yet: none in",
            "node --role orchestrator begins one",
            "--config-file",
        ] {
            assert!(reported.contains(said), "{line}: {reported}");
        }
    }
    assert!(!site.path("state/pg").exists());

    run(&site, "job create press", "127.0.0.1:1").exits(0);
    let listed = run(&site, "job list --json", "127.0.0.1:1").exits(0).json();
    assert_eq!(listed["jobs"][0]["job"], json!(JOB));
    let reported = run(&site, "job status nobody", "127.0.0.1:1").exits(1).stderr;
    let place = format!("in the private database in {}", site.path("state/pg").display());
    assert!(
        reported.contains(&format!("there is no job nobody {place}")),
        "{reported}"
    );
}

#[test]
fn no_command_begins_a_database_beside_that_of_the_orchestrators() {
    let site = Site::with_volumes(1, 1);
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let living = listener.local_addr().unwrap().to_string();
    for orchestrators in [living.as_str(), "orch.invalid:7400"] {
        for line in ["job create press", "job list"] {
            let reported = run(&site, line, orchestrators).exits(1).stderr;
            for said in [orchestrators, "--server URL", "PARKHANG_CONFIG", "DATABASE_URL"] {
                assert!(reported.contains(said), "{line}: {reported}");
            }
        }
    }
    assert!(!site.path("state/pg").exists());

    run(&site, "job create press", "127.0.0.1:1").exits(0);
    let reported = run(&site, "job list", &living).exits(0).stderr;
    assert!(
        reported.contains("nobody leads in the private database"),
        "{reported}"
    );
}
