use std::collections::BTreeSet;
use std::time::Duration;

use async_trait::async_trait;
use chrono::{DateTime, Utc};
use tokio::sync::mpsc;

use super::*;
use crate::orchestrator::{OrchestratorConfig, OrchestratorHandle};
use parkhang_core::domain::testing::{new_job, pool, volume};
use parkhang_core::domain::{PoolInfo, TaskId, TaskStatus};
use parkhang_state::MemoryStore;

/// A pool that answers every assignment the same, and tells of it.
#[derive(Debug)]
struct Answers {
    info: PoolInfo,
    answer: AssignReply,
    asked: mpsc::UnboundedSender<TaskId>,
}

#[async_trait]
impl Executor for Answers {
    fn info(&self) -> &PoolInfo {
        &self.info
    }

    async fn assign(&self, assignment: Assignment) -> Result<AssignReply, Unreachable> {
        self.asked.send(assignment.fence.task).unwrap();
        Ok(self.answer.clone())
    }

    fn drain(&self) {}
}

#[tokio::test]
async fn a_refusal_is_charged_to_no_volume_and_remembered_for_its_pool() {
    let store = Arc::new(MemoryStore::new());
    let job = store
        .create_job(&new_job(&["read"], 5), Utc::now())
        .await
        .unwrap();
    let orchestrator = OrchestratorHandle::start(OrchestratorConfig::new(store.clone()))
        .await
        .unwrap();
    let add = |name: &str, slots: usize, answer: AssignReply| {
        let (asked, heard) = mpsc::unbounded_channel();
        let info = pool(name, "read", slots);
        orchestrator.register(Arc::new(Answers { info, answer, asked }));
        heard
    };
    let reason = "unknown field".to_owned();
    // The roomiest, always.
    let mut refused = add("old", 100, AssignReply::Refused { reason });
    let within = Duration::from_secs(60);
    let first = tokio::time::timeout(within, refused.recv())
        .await
        .unwrap()
        .unwrap();
    let mut taken = add("new", 10, AssignReply::Accepted);
    let mut ran = BTreeSet::new();
    while ran.len() < 5 {
        ran.extend(tokio::time::timeout(within, taken.recv()).await.unwrap());
    }
    let mut times_refused = vec![first];
    while let Ok(task) = refused.try_recv() {
        times_refused.push(task);
    }
    let tasks = store.tasks(job.id).await.unwrap();
    assert_eq!(
        times_refused.iter().collect::<BTreeSet<_>>().len(),
        times_refused.len(),
        "each once"
    );
    for task in &tasks {
        let worker = task.lease.as_ref().map(|lease| lease.worker.0.as_str());
        assert_eq!(
            (task.status, worker, task.attempts),
            (TaskStatus::Running, Some("new"), 0),
            "{task:?}"
        );
    }

    store.add_volumes(job.id, &[volume(9)]).await.unwrap();
    orchestrator.wake();
    let later = tokio::time::timeout(within, taken.recv()).await.unwrap().unwrap();
    assert!(!ran.contains(&later));
    assert!(
        refused.try_recv().is_err(),
        "it would have been offered to the roomiest"
    );
}

#[tokio::test]
async fn leases_go_by_the_clock_of_the_store_whatever_that_of_the_leader_is() {
    fn ahead() -> DateTime<Utc> {
        Utc::now() + TimeDelta::hours(1)
    }
    let store = Arc::new(MemoryStore::on_clock(ahead));
    let job = store
        .create_job(&new_job(&["read"], 1), Utc::now())
        .await
        .unwrap();
    let orchestrator = OrchestratorHandle::start(OrchestratorConfig::new(store.clone()))
        .await
        .unwrap();
    let (asked, mut heard) = mpsc::unbounded_channel();
    let (info, answer) = (pool("w", "read", 1), AssignReply::Accepted);
    let lease_lasts = async || {
        let lease = store.tasks(job.id).await.unwrap().remove(0).lease;
        lease.unwrap().until - ahead()
    };
    orchestrator.register(Arc::new(Answers { info, answer, asked }));
    tokio::time::timeout(Duration::from_secs(60), heard.recv())
        .await
        .unwrap();
    let (least, most) = (TimeDelta::seconds(1), TimeDelta::seconds(60));
    let lasts = lease_lasts().await;
    assert!(lasts > least && lasts <= most, "{lasts}");

    let fence = store.tasks(job.id).await.unwrap()[0].fence().unwrap();
    orchestrator.heartbeat(vec![fence]).await;
    let renewed = lease_lasts().await;
    assert!(renewed > least && renewed <= most, "{renewed}");
}
