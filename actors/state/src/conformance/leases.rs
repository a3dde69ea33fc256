//! Leases: fences, heartbeats, and writers that meet.

use super::*;
use parkhang_core::domain::{Attempt, Generation, LeaseStatus, Position, TaskId, TaskStatus};
use parkhang_core::policy::poison::ADVANCE;

pub(super) async fn suite(make: &impl AsyncFn() -> Store) {
    one_of_many_claimers_wins(make().await).await;
    a_stale_lease_changes_nothing(make().await).await;
    a_stale_reader_changes_nothing(make().await).await;
    every_change_can_be_repeated(make().await).await;
    a_batch_is_judged_change_by_change(make().await).await;
    a_batch_may_move_one_task_twice(make().await).await;
    an_illegal_change_writes_nothing(make().await).await;
    heartbeats_move_the_deadline_of_live_leases_only(make().await).await;
    an_interrupted_worker_is_fenced_off(make().await).await;
    a_rerun_fences_the_running_worker_off(make().await).await;
    progress_ends_a_row_of_losses(make().await).await;
    crossing_batches_do_not_deadlock(make().await).await;
}

/// Rows: F18.
async fn one_of_many_claimers_wins(store: Store) {
    let (job, tasks) = job_with(&store, &["I1"]).await;
    let claims = (0..16).map(|n| {
        let (store, change) = (Arc::clone(&store), lease(&tasks[0], &job, &format!("w{n}")));
        tokio::spawn(async move { store.commit(&[change], at(1)).await.unwrap().remove(0) })
    });
    let mut winners = Vec::new();
    for claim in claims.collect::<Vec<_>>() {
        match claim.await.unwrap() {
            Outcome::Applied(task) => winners.push(task),
            Outcome::Fenced(Some(task)) => assert_eq!(task.status, TaskStatus::Running),
            other => panic!("{other:?}"),
        }
    }
    assert_eq!(winners.len(), 1);
    assert_eq!(current(&store, &tasks[0]).await, winners[0]);
    assert_eq!(store.stage_runs(tasks[0].id).await.unwrap().len(), 1);
}

/// Rows: F18, U28.
async fn a_stale_lease_changes_nothing(store: Store) {
    let (job, tasks) = job_with(&store, &["I1"]).await;
    let running = applied(&store, lease(&tasks[0], &job, "w")).await;
    let fence = running.fence().unwrap();
    let stale = [
        parkhang_core::domain::Fence {
            generation: Generation(1),
            ..fence.clone()
        },
        parkhang_core::domain::Fence {
            attempt: Attempt(2),
            ..fence.clone()
        },
        parkhang_core::domain::Fence {
            stage: stage("read"),
            ..fence.clone()
        },
        parkhang_core::domain::Fence {
            task: TaskId(4711),
            ..fence
        },
    ];
    for fence in stale {
        for event in [
            Event::Succeeded,
            failure(ErrorCategory::Input),
            Event::Interrupted,
        ] {
            let stale = Change {
                expected: Expected::Lease(fence.clone()),
                ..change(&running, event)
            };
            fenced(&store, stale).await;
        }
    }
    assert_eq!(current(&store, &running).await, running);
}

async fn a_stale_reader_changes_nothing(store: Store) {
    let (job, tasks) = job_with(&store, &["I1"]).await;
    let claim = lease(&tasks[0], &job, "late");
    let failed = run_stage(&store, &job, &tasks[0], failure(ErrorCategory::Network)).await;
    fenced(&store, claim).await;
    let retry = lease(&failed, &job, "late");
    run_stage(&store, &job, &failed, Event::Succeeded).await;
    fenced(&store, retry).await;
}

async fn every_change_can_be_repeated(store: Store) {
    let (job, tasks) = job_with(&store, &["I1"]).await;
    let mut task = tasks[0].clone();
    let error = StageError::new("detect", ErrorCategory::Runtime, "killed its workers");
    let events = [
        None,
        Some(failure(ErrorCategory::Network)),
        None,
        Some(Event::Interrupted),
        None,
        Some(Event::Succeeded),
        Some(rerun_from("detect")),
        None,
        Some(Event::Interrupted),
        Some(Event::Quarantined { error }),
    ];
    for event in events {
        let next = match event {
            None => lease(&task, &job, "w"),
            Some(event) => change(&task, event),
        };
        task = applied(&store, next.clone()).await;
        fenced(&store, next).await;
    }
}

async fn a_batch_is_judged_change_by_change(store: Store) {
    let (job, tasks) = job_with(&store, &["I1", "I2", "I3"]).await;
    let taken = applied(&store, lease(&tasks[1], &job, "other")).await;
    let batch: Vec<Change> = tasks.iter().rev().map(|task| lease(task, &job, "w")).collect();
    let outcomes = store.commit(&batch, at(1)).await.unwrap();
    assert!(matches!(&outcomes[0], Outcome::Applied(task) if task.id == tasks[2].id));
    assert_eq!(outcomes[1], Outcome::Fenced(Some(taken)));
    assert!(matches!(&outcomes[2], Outcome::Applied(task) if task.id == tasks[0].id));
    assert_eq!(store.commit(&[], at(1)).await.unwrap(), vec![]);
}

async fn a_batch_may_move_one_task_twice(store: Store) {
    let (job, tasks) = job_with(&store, &["I1"]).await;
    let running = applied(&store, lease(&tasks[0], &job, "w")).await;
    let detected = Task {
        status: TaskStatus::Done,
        lease: None,
        ..running.clone()
    };
    let batch = [
        change(&running, Event::Succeeded),
        lease(&detected, &job, "next"),
        change(&running, Event::Succeeded),
    ];
    let outcomes = store.commit(&batch, at(2)).await.unwrap();
    let after = current(&store, &running).await;
    assert!(matches!(outcomes[0], Outcome::Applied(_)));
    assert_eq!(outcomes[1], Outcome::Applied(after.clone()));
    assert_eq!(outcomes[2], Outcome::Fenced(Some(after.clone())));
    assert_eq!(after.position, Position::At(stage("read")));
    assert_eq!(store.stage_runs(after.id).await.unwrap().len(), 2);
}

async fn an_illegal_change_writes_nothing(store: Store) {
    let (job, tasks) = job_with(&store, &["I1"]).await;
    let wrong_stage = change(
        &tasks[0],
        Event::Leased {
            stage: stage("read"),
            worker: worker("w"),
            until: at(60),
        },
    );
    let outcomes = store
        .commit(&[wrong_stage, change(&tasks[0], Event::Succeeded)], at(1))
        .await
        .unwrap();
    assert!(matches!(outcomes[..], [Outcome::Illegal(_), Outcome::Illegal(_)]));
    assert_eq!(store.tasks(job.id).await.unwrap(), tasks);
    assert_eq!(store.stage_runs(tasks[0].id).await.unwrap(), vec![]);
}

/// Rows: F2, F15, F17.
async fn heartbeats_move_the_deadline_of_live_leases_only(store: Store) {
    let (job, tasks) = job_with(&store, &["I1", "I2"]).await;
    let live = applied(&store, lease(&tasks[0], &job, "a")).await;
    let lost = applied(&store, lease(&tasks[1], &job, "b")).await;
    let taken_away = applied(&store, change(&lost, Event::Interrupted)).await;
    let fence = |task: &Task| task.fence().unwrap();
    let asked = [fence(&lost), fence(&live), fence(&live)];
    assert_eq!(
        store.renew_leases(&asked, at(200)).await.unwrap(),
        [LeaseStatus::Lost, LeaseStatus::Held, LeaseStatus::Held]
    );
    let deadline = |task: &Task| task.lease.as_ref().map(|lease| lease.until);
    assert_eq!(deadline(&current(&store, &live).await), Some(at(200)));
    assert_eq!(current(&store, &lost).await, taken_away);

    assert_eq!(
        store.renew_leases(&[fence(&live)], at(100)).await.unwrap(),
        [LeaseStatus::Held]
    );
    assert_eq!(
        deadline(&current(&store, &live).await),
        Some(at(200)),
        "a late heartbeat shortens nothing"
    );
    let again = applied(&store, lease(&taken_away, &job, "c")).await;
    assert_eq!(
        store
            .renew_leases(&[fence(&lost), fence(&again)], at(400))
            .await
            .unwrap(),
        [LeaseStatus::Lost, LeaseStatus::Held]
    );
    assert_eq!(store.renew_leases(&[], at(400)).await.unwrap(), []);
}

async fn an_interrupted_worker_is_fenced_off(store: Store) {
    let (job, tasks) = job_with(&store, &["I1"]).await;
    let first = applied(&store, lease(&tasks[0], &job, "frozen")).await;
    let released = applied(&store, change(&first, Event::Interrupted)).await;
    assert_eq!((released.attempts, released.interruptions), (0, 1));
    fenced(&store, change(&first, Event::Succeeded)).await;
    let second = applied(&store, lease(&released, &job, "fresh")).await;
    fenced(&store, change(&first, Event::Succeeded)).await;
    fenced(&store, change(&first, failure(ErrorCategory::Runtime))).await;
    applied(&store, change(&second, Event::Succeeded)).await;
}

async fn a_rerun_fences_the_running_worker_off(store: Store) {
    let (job, tasks) = job_with(&store, &["I1"]).await;
    let detected = run_stage(&store, &job, &tasks[0], Event::Succeeded).await;
    let reading = applied(&store, lease(&detected, &job, "w")).await;
    let sent_back = applied(&store, change(&reading, rerun_from("detect"))).await;
    assert_eq!(sent_back.position, Position::Pending);
    fenced(&store, change(&reading, Event::Succeeded)).await;
    let detected = run_stage(&store, &job, &sent_back, Event::Succeeded).await;
    let done = run_stage(&store, &job, &detected, Event::Succeeded).await;
    assert_eq!(done.position, Position::Done);
    let again = applied(&store, change(&done, rerun_from("read"))).await;
    assert_eq!(
        (again.position, again.status),
        (Position::At(stage("detect")), TaskStatus::Done)
    );
}

async fn progress_ends_a_row_of_losses(store: Store) {
    let (job, tasks) = job_with(&store, &["I1"]).await;
    let mut task = tasks[0].clone();
    for losses in 1..=2 {
        task = run_stage(&store, &job, &task, Event::Interrupted).await;
        assert_eq!(task.interruptions, losses);
    }
    let note = async |task: &Task, pages: i32| {
        let finished = [(task.fence().unwrap(), pages)];
        store.note_progress(&finished).await.unwrap();
        current(&store, task).await
    };
    let running = applied(&store, lease(&task, &job, "w")).await;
    assert_eq!(note(&running, ADVANCE - 1).await, running, "too little");
    note(&running, ADVANCE).await;
    // Noted also once the row has ended, as it is where the next one is counted from.
    let got_on = note(&running, 2 * ADVANCE).await;
    assert_eq!(
        got_on,
        Task {
            interruptions: 0,
            ..running
        }
    );

    // It is lost again, and the next lease gets no further: that counts.
    task = applied(&store, change(&got_on, Event::Interrupted)).await;
    assert_eq!(task.interruptions, 1);
    let again = applied(&store, lease(&task, &job, "w")).await;
    assert_eq!(note(&got_on, 1_000).await, again, "of a lease that is over");
    assert_eq!(note(&again, 3 * ADVANCE - 1).await, again);
    task = applied(&store, change(&again, Event::Interrupted)).await;
    assert_eq!(task.interruptions, 2);
    let third = applied(&store, lease(&task, &job, "w")).await;
    assert_eq!(note(&third, 3 * ADVANCE).await.interruptions, 0);

    // The pages of the next stage are counted from none.
    task = applied(&store, change(&third, Event::Succeeded)).await;
    task = run_stage(&store, &job, &task, Event::Interrupted).await;
    let next_stage = applied(&store, lease(&task, &job, "w")).await;
    assert_eq!(note(&next_stage, ADVANCE).await.interruptions, 0);
}

async fn crossing_batches_do_not_deadlock(store: Store) {
    let names: Vec<String> = (0..24).map(|n| format!("I{n}")).collect();
    let names: Vec<&str> = names.iter().map(String::as_str).collect();
    let (job, tasks) = job_with(&store, &names).await;
    let claims = (0..8).map(|n| {
        let mut batch: Vec<Change> = tasks
            .iter()
            .map(|task| lease(task, &job, &format!("w{n}")))
            .collect();
        if n % 2 == 1 {
            batch.reverse();
        }
        let store = Arc::clone(&store);
        tokio::spawn(async move { store.commit(&batch, at(1)).await.unwrap() })
    });
    let mut won = 0;
    for claim in claims.collect::<Vec<_>>() {
        let outcomes = claim.await.unwrap();
        won += outcomes
            .iter()
            .filter(|outcome| matches!(outcome, Outcome::Applied(_)))
            .count();
    }
    assert_eq!(won, tasks.len());
}
