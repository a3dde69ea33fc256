use chrono::TimeDelta;
use serde_json::json;
use sqlx::raw_sql;

use super::*;
use crate::postgres::browse::failures::WITH_FAILED_PAGES;
use crate::postgres::browse::paces::SLOWEST;
use crate::postgres::browse::quality::{BY_CONFIDENCE, BY_PERPLEXITY};
use crate::postgres::tests::{change, failure, new_job, now, plan_of, store};
use crate::{AtStage, Change, ListedPhase, StateStore};
use parkhang_core::domain::testing;
use parkhang_core::domain::{ErrorCategory, TaskId, VolumeResults};
use parkhang_core::policy::transition::Event;

async fn at(store: &PostgresStore, seconds: i64, change: Change) -> Task {
    let now = now() + TimeDelta::seconds(seconds);
    let outcome = store.commit(&[change], now).await.unwrap().remove(0);
    outcome.applied().unwrap()
}

async fn lease(store: &PostgresStore, seconds: i64, task: &Task, job: &Job, worker: &str) -> Task {
    let leased = Event::Leased {
        stage: job.pipeline.first().clone(),
        worker: testing::worker(worker),
        until: now() + TimeDelta::hours(1),
    };
    at(store, seconds, change(task, leased)).await
}

async fn finish(store: &PostgresStore, seconds: i64, task: &Task, pages: u64) -> Task {
    let success = Change {
        metrics: Some(json!({ "read": pages, "failed": 0 })),
        ..change(task, Event::Succeeded)
    };
    at(store, seconds, success).await
}

/// Node `a` did the first task of a job in 20 s, failed the second, and holds the third; the fourth is another node's. It did the
/// one of another job, too.
async fn history() -> (PostgresStore, Job, Vec<Task>) {
    let store = store().await;
    let job = store.create_job(&new_job(4), now()).await.unwrap();
    let other = store.create_job(&new_job(1), now()).await.unwrap();
    let tasks = store.tasks(job.id).await.unwrap();
    let first = lease(&store, 0, &tasks[0], &job, "a.1/line_detection/1").await;
    finish(&store, 20, &first, 40).await;
    let second = lease(&store, 30, &tasks[1], &job, "a.1/line_detection/2").await;
    at(
        &store,
        35,
        change(&second, failure(ErrorCategory::Input, "broken")),
    )
    .await;
    lease(&store, 40, &tasks[2], &job, "a.1/line_detection/2").await;
    lease(&store, 40, &tasks[3], &job, "ab.1/line_detection/1").await;
    let elsewhere = store.tasks(other.id).await.unwrap().remove(0);
    let elsewhere = lease(&store, 50, &elsewhere, &other, "a.1/line_detection/2").await;
    finish(&store, 60, &elsewhere, 10).await;
    let tasks = store.tasks(job.id).await.unwrap();
    (store, job, tasks)
}

/// Rows: F4, F36.
#[tokio::test]
async fn what_a_node_did_is_counted_in_all_and_for_a_job() {
    let (store, job, tasks) = history().await;
    let of = async |job| store.node_statistics("a.1", job).await.unwrap().remove(0);
    let in_all = of(None).await;
    let counts = |found: &StageStatistics| (found.running, found.done, found.failed, found.pages);
    assert_eq!(counts(&in_all), (1, 2, 1, 50));
    let of_job = of(Some(job.id)).await;
    assert_eq!(counts(&of_job), (1, 1, 1, 40));
    let took = of_job.p50_s.unwrap();
    assert!((took - 20.0).abs() < 0.2, "{took}");
    assert_eq!(store.node_statistics("a", None).await.unwrap(), []);

    let pace = async |seconds| {
        let now = now() + TimeDelta::seconds(seconds);
        let paces = store.node_paces("a.1", now).await.unwrap();
        paces.first().map(|pace| pace.pages_a_second)
    };
    // The first run began a minute before the second ended.
    for seconds in [60, 120, 600] {
        assert_eq!(pace(seconds).await, Some(50.0 / 60.0), "after {seconds} s");
    }
    // The first run ended in these ten minutes, and began before them.
    assert_eq!(pace(610).await, Some(50.0 / 600.0));
    assert_eq!(pace(3_600).await, None);

    let held = store.held_by("a.1").await.unwrap();
    assert_eq!(held, [(job.key.clone(), tasks[2].clone())]);
}

/// Rows: F5.
#[tokio::test]
async fn tasks_are_listed_by_the_node_that_worked_on_them() {
    let (store, job, tasks) = history().await;
    let listed = async |node: &str, query: TaskQuery| {
        let page = store.tasks_of_node(&job, node, &query).await.unwrap();
        let places = page
            .tasks
            .iter()
            .map(|task| tasks.iter().position(|known| known == task).unwrap());
        (places.collect::<Vec<_>>(), page.next)
    };
    let query = |phase, after: Option<&TaskId>, limit| TaskQuery {
        phase,
        after: after.copied(),
        limit,
        ..TaskQuery::default()
    };
    assert_eq!(listed("a.1", query(None, None, 9)).await, (vec![0, 1, 2], None));
    assert_eq!(listed("ab.1", query(None, None, 9)).await, (vec![3], None));
    assert_eq!(listed("nobody", query(None, None, 9)).await, (vec![], None));
    let (first, next) = listed("a.1", query(None, None, 2)).await;
    assert_eq!((first, next), (vec![0, 1], Some(tasks[1].id)));
    assert_eq!(
        listed("a.1", query(None, next.as_ref(), 2)).await,
        (vec![2], None)
    );
    for (phase, place) in [
        (ListedPhase::Waiting, 0),
        (ListedPhase::Failed, 1),
        (ListedPhase::Running, 2),
    ] {
        assert_eq!(
            listed("a.1", query(Some(phase), None, 9)).await.0,
            [place],
            "{phase:?}"
        );
    }
    let at_last = TaskQuery {
        stage: job.pipeline.stages().last().cloned().map(AtStage::Last),
        ..query(None, None, 9)
    };
    assert_eq!(listed("a.1", at_last).await.0, [0; 0]);
    // The first of them has done the first stage, and waits for the second.
    for (stage, places) in [(0, &[1, 2][..]), (1, &[0])] {
        let waits = TaskQuery {
            stage: Some(AtStage::Next(job.pipeline.stages()[stage].clone())),
            ..query(None, None, 9)
        };
        assert_eq!(listed("a.1", waits).await.0, places, "{stage}");
    }
}

/// Rows: F4, F37.
#[tokio::test]
async fn the_slowest_volumes_of_a_job_and_those_with_failed_pages_are_found() {
    let store = store().await;
    let job = store.create_job(&new_job(3), now()).await.unwrap();
    let other = store.create_job(&new_job(1), now()).await.unwrap();
    let mut tasks = store.tasks(job.id).await.unwrap();
    tasks.extend(store.tasks(other.id).await.unwrap());
    for (task, (ms, nb_errors)) in tasks
        .iter()
        .zip([(2_000.0, 1), (9_000.0, 0), (4_000.0, 3), (99_000.0, 5)])
    {
        let leased = at(
            &store,
            0,
            change(
                task,
                Event::Leased {
                    stage: job.pipeline.first().clone(),
                    worker: testing::worker("w"),
                    until: now() + TimeDelta::hours(1),
                },
            ),
        )
        .await;
        let results = VolumeResults {
            total_images: 10,
            total_lines: 60,
            total_characters: 900,
            processing_duration_ms: ms,
            nb_errors,
            ..VolumeResults::default()
        };
        let done = Change {
            results: Some(results),
            ..change(&leased, Event::Succeeded)
        };
        at(&store, 1, done).await;
    }
    let slowest = store.slowest_volumes(job.id, 2).await.unwrap();
    let listed: Vec<(&str, f64)> = slowest
        .iter()
        .map(|slow| (slow.volume.as_str(), slow.seconds))
        .collect();
    let name = |place: usize| tasks[place].volume.to_string();
    assert_eq!(listed, [(name(1).as_str(), 9.0), (name(2).as_str(), 4.0)]);

    let failed = async |after| {
        let failed = store.volumes_with_failed_pages(job.id, after, 1).await.unwrap();
        failed
            .first()
            .map(|failed| (failed.volume.to_string(), failed.failed_pages, failed.task))
    };
    assert_eq!(failed(None).await, Some((name(0), 1, tasks[0].id)));
    assert_eq!(failed(Some(tasks[0].id)).await, Some((name(2), 3, tasks[2].id)));
    assert_eq!(failed(Some(tasks[2].id)).await, None);
}

#[tokio::test]
async fn what_a_node_did_is_found_without_a_look_at_what_others_did() {
    let store = store().await;
    store.create_job(&new_job(1), now()).await.unwrap();
    raw_sql(
        "insert into volumes (bdrc_w_id, bdrc_i_id) select 'W2', 'I' || n from generate_series(1, 30000) n;
         insert into tasks (job_id, volume_id, max_attempts, allowance, current_stage, status, done_at)
         select 1, id, 3, 3, 'done', 'done', now() from volumes where bdrc_w_id = 'W2';
         insert into stage_runs (task_id, stage, attempt, generation, status, worker_id, started_at, done_at)
         select id, 'ocr', 1, 0, 'done', 'gpu-' || id % 100 || '.1/ocr/1', now() - interval '1 minute', now() from tasks;
         insert into volume_results (
             task_id, total_images, total_lines, total_characters, processing_duration_ms, dewarping_applied_count, nb_errors,
             confidence_mean, perplexity
         )
         select id, 1, 1, 1, id, 0, case when id % 20 = 0 then 3 else 0 end, random(), 1 + 100 * random() from tasks where current_stage = 'done';
         analyze",
    )
    .execute(&store.pool)
    .await
    .unwrap();
    for (statement, parameters, index) in [
        (RUNS, "'gpu-7.1', null", "stage_runs_by_node"),
        (RUNS, "'gpu-7.1', 1", "stage_runs_by_node"),
        (
            LATEST,
            "'gpu-7.1', now() - interval '10 minutes'",
            "stage_runs_by_node",
        ),
        (HOLDS, "'gpu-7.1'", "tasks_leased"),
        (
            WORKED_ON,
            "1, 0, 50, 'gpu-7.1', null, null, null, null",
            "stage_runs_by_node",
        ),
        (SLOWEST, "1, 5", "volume_results_slowest"),
        (WITH_FAILED_PAGES, "1, 0, 50", "volume_results_errors"),
        (BY_PERPLEXITY, "1, 5", "volume_results_perplexity"),
        (BY_CONFIDENCE, "1, 5", "volume_results_confidence"),
    ] {
        let plan = plan_of(&store, statement, parameters).await;
        assert!(plan.contains(index), "{plan}");
        assert!(!plan.contains("Seq Scan on tasks"), "{plan}");
        assert!(!plan.contains("Seq Scan on stage_runs"), "{plan}");
    }
}
