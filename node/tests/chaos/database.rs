use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;

use crate::cluster::{Cluster, Plan};
use crate::library::SHELF;

/// Postgres goes down in immediate mode, as in a crash, and comes back.
/// Rows: F23.
#[tokio::test(flavor = "multi_thread")]
async fn postgres_crashes_and_recovers() {
    let mut cluster = Cluster::start(Plan::full(SHELF)).await;
    cluster.create_jobs().await;
    cluster.until_busy(0).await;
    let down = cluster.journal.end();
    let file = cluster.postgres_folder().join("data/postmaster.pid");
    let text = std::fs::read_to_string(file).unwrap();
    let server: i32 = text.lines().next().unwrap().parse().unwrap();
    kill(Pid::from_raw(server), Signal::SIGQUIT).unwrap();
    cluster
        .until("Postgres is down", async |_| {
            !std::path::Path::new(&format!("/proc/{server}")).exists()
        })
        .await;
    cluster
        .until_said(down, "cannot campaign for the leadership now")
        .await;
    cluster.reopen_postgres().await;
    cluster.until_said(down, "this process leads").await;
    for orchestrator in &mut cluster.orchestrators {
        let process = orchestrator.process.as_mut().unwrap();
        assert!(!process.has_ended(), "an orchestrator did not live through it");
    }
    cluster.all_is_well().await;
}
