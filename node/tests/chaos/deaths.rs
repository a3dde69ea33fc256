//! Deaths at failpoints, and work that is taken from those who sleep.

use std::os::unix::process::ExitStatusExt;

use nix::sys::signal::Signal;
use parkhang_core::domain::Task;
use parkhang_core::failpoint::Failpoint;

use crate::cluster::Cluster;
use crate::recorded::Recorded;

/// Orders to die at a place, which is a failpoint or one of a volume's.
pub(crate) fn die_at(place: impl std::fmt::Display) -> String {
    format!("{place}=return(abort)")
}

impl Recorded {
    /// Waits until it has died at one of the places where it was to; returns which. `begin` is the end of the journal before its start.
    pub(crate) async fn dies_at_failpoint(&mut self, begin: usize) -> String {
        let place = self.said(begin, "failpoint ").await;
        let status = self.end().await;
        assert_eq!(status.signal(), Some(Signal::SIGABRT as i32), "{place}");
        place
    }
}

impl Cluster {
    /// Starts the first orchestrator, which dies at the failpoint.
    pub(crate) async fn leader_dies_at(&mut self, point: Failpoint) {
        let begin = self.journal.end();
        self.start_orchestrator(0, &die_at(point)).await;
        let mut process = self.orchestrators[0].process.take().unwrap();
        assert_eq!(process.dies_at_failpoint(begin).await, point.name());
    }

    /// Starts the first node, which dies at one of the places; returns which.
    pub(crate) async fn worker_dies_at(&mut self, places: &[String]) -> String {
        let begin = self.journal.end();
        let orders: Vec<String> = places.iter().map(die_at).collect();
        self.start_worker(0, &orders.join(";")).await;
        let mut process = self.workers[0].process.take().unwrap();
        process.dies_at_failpoint(begin).await
    }

    /// Waits until somebody else may have the work of a node that sleeps.
    pub(crate) async fn until_taken(&self, frozen: &Task) {
        self.until("the frozen node's work is taken from it", async |cluster| {
            let tasks = cluster.tasks().await;
            let now = tasks.into_iter().find(|task| task.id == frozen.id);
            now.is_some_and(|now| now.fence() != frozen.fence())
        })
        .await;
    }
}
