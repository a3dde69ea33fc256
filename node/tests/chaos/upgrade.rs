//! Two builds in one cluster.

use std::env;
use std::path::PathBuf;

use crate::cluster::{Cluster, Plan};
use crate::library::SHELF;

/// Program of the build before this one, whose models and schema are those of this one: `scripts/upgrade` builds it.
const PREVIOUS: &str = "PARKHANG_PREVIOUS";

/// One node after the other is stopped while it works, and started with the other build: first all with the later one, then all with the
/// earlier one again. Nothing is lost or charged, and the artifacts are those of one build.
#[tokio::test(flavor = "multi_thread")]
async fn a_cluster_goes_from_one_build_to_the_next_and_back() {
    let Some(previous) = env::var_os(PREVIOUS).map(PathBuf::from) else {
        eprintln!("SKIPPED: {PREVIOUS} names no program of an earlier build");
        return;
    };
    let mut cluster = Cluster::prepare(Plan::full(SHELF)).await;
    cluster.program = Some(previous.clone());
    cluster.start_all().await;
    for program in [None, Some(previous)] {
        cluster.program = program;
        for worker in 0..cluster.workers.len() {
            cluster.create_job(&format!("job-{}", cluster.jobs.len())).await;
            cluster.until_busy(worker).await;
            cluster.replace_worker(worker).await;
        }
        for orchestrator in 0..cluster.orchestrators.len() {
            cluster.create_job(&format!("job-{}", cluster.jobs.len())).await;
            cluster.replace_orchestrator(orchestrator).await;
        }
    }
    eprintln!(
        "{} jobs ran while each node was replaced twice",
        cluster.jobs.len()
    );
    cluster.all_is_well().await;
}

impl Cluster {
    async fn replace_worker(&mut self, place: usize) {
        self.workers[place].process.take().unwrap().leave().await;
        self.start_worker(place, "").await;
    }

    async fn replace_orchestrator(&mut self, place: usize) {
        self.orchestrators[place].process.take().unwrap().leave().await;
        self.start_orchestrator(place, "").await;
    }
}
