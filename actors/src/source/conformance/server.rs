//! Promises that only a state store on a server makes: one clock for all, and announcements of new work.

use super::*;
use crate::source::{StateClaims, StoreClock};
use parkhang_core::domain::{Job, Position};
use parkhang_state::{StateStore, with_clock_ahead};

/// A database of its own for each test.
fn databases() -> EmbeddedPostgres {
    EmbeddedPostgres::temporary().unwrap()
}

/// Rows: U32.
#[tokio::test]
async fn leases_go_by_the_clock_of_the_server_however_far_off_that_of_the_node_is() {
    let server = databases();
    for ahead in [5, -5] {
        let name = format!("clock_{}", ahead + 5);
        let options = server.create_database(&name).await.unwrap();
        let store = with_clock_ahead(ahead, options).await.unwrap();
        let store: Arc<dyn StateStore> = Arc::new(store);
        let ahead = TimeDelta::minutes(ahead.into());
        let job: Job = store.create_job(&job_of(1), Utc::now()).await.unwrap();
        let process = || {
            let clock = Arc::new(StoreClock(store.clone()));
            StateClaims::new(store.clone(), clock, TimeDelta::minutes(1), MAX_INTERRUPTIONS)
        };
        let (holder, other) = (process(), process());

        let asked = Utc::now();
        let claim = holder.claim(&both(1)).await.unwrap().remove(0);
        let is_of_server = |until: DateTime<Utc>| {
            let lasts = until - (asked + ahead);
            lasts >= TimeDelta::minutes(1) && lasts < TimeDelta::minutes(4)
        };
        assert!(
            is_of_server(claim.assignment.lease_until),
            "{:?}",
            claim.assignment
        );
        assert_eq!(claim.lasts, TimeDelta::minutes(1));
        assert!(other.claim(&both(1)).await.unwrap().is_empty());

        let fences = [claim.assignment.fence.clone()];
        assert_eq!(holder.renew(&fences).await.unwrap(), [LeaseStatus::Held]);
        let renewed = store.tasks(job.id).await.unwrap().remove(0).lease.unwrap().until;
        assert!(renewed > claim.assignment.lease_until && is_of_server(renewed));
        assert!(other.claim(&both(1)).await.unwrap().is_empty());

        let report = |verdict| LeaseReport {
            fence: claim.assignment.fence.clone(),
            verdict,
        };
        assert_eq!(
            holder.complete(report(success())).await.unwrap(),
            ReportReply::Recorded
        );
        let task = store.tasks(job.id).await.unwrap().remove(0);
        assert_eq!((&task.position.as_str(), task.interruptions), (&"detect", 0));
        assert!(matches!(task.position, Position::At(_)));
    }
}

#[tokio::test]
async fn nodes_are_told_of_work_that_can_be_claimed_and_of_no_other() {
    let server = databases();
    let store = PostgresStore::connect_with(server.create_database("word").await.unwrap())
        .await
        .unwrap();
    let store = Arc::new(store);
    let site: Arc<dyn Site> = Arc::new(StateSite::new(store.clone()));
    site.create(job_of(2)).await;
    let mut changes = store.work_changes().await.unwrap();
    let process = site.process("p");

    let claims = process.claim(&both(2), at(0)).await.unwrap();
    complete(&process, &claims[0], success(), at(1)).await;
    complete(&process, &claims[1], failure(ErrorCategory::Network), at(1)).await;
    let last = process.claim(&both(2), at(2)).await.unwrap().remove(0);
    complete(&process, &last, success(), at(3)).await;
    let again = process.claim(&both(2), at(30)).await.unwrap().remove(0);
    process.release(again.assignment.fence, at(31)).await.unwrap();
    let again = process.claim(&both(2), at(32)).await.unwrap().remove(0);
    complete(&process, &again, failure(ErrorCategory::Input), at(33)).await;

    let stage = |name| Some(stage(name));
    for expected in [
        stage("read"),
        stage("detect"),
        // The job has ended, which may mean anything to who waits for work.
        None,
    ] {
        assert_eq!(changes.next().await.unwrap(), expected);
    }
}
