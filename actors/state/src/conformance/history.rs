//! History and results of tasks, and sums over them.

use serde_json::json;

use super::*;
use crate::StageStatistics;
use parkhang_core::domain::{StageRunStatus, VolumeResults};
use parkhang_core::policy::job_action::JobAction;

pub(super) async fn suite(make: &impl AsyncFn() -> Store) {
    every_lease_has_its_row(make().await).await;
    quarantine_of_a_waiting_task_ends_no_run(make().await).await;
    results_come_with_the_success(make().await).await;
    tasks_are_counted_where_they_stand(make().await).await;
    runs_are_summed_up_by_stage(make().await).await;
}

/// Rows: F35.
async fn every_lease_has_its_row(store: Store) {
    let (job, tasks) = job_with(&store, &["I1"]).await;
    let failed = run_stage(&store, &job, &tasks[0], failure(ErrorCategory::Network)).await;
    let interrupted = run_stage(&store, &job, &failed, Event::Interrupted).await;
    let running = applied(&store, lease(&interrupted, &job, "third")).await;
    let success = Change {
        metrics: Some(json!({"pages": 12})),
        fingerprint: Some("sha256:1f".to_owned()),
        ..change(&running, Event::Succeeded)
    };
    let detected = applied(&store, success).await;
    let reading = applied(&store, lease(&detected, &job, "fourth")).await;
    applied(&store, change(&reading, rerun_from("detect"))).await;

    let runs = store.stage_runs(tasks[0].id).await.unwrap();
    let statuses: Vec<_> = runs.iter().map(|run| run.status).collect();
    assert_eq!(
        statuses,
        [
            StageRunStatus::Failed,
            StageRunStatus::Interrupted,
            StageRunStatus::Done,
            StageRunStatus::Interrupted
        ]
    );
    assert_eq!(runs[0].error, failed.last_error);
    assert_eq!(
        (&runs[2].fence, &runs[2].worker.0[..]),
        (&running.fence().unwrap(), "third")
    );
    assert_eq!(runs[2].metrics, json!({"pages": 12}));
    assert_eq!(runs[2].fingerprint.as_deref(), Some("sha256:1f"));
    assert_eq!((runs[2].started_at, runs[2].ended_at), (at(1), Some(at(1))));
    assert_eq!(runs[3].error, None);
    assert_eq!(
        store
            .stage_runs(parkhang_core::domain::TaskId(4711))
            .await
            .unwrap(),
        vec![]
    );
}

async fn quarantine_of_a_waiting_task_ends_no_run(store: Store) {
    let (job, tasks) = job_with(&store, &["I1"]).await;
    let waiting = run_stage(&store, &job, &tasks[0], Event::Interrupted).await;
    let error = StageError::new("detect", ErrorCategory::Runtime, "killed its workers");
    let poison = applied(&store, change(&waiting, Event::Quarantined { error })).await;
    assert_eq!(poison.last_error.unwrap().category, ErrorCategory::Poison);
    let runs = store.stage_runs(tasks[0].id).await.unwrap();
    assert!(matches!(&runs[..], [run] if run.status == StageRunStatus::Interrupted));
    assert_eq!(store.finish_jobs(at(9)).await.unwrap().len(), 1);
}

/// Rows: F35.
async fn results_come_with_the_success(store: Store) {
    let (job, tasks) = job_with(&store, &["I1"]).await;
    let results = VolumeResults {
        total_images: 300,
        total_lines: 1800,
        total_characters: 120_000,
        processing_duration_ms: 1234.5,
        dewarping_applied_count: 7,
        nb_errors: 1,
        confidence_mean: Some(0.75),
        confidence_p10: Some(0.5),
        confidence_p50: None,
        confidence_p90: Some(1.0),
        perplexity: Some(6.5),
    };
    let detected = run_stage(&store, &job, &tasks[0], Event::Succeeded).await;
    let reading = applied(&store, lease(&detected, &job, "w")).await;
    let success = |results: &VolumeResults| Change {
        results: Some(results.clone()),
        ..change(&reading, Event::Succeeded)
    };
    assert_eq!(store.volume_results(tasks[0].id).await.unwrap(), None);
    let done = applied(&store, success(&results)).await;
    assert_eq!(
        store.volume_results(tasks[0].id).await.unwrap(),
        Some(results.clone())
    );
    fenced(&store, success(&VolumeResults::default())).await;
    assert_eq!(
        store.volume_results(tasks[0].id).await.unwrap(),
        Some(results.clone())
    );

    let again = applied(&store, change(&done, rerun_from("read"))).await;
    let reading = applied(&store, lease(&again, &job, "w")).await;
    let better = VolumeResults {
        nb_errors: 0,
        ..results
    };
    let success = Change {
        results: Some(better.clone()),
        ..change(&reading, Event::Succeeded)
    };
    applied(&store, success).await;
    assert_eq!(store.volume_results(tasks[0].id).await.unwrap(), Some(better));
}

async fn tasks_are_counted_where_they_stand(store: Store) {
    let counted = async || {
        let counts = store.count_tasks().await.unwrap();
        let mut counts: Vec<String> = counts
            .iter()
            .map(|count| format!("{} {} {}", count.position, count.status.as_str(), count.tasks))
            .collect();
        counts.sort();
        counts
    };
    assert_eq!(counted().await, Vec::<String>::new());
    let (job, tasks) = job_with(&store, &["I1", "I2", "I3"]).await;
    applied(&store, lease(&tasks[0], &job, "w")).await;
    assert_eq!(counted().await, ["detect running 1", "pending pending 2"]);
    let detected = run_stage(&store, &job, &tasks[1], Event::Succeeded).await;
    run_stage(&store, &job, &detected, Event::Succeeded).await;
    run_stage(&store, &job, &tasks[2], failure(ErrorCategory::Input)).await;
    store.add_volumes(job.id, &volumes(&["I1", "I4"])).await.unwrap();
    let places = [
        "detect failed 1",
        "detect running 1",
        "done done 1",
        "pending pending 1",
    ];
    assert_eq!(counted().await, places);
    store.act_on_job(job.id, JobAction::Pause).await.unwrap();
    assert_eq!(counted().await.len(), 4, "a paused job is not over");
    store.act_on_job(job.id, JobAction::Cancel).await.unwrap();
    assert_eq!(counted().await, Vec::<String>::new());
}

/// Rows: F4, F35.
async fn runs_are_summed_up_by_stage(store: Store) {
    let names = ["I1", "I2", "I3", "I4"];
    let (job, tasks) = job_with(&store, &names).await;
    assert_eq!(store.stage_statistics(job.id).await.unwrap(), []);
    // Begun at second 1; they take 1, 2 and 4 seconds.
    for (task, end) in tasks.iter().zip([2, 3, 5]) {
        let running = applied(&store, lease(task, &job, "w")).await;
        let success = Change {
            metrics: Some(json!({"pages": 12, "read": 9, "skipped": 2, "failed": 1})),
            ..change(&running, Event::Succeeded)
        };
        store.commit(&[success], at(end)).await.unwrap();
    }
    let failed = run_stage(&store, &job, &tasks[3], failure(ErrorCategory::Network)).await;
    let interrupted = run_stage(&store, &job, &failed, Event::Interrupted).await;
    applied(&store, lease(&interrupted, &job, "w")).await;
    let next = current(&store, &tasks[0]).await;
    applied(&store, lease(&next, &job, "w")).await;

    let found = store.stage_statistics(job.id).await.unwrap();
    let [detect, read] = &found[..] else {
        panic!("two stages: {found:?}");
    };
    let counts = |stage: &StageStatistics| [stage.running, stage.done, stage.failed, stage.interrupted];
    assert_eq!(detect.stage, stage("detect"));
    assert_eq!(counts(detect), [1, 3, 1, 1]);
    let about = |found: Option<f64>, exact: f64| (found.unwrap() / exact - 1.0).abs() < 0.011;
    assert!(about(detect.p50_s, 2.0) && about(detect.p95_s, 4.0), "{detect:?}");
    assert_eq!((detect.seconds, detect.pages), (7.0, 30));
    // One of them took between 3 and 10 seconds.
    assert_eq!(
        (detect.durations[4], detect.durations.iter().sum::<u64>()),
        (1, 3)
    );
    assert_eq!(read.durations, [0; 12]);
    assert_eq!(counts(read), [1, 0, 0, 0]);
    assert_eq!(
        (read.p50_s, read.pages, read.pages_per_slot_second()),
        (None, 0, None)
    );
}
