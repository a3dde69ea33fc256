//! Claims of workers that take work themselves.

use std::collections::HashSet;

use super::*;
use crate::ClaimRequest;
use parkhang_core::domain::{JobStatus, LeaseStatus, Position, TaskId, TaskStatus};
use parkhang_core::policy::claim::Offer;
use parkhang_core::policy::job_action::JobAction;

pub(super) async fn suite(make: &impl AsyncFn() -> Store) {
    a_claim_takes_what_its_offers_have_room_for(make().await).await;
    a_claim_respects_backoff_and_the_end_of_tries(make().await).await;
    only_running_jobs_are_worked_on(make().await).await;
    priorities_and_limits_are_kept(make().await).await;
    jobs_share_what_room_there_is(make().await).await;
    a_claim_takes_what_its_workers_have_the_models_for(make().await).await;
    what_is_nearest_to_its_end_goes_first(make().await).await;
    what_was_given_back_goes_before_what_is_fresh(make().await).await;
    a_lease_that_ran_out_is_taken_over(make().await).await;
    a_lease_of_a_cancelled_job_is_no_loss_even_when_it_ran_out(make().await).await;
    a_lease_that_is_renewed_is_left_alone(make().await).await;
    a_volume_that_keeps_losing_its_workers_is_set_aside(make().await).await;
    a_suspect_is_taken_by_who_is_idle_and_alone(make().await).await;
    many_claimers_share_the_tasks(make().await).await;
    claims_and_an_orchestrator_do_not_collide(make().await).await;
}

fn offer(name: &str, worker: &str, free: usize) -> Offer {
    Offer {
        pool: testing::pool(worker, name, free),
        free,
        in_hand: 0,
    }
}

async fn claim(store: &Store, offers: Vec<Offer>, now: DateTime<Utc>) -> Vec<Task> {
    let request = ClaimRequest {
        ends_leases: true,
        offers,
        until: now + TimeDelta::seconds(60),
        max_interruptions: 2,
    };
    let claimed = store.claim(&request, now).await.unwrap();
    for (task, job) in &claimed {
        assert_eq!(task.job_id, job.id);
        assert_eq!(current(store, task).await, *task, "a claim is the row as stored");
    }
    claimed.into_iter().map(|(task, _)| task).collect()
}

fn names_of(tasks: &[Task]) -> String {
    names(tasks).join(" ")
}

fn names(tasks: &[Task]) -> Vec<&str> {
    tasks.iter().map(|task| task.volume.i_id()).collect()
}

async fn a_claim_takes_what_its_offers_have_room_for(store: Store) {
    let (job, tasks) = job_with(&store, &["I1", "I2", "I3", "I4"]).await;
    run_stage(&store, &job, &tasks[2], Event::Succeeded).await;
    assert!(claim(&store, vec![], at(2)).await.is_empty());
    assert!(
        claim(&store, vec![offer("detect", "a", 0)], at(2))
            .await
            .is_empty()
    );
    assert!(
        claim(&store, vec![offer("elsewhere", "a", 9)], at(2))
            .await
            .is_empty()
    );

    let offers = vec![
        offer("detect", "a", 2),
        offer("read", "b", 2),
        offer("detect", "c", 2),
    ];
    let mut claimed = claim(&store, offers.clone(), at(2)).await;
    claimed.sort_by_key(|task| task.id);
    assert_eq!(names(&claimed), ["I1", "I2", "I3", "I4"]);
    for (task, name) in claimed.iter().zip(["detect", "detect", "read", "detect"]) {
        assert_eq!(
            (&task.position, task.status),
            (&Position::At(stage(name)), TaskStatus::Running)
        );
        let lease = task.lease.as_ref().unwrap();
        assert_eq!(lease.until, at(62));
        let fitting = offers.iter().find(|offer| offer.pool.worker == lease.worker);
        assert_eq!(fitting.unwrap().pool.stage, stage(name));
        assert_eq!(task.started_at, Some(at(2)));
        let runs = store.stage_runs(task.id).await.unwrap();
        assert_eq!(runs.last().unwrap().fence, task.fence().unwrap());
    }
    assert!(claim(&store, offers, at(3)).await.is_empty());
}

/// Rows: 102.
async fn a_claim_takes_what_its_workers_have_the_models_for(store: Store) {
    let named = NewJob {
        config: JobConfig::default()
            .with_overrides(["models=detect=m", "priority=1"])
            .unwrap(),
        ..new_job("named", &["I1", "I2", "I3"])
    };
    store.create_job(&named, at(0)).await.unwrap();
    let (_, _) = job_with(&store, &["I7", "I8"]).await;
    let with = |models: &[&str], worker, free| {
        let mut offer = offer("detect", worker, free);
        offer.pool.models = models.iter().map(ToString::to_string).collect();
        offer
    };
    let without = claim(&store, vec![with(&["other"], "a", 1)], at(2)).await;
    assert_eq!(
        names(&without),
        ["I7"],
        "the job of higher priority is not for it"
    );
    let offers = vec![with(&["other"], "a", 9), with(&["other", "m"], "b", 2)];
    let mut claimed = claim(&store, offers, at(3)).await;
    claimed.sort_by_key(|task| task.id);
    let taken: Vec<(&str, &str)> = claimed
        .iter()
        .map(|task| (task.volume.i_id(), task.lease.as_ref().unwrap().worker.0.as_str()))
        .collect();
    assert_eq!(taken, [("I1", "b"), ("I2", "b"), ("I8", "a")]);
}

async fn a_claim_respects_backoff_and_the_end_of_tries(store: Store) {
    let (job, tasks) = job_with(&store, &["I1", "I2"]).await;
    run_stage(&store, &job, &tasks[0], failure(ErrorCategory::Network)).await;
    run_stage(&store, &job, &tasks[1], failure(ErrorCategory::Input)).await;
    let offers = || vec![offer("detect", "w", 9)];
    assert!(claim(&store, offers(), at(29)).await.is_empty());
    let again = claim(&store, offers(), at(30)).await;
    assert_eq!(names(&again), ["I1"]);
    assert_eq!(again[0].attempt().0, 2);
    applied(&store, change(&again[0], failure(ErrorCategory::Network))).await;
    assert!(
        claim(&store, offers(), at(100)).await.is_empty(),
        "both tries are used up"
    );
}

async fn only_running_jobs_are_worked_on(store: Store) {
    let (job, _) = job_with(&store, &["I1", "I2"]).await;
    let offers = || vec![offer("detect", "w", 1)];
    store.act_on_job(job.id, JobAction::Pause).await.unwrap();
    assert!(claim(&store, offers(), at(2)).await.is_empty());
    store.act_on_job(job.id, JobAction::Resume).await.unwrap();
    let running = claim(&store, offers(), at(2)).await.remove(0);
    store.act_on_job(job.id, JobAction::Cancel).await.unwrap();
    assert!(claim(&store, offers(), at(3)).await.is_empty());
    assert_eq!(
        current(&store, &running).await.lease,
        None,
        "what nobody wants is taken back"
    );
    fenced(&store, change(&running, Event::Succeeded)).await;
    assert_eq!(
        store.finish_jobs(at(4)).await.unwrap()[0].status,
        JobStatus::Cancelled
    );
}

async fn a_lease_of_a_cancelled_job_is_no_loss_even_when_it_ran_out(store: Store) {
    let (job, _) = job_with(&store, &["I1"]).await;
    let running = claim(&store, vec![offer("detect", "w", 1)], at(2))
        .await
        .remove(0);
    store.act_on_job(job.id, JobAction::Cancel).await.unwrap();
    // Its deadline was 62.
    claim(&store, vec![offer("detect", "w", 1)], at(100)).await;
    let task = current(&store, &running).await;
    assert_eq!((task.lease, task.interruptions), (None, 0));
}

/// Limits of a job hold for all workers together.
async fn priorities_and_limits_are_kept(store: Store) {
    let job = |key, names: &[&str], priority, max_running| {
        let mut job = new_job(key, names);
        job.config.priority = priority;
        job.config.max_running = max_running;
        job
    };
    let common = job("common", &["I1", "I2", "I3"], 0, 0);
    let common = store.create_job(&common, at(0)).await.unwrap();
    let urgent = job("urgent", &["I4", "I5", "I6"], 5, 2);
    let urgent = store.create_job(&urgent, at(0)).await.unwrap();
    let claimers = (0..6).map(|n| {
        let store = Arc::clone(&store);
        tokio::spawn(async move { claim(&store, vec![offer("detect", &format!("w{n}"), 1)], at(1)).await })
    });
    let mut claimed = Vec::new();
    for claimer in claimers.collect::<Vec<_>>() {
        claimed.extend(claimer.await.unwrap());
    }
    // Of claimers at the same time some may have passed over what another was looking at.
    claimed.extend(claim(&store, vec![offer("detect", "last", 9)], at(1)).await);
    let of = |job: &Job| claimed.iter().filter(|task| task.job_id == job.id).count();
    assert_eq!((of(&urgent), of(&common)), (2, 3));
    let done = claimed.iter().find(|task| task.job_id == urgent.id).unwrap();
    applied(&store, change(done, Event::Succeeded)).await;
    let next = claim(&store, vec![offer("detect", "last", 9)], at(2)).await;
    assert_eq!(names(&next), ["I6"]);
}

/// Jobs of one priority take turns.
async fn jobs_share_what_room_there_is(store: Store) {
    store
        .create_job(&new_job("one", &["I1", "I2", "I3"]), at(0))
        .await
        .unwrap();
    store
        .create_job(&new_job("two", &["I4", "I5", "I6"]), at(0))
        .await
        .unwrap();
    let mut claimed = claim(&store, vec![offer("detect", "w", 4)], at(1)).await;
    claimed.sort_by_key(|task| task.id);
    assert_eq!(names(&claimed), ["I1", "I2", "I4", "I5"]);
}

async fn what_is_nearest_to_its_end_goes_first(store: Store) {
    let mut job = new_job("job", &["I1", "I2", "I3"]);
    job.config.max_running = 1;
    let job = store.create_job(&job, at(0)).await.unwrap();
    let tasks = store.tasks(job.id).await.unwrap();
    run_stage(&store, &job, &tasks[1], Event::Succeeded).await;
    let offers = vec![offer("detect", "a", 2), offer("read", "b", 2)];
    assert_eq!(names(&claim(&store, offers, at(2)).await), ["I2"]);
}

async fn what_was_given_back_goes_before_what_is_fresh(store: Store) {
    let (job, tasks) = job_with(&store, &["I1", "I2", "I3"]).await;
    run_stage(&store, &job, &tasks[0], Event::Released).await;
    let claimed = claim(&store, vec![offer("detect", "w", 1)], at(2)).await;
    assert_eq!(names(&claimed), ["I1"]);
}

async fn a_lease_that_ran_out_is_taken_over(store: Store) {
    let (_, _) = job_with(&store, &["I1"]).await;
    let dead = claim(&store, vec![offer("detect", "dead", 1)], at(0))
        .await
        .remove(0);
    assert!(
        claim(&store, vec![offer("detect", "next", 1)], at(59))
            .await
            .is_empty()
    );

    // A worker for another stage ends the lease, and leaves the task to those that can run it.
    assert!(
        claim(&store, vec![offer("read", "other", 1)], at(60))
            .await
            .is_empty()
    );
    let ended = current(&store, &dead).await;
    assert_eq!(
        (ended.status, ended.interruptions, ended.attempts),
        (TaskStatus::Pending, 1, 0)
    );

    let next = claim(&store, vec![offer("detect", "next", 1)], at(61))
        .await
        .remove(0);
    assert_ne!(next.fence(), dead.fence());
    assert_eq!((next.attempts, next.interruptions), (0, 1));
    for event in [Event::Succeeded, failure(ErrorCategory::Input), Event::Released] {
        fenced(&store, change(&dead, event)).await;
    }
    let fence = dead.fence().unwrap();
    assert_eq!(
        store.renew_leases(&[fence], at(500)).await.unwrap(),
        [LeaseStatus::Lost]
    );
    let done = applied(&store, change(&next, Event::Succeeded)).await;
    assert_eq!((done.status, done.interruptions), (TaskStatus::Done, 0));
    assert_eq!(store.stage_runs(done.id).await.unwrap().len(), 2);
}

async fn a_lease_that_is_renewed_is_left_alone(store: Store) {
    let (_, _) = job_with(&store, &["I1"]).await;
    let held = claim(&store, vec![offer("detect", "w", 1)], at(0))
        .await
        .remove(0);
    let fence = held.fence().unwrap();
    assert_eq!(
        store.renew_leases(&[fence], at(90)).await.unwrap(),
        [LeaseStatus::Held]
    );
    assert!(
        claim(&store, vec![offer("detect", "next", 1)], at(61))
            .await
            .is_empty()
    );
    assert_eq!(current(&store, &held).await.fence(), held.fence());
    assert_eq!(
        claim(&store, vec![offer("detect", "next", 1)], at(90))
            .await
            .len(),
        1
    );
}

async fn a_volume_that_keeps_losing_its_workers_is_set_aside(store: Store) {
    let (job, _) = job_with(&store, &["I1"]).await;
    let offers = || vec![offer("detect", "w", 1)];
    assert_eq!(claim(&store, offers(), at(0)).await.len(), 1);
    assert_eq!(claim(&store, offers(), at(60)).await.len(), 1);
    // What may have been a neighbour's doing is no evidence; this time there is none.
    assert_eq!(claim(&store, offers(), at(120)).await.len(), 1);
    assert!(claim(&store, offers(), at(180)).await.is_empty());
    let task = store.tasks(job.id).await.unwrap().remove(0);
    assert_eq!((task.status, task.lease), (TaskStatus::Failed, None));
    assert_eq!(task.last_error.unwrap().category, ErrorCategory::Poison);
    assert_eq!(
        store.finish_jobs(at(181)).await.unwrap()[0].status,
        JobStatus::Failed
    );
}

async fn a_suspect_is_taken_by_who_is_idle_and_alone(store: Store) {
    let (_, _) = job_with(&store, &["I1", "I2", "I3"]).await;
    let first = |seconds| {
        let store = Arc::clone(&store);
        async move { names_of(&claim(&store, vec![offer("detect", "gone", 1)], at(seconds)).await) }
    };
    assert_eq!([first(0).await, first(60).await], ["I1", "I1"]);
    let busy = Offer {
        in_hand: 1,
        ..offer("detect", "busy", 1)
    };
    assert_eq!(names(&claim(&store, vec![busy], at(120)).await), ["I2"]);
    let room = || vec![offer("detect", "a", 2), offer("read", "b", 2)];
    assert_eq!(names(&claim(&store, room(), at(121)).await), ["I1"]);
    let held = store.leases(at(122)).await.unwrap().held;
    let suspects: Vec<(&str, usize)> = held
        .iter()
        .map(|held| (held.worker.0.as_str(), held.suspects))
        .collect();
    assert_eq!(suspects, [("a", 1), ("busy", 0)]);
    assert_eq!(names(&claim(&store, room(), at(122)).await), ["I3"]);
}

async fn many_claimers_share_the_tasks(store: Store) {
    let volumes: Vec<String> = (0..100).map(|n| format!("I{n:03}")).collect();
    let volumes: Vec<&str> = volumes.iter().map(String::as_str).collect();
    let (job, _) = job_with(&store, &volumes).await;
    let claimers = (0..12).map(|n| {
        let store = Arc::clone(&store);
        tokio::spawn(async move {
            let mut mine: Vec<TaskId> = Vec::new();
            loop {
                let claimed = claim(&store, vec![offer("detect", &format!("w{n}"), 3)], at(1)).await;
                mine.extend(claimed.iter().map(|task| task.id));
                let open = store.tasks(job.id).await.unwrap();
                if open.iter().all(|task| task.lease.is_some()) {
                    return mine;
                }
            }
        })
    });
    let mut all = Vec::new();
    for claimer in claimers.collect::<Vec<_>>() {
        all.extend(claimer.await.unwrap());
    }
    let distinct: HashSet<TaskId> = all.iter().copied().collect();
    assert_eq!((all.len(), distinct.len()), (100, 100));
}

/// Leases of an orchestrator's pass and claims of workers go for the same tasks: each task gets one of them.
async fn claims_and_an_orchestrator_do_not_collide(store: Store) {
    let names: Vec<String> = (0..40).map(|n| format!("I{n:03}")).collect();
    let names: Vec<&str> = names.iter().map(String::as_str).collect();
    let (job, tasks) = job_with(&store, &names).await;
    let pass: Vec<Change> = tasks.iter().map(|task| lease(task, &job, "pool")).collect();
    let orchestrator = {
        let store = Arc::clone(&store);
        tokio::spawn(async move {
            let mut applied = 0;
            for change in pass.chunks(3) {
                let outcomes = store.commit(change, at(1)).await.unwrap();
                applied += outcomes
                    .iter()
                    .filter(|outcome| matches!(outcome, Outcome::Applied(_)))
                    .count();
            }
            applied
        })
    };
    let mut claimed = 0;
    loop {
        claimed += claim(&store, vec![offer("detect", "worker", 3)], at(1))
            .await
            .len();
        let tasks = store.tasks(job.id).await.unwrap();
        if tasks.iter().all(|task| task.lease.is_some()) {
            break;
        }
    }
    assert_eq!(orchestrator.await.unwrap() + claimed, 40);
    for task in &tasks {
        assert_eq!(store.stage_runs(task.id).await.unwrap().len(), 1);
    }
}
