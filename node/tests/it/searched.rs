//! Search in documents while a cluster makes them: every orchestrator answers from an index of its own, whoever leads and whoever dies.

use std::collections::BTreeSet;
use std::path::Path;

use parkhang_state::EmbeddedPostgres;
use parkhang_test_support::Wait;
use serde_json::Value;
use sqlx::ConnectOptions;
use tokio::runtime::Runtime;

use crate::api::Api;
use crate::documents::paper;
use crate::nodes::{JOB, Node, OF_A_JOB, Site};
use crate::support::{assert_same_files, finish, node};

const VOLUMES: usize = 8;
const NOWHERE: [&str; 1] = ["127.0.0.1:1"];

/// What a search says of the whole job.
#[derive(Debug, PartialEq, Eq)]
struct Said {
    volumes: usize,
    behind: u64,
    /// Volume and number of each page that was found.
    pages: BTreeSet<(String, u64)>,
}

impl Said {
    fn of(found: &Value) -> Self {
        let page = |hit: &Value| {
            let volume = hit["volume"].as_str().unwrap().to_owned();
            (volume, hit["page"].as_u64().unwrap())
        };
        assert_eq!(found["troubles"], Value::Array(Vec::new()), "{found:#}");
        Self {
            volumes: usize::try_from(found["volumes"].as_u64().unwrap()).unwrap(),
            behind: found["behind"].as_u64().unwrap(),
            pages: found["hits"].as_array().unwrap().iter().map(page).collect(),
        }
    }

    fn is_whole(&self) -> bool {
        (self.volumes, self.behind) == (VOLUMES, 0)
    }
}

/// An orchestrator that keeps its state, its indexes among it, in a folder of its own.
fn orchestrator(site: &Site, state: &str) -> (Node, Api) {
    let folder = site.path(state);
    let process = Node::start_with(site, "orchestrator", &NOWHERE, |command| {
        let setting = format!("node.state_dir={}", folder.display());
        command.arg("--set").arg(setting);
    });
    let token = std::fs::read_to_string(folder.join("api-token")).unwrap();
    let api = Api {
        address: process.api().to_owned(),
        token: token.trim().to_owned(),
    };
    (process, api)
}

fn search(api: &Api, query: &str) -> Said {
    let path = format!("/search?query={query}&job={JOB}&limit=100&wait=true");
    Said::of(&api.get(&path).is(200).json())
}

/// Makes the same documents on this machine alone, and compares.
fn made_as_by_one_process(site: &Site) {
    let out = site.path("alone");
    let mut command = node(["ocr", "--job", JOB, "--pipeline", "documents"]);
    command.args(["--config", "checkpoint_pages=2", "--input-folder"]);
    command.arg(site.path("scans")).arg("--out").arg(&out);
    command.args((0..VOLUMES).map(volume));
    finish(command).exits(0);
    assert_same_files(&site.path("artifacts/jobs"), &out.join("jobs"));
}

fn volume(number: usize) -> String {
    format!("W1-I{number}")
}

fn put_papers(scans: &Path) {
    std::fs::create_dir(scans).unwrap();
    for number in 0..VOLUMES {
        std::fs::copy(paper(), scans.join(format!("{}.pdf", volume(number)))).unwrap();
    }
}

#[test]
fn documents_are_searched_at_any_orchestrator_while_they_are_made_and_others_die() {
    let (runtime, server) = (Runtime::new().unwrap(), EmbeddedPostgres::temporary().unwrap());
    let database = runtime.block_on(server.create_database("cluster")).unwrap();
    let mut site = Site::new();
    let database = database.to_url_lossy().into();
    site.variables.push(("DATABASE_URL", database));
    put_papers(&site.path("scans"));

    let (leader, at_leader) = orchestrator(&site, "state-a");
    let (second, at_second) = orchestrator(&site, "state-b");
    let orchestrators = [leader.address(), second.address()];
    let doomed = Node::start(&site, "cpu,gpu", &orchestrators);
    let _survivor = Node::start(&site, "cpu,gpu", &orchestrators);
    let create = [
        "job",
        "create",
        JOB,
        "--pipeline",
        "documents",
        "--config",
        "max_running=2",
    ];
    finish(site.command(create)).exits(0);

    let first = Wait::until("a document is found where nobody leads")
        .at_most(OF_A_JOB)
        .sees(
            || search(&at_second, "harbour+sediments"),
            |said| !said.pages.is_empty(),
        );
    assert!(
        first.volumes < VOLUMES,
        "the job was over before anybody died: {first:?}"
    );
    let found = search(&at_leader, "harbour+sediments").pages;
    assert!(found.is_superset(&first.pages), "{found:?}");
    leader.kill();
    doomed.kill();

    let mut before = first.pages;
    let whole = Wait::until("all documents are found").at_most(OF_A_JOB).sees(
        || {
            let said = search(&at_second, "harbour+sediments");
            assert!(said.pages.is_superset(&before), "{before:?} before, now {said:?}");
            before.clone_from(&said.pages);
            said
        },
        Said::is_whole,
    );
    finish(site.command(["job", "status", JOB, "--wait"])).exits(0);
    assert!(whole.pages.len() >= VOLUMES, "{whole:?}");

    // One that goes on with the index of the dead, and one that begins its own: what all have merged, each in its order, is the same.
    let (_returned, at_returned) = orchestrator(&site, "state-a");
    let (_newest, at_newest) = orchestrator(&site, "state-c");
    for query in [
        "harbour+sediments",
        "%22friction+velocity%22",
        "mud+that+the+tide+moves&by=meaning",
    ] {
        let said = search(&at_second, query);
        assert!(
            said.is_whole() && said.pages.len() >= VOLUMES,
            "{query}: {said:?}"
        );
        for api in [&at_returned, &at_newest] {
            assert_eq!(search(api, query), said, "{query}");
        }
    }
    made_as_by_one_process(&site);
}
