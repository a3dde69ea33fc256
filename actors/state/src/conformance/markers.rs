use super::*;
use parkhang_core::domain::LayoutName;

pub(super) async fn suite(make: &impl AsyncFn() -> Store) {
    an_end_is_to_be_marked_once(make().await).await;
    layouts_without_markers_have_none(make().await).await;
}

async fn marked_job(store: &Store, layout: LayoutName) -> (Job, Vec<Task>) {
    let mut job = new_job("job", &["I1", "I2", "I3"]);
    job.config.layout = layout;
    let job = store.create_job(&job, at(0)).await.unwrap();
    let tasks = store.tasks(job.id).await.unwrap();
    (job, tasks)
}

async fn finished(store: &Store, job: &Job, task: &Task) -> Task {
    let detected = run_stage(store, job, task, Event::Succeeded).await;
    run_stage(store, job, &detected, Event::Succeeded).await
}

async fn due(store: &Store) -> Vec<Task> {
    let due = store.volumes_to_mark(None, 10).await.unwrap();
    due.into_iter().map(|(task, _)| task).collect()
}

async fn note(store: &Store, task: &Task) {
    store.volumes_marked(&[(task.id, task.generation)]).await.unwrap();
}

/// Rows: 94, U30.
async fn an_end_is_to_be_marked_once(store: Store) {
    let (job, tasks) = marked_job(&store, LayoutName::BdrcV1).await;
    assert_eq!(due(&store).await, []);
    let failed = run_stage(&store, &job, &tasks[2], failure(ErrorCategory::Input)).await;
    let detected = run_stage(&store, &job, &tasks[0], Event::Succeeded).await;
    assert_eq!(due(&store).await, std::slice::from_ref(&failed));
    let done = run_stage(&store, &job, &detected, Event::Succeeded).await;
    assert_eq!(due(&store).await, [done.clone(), failed.clone()]);
    assert_eq!(store.volumes_to_mark(None, 1).await.unwrap()[0].1.key, job.key);
    assert_eq!(store.volumes_to_mark(None, 1).await.unwrap().len(), 1);
    let behind = store.volumes_to_mark(Some(done.id), 10).await.unwrap();
    assert_eq!(behind.len(), 1);
    assert_eq!(behind[0].0, failed);
    assert!(
        store
            .volumes_to_mark(Some(failed.id), 10)
            .await
            .unwrap()
            .is_empty()
    );

    note(&store, &done).await;
    assert_eq!(due(&store).await, std::slice::from_ref(&failed));
    store.volumes_marked(&[]).await.unwrap();
    note(&store, &failed).await;
    assert_eq!(due(&store).await, []);

    // What is done again comes to another end. The mark of the first one, arriving late, is not its own.
    let again = applied(&store, change(&done, rerun_from("read"))).await;
    assert_eq!(due(&store).await, []);
    let again = run_stage(&store, &job, &again, Event::Succeeded).await;
    note(&store, &done).await;
    assert_eq!(due(&store).await, std::slice::from_ref(&again));
    note(&store, &again).await;
    assert_eq!(due(&store).await, []);
    assert_eq!(
        current(&store, &again).await,
        again,
        "a mark changes nothing of the task"
    );
}

async fn layouts_without_markers_have_none(store: Store) {
    let (job, tasks) = marked_job(&store, LayoutName::BdrcV2).await;
    finished(&store, &job, &tasks[0]).await;
    assert_eq!(due(&store).await, []);
}
