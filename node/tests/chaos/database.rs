//! The server of the database, and what processes use.

use nix::sys::signal::{Signal, kill};
use nix::unistd::{Pid, SysconfVar, sysconf};

use crate::cluster::{Cluster, Plan};
use crate::library::SHELF;

impl Cluster {
    /// Process of the server.
    pub(crate) fn postgres(&self) -> u32 {
        let file = self.postgres_folder().join("data/postmaster.pid");
        let text = std::fs::read_to_string(file).unwrap();
        text.lines().next().unwrap().parse().unwrap()
    }

    /// Postgres goes down in immediate mode, as in a crash.
    pub(crate) async fn crash_postgres(&self) {
        let server = self.postgres();
        kill(Pid::from_raw(server.try_into().unwrap()), Signal::SIGQUIT).unwrap();
        self.until("Postgres is down", async |_| is_over(server)).await;
    }

    /// The server is killed, and nobody tells its children, which find out by themselves.
    pub(crate) async fn kill_postgres(&self) {
        let server = self.postgres();
        let children = children_of(server);
        kill(Pid::from_raw(server.try_into().unwrap()), Signal::SIGKILL).unwrap();
        // Another server is refused while one of them has the memory of this one.
        self.until("Postgres and its children are gone", async |_| {
            children.iter().copied().chain([server]).all(is_over)
        })
        .await;
    }
}

/// Open files of a process, connections among them.
pub(crate) fn files_of(process: u32) -> usize {
    std::fs::read_dir(format!("/proc/{process}/fd")).unwrap().count()
}

/// Seconds of processor time of a process, and of those of its children that have ended.
pub(crate) fn cpu_of(process: u32) -> f64 {
    let stat = std::fs::read_to_string(format!("/proc/{process}/stat")).unwrap();
    // The name of the program may have spaces.
    let fields: Vec<&str> = stat.rsplit_once(')').unwrap().1.split_whitespace().collect();
    let ticks: i64 = fields[11..15]
        .iter()
        .map(|field| field.parse::<i64>().unwrap())
        .sum();
    ticks as f64 / sysconf(SysconfVar::CLK_TCK).unwrap().unwrap() as f64
}

/// The same of a process with all its children, living ones included.
pub(crate) fn cpu_with_children(process: u32) -> f64 {
    cpu_of(process) + children_of(process).into_iter().map(cpu_of).sum::<f64>()
}

fn children_of(process: u32) -> Vec<u32> {
    let children = std::fs::read_to_string(format!("/proc/{process}/task/{process}/children")).unwrap();
    let children = children.split_whitespace();
    children.map(|child| child.parse().unwrap()).collect()
}

/// True of a process that has ended, though nobody may have asked how.
fn is_over(process: u32) -> bool {
    let stat = std::fs::read_to_string(format!("/proc/{process}/stat"));
    stat.map_or(true, |stat| {
        stat.rsplit_once(')').unwrap().1.trim_start().starts_with('Z')
    })
}

/// Postgres goes down, and comes back.
/// Rows: F23.
#[tokio::test(flavor = "multi_thread")]
async fn postgres_crashes_and_recovers() {
    let mut cluster = Cluster::start(Plan::full(SHELF)).await;
    cluster.create_jobs().await;
    cluster.until_busy(0).await;
    let down = cluster.journal.end();
    cluster.crash_postgres().await;
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
