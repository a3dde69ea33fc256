use chrono::{DateTime, TimeDelta, Utc};
use parkhang_test_support::Wait;
use serde_json::json;
use sqlx::raw_sql;

use super::*;
use crate::postgres::PostgresStore;
use crate::postgres::tests::{applied, change, failure, lease, new_job, now, plan_of, store};
use crate::{Change, ImportOutcome, StateStore, VolumeImport};
use parkhang_core::domain::{ErrorCategory, JobKey, JobStatus, NewJob, TaskStatus};
use parkhang_core::policy::job_action::JobAction;
use parkhang_core::policy::transition::Event;

fn image(name: &str) -> ImageRecord {
    ImageRecord {
        name: name.to_owned(),
        width: Some(878),
        height: Some(1138),
        mode: Some("1".to_owned()),
        size: Some(5_000_000_000),
        ..ImageRecord::default()
    }
}

fn import(volume: &str, etag: &str, images: usize) -> VolumeImport {
    VolumeImport {
        volume: volume.parse().unwrap(),
        etag: etag.to_owned(),
        images: (0..images).map(|n| image(&format!("{n}.tif"))).collect(),
    }
}

async fn names(store: &PostgresStore, query: VolumeQuery) -> Vec<String> {
    let page = store.list_volumes(&query).await.unwrap();
    page.volumes
        .iter()
        .map(|volume| volume.volume.to_string())
        .collect()
}

/// Rows: 86, 111, F24.
#[tokio::test]
async fn an_import_keeps_the_latest_list_and_may_be_repeated() {
    let store = store().await;
    // One of them is in a job already.
    store.create_job(&new_job(1), now()).await.unwrap();
    let imports = [
        import("W1-I0", "aa11", 3),
        import("W2-I1", "bb22", 0),
        import("W1-I0", "aa11", 3),
    ];
    let outcomes = store.import_volumes(&imports, now()).await.unwrap();
    use ImportOutcome::{Changed, New, Unchanged};
    assert_eq!(outcomes, [New, New, Unchanged]);
    let again = store
        .import_volumes(&imports, now() + TimeDelta::days(1))
        .await
        .unwrap();
    assert_eq!(again, [Unchanged; 3]);

    let volume: VolumeId = "W1-I0".parse().unwrap();
    let known = store.volume(&volume).await.unwrap().unwrap();
    let list = ListRecord {
        etag: "aa11".to_owned(),
        images: 3,
        imported_at: now(),
    };
    assert_eq!(known.list, Some(list));
    let images = store.images(&volume, 1, 9).await.unwrap();
    assert_eq!(images, [image("1.tif"), image("2.tif")]);

    let later = now() + TimeDelta::days(2);
    let shorter = [import("W1-I0", "cc33", 1)];
    assert_eq!(store.import_volumes(&shorter, later).await.unwrap(), [Changed]);
    assert_eq!(store.images(&volume, 0, 9).await.unwrap(), [image("0.tif")]);
    let etags = store
        .list_etags(&[volume.clone(), "W9-I9".parse().unwrap()])
        .await
        .unwrap();
    assert_eq!(etags, HashMap::from([(volume, "cc33".to_owned())]));
    let since = VolumeQuery {
        imported_since: Some(later),
        ..VolumeQuery::default()
    };
    assert_eq!(names(&store, since).await, ["W1-I0"]);
}

#[tokio::test]
async fn imports_of_the_same_volumes_do_not_deadlock() {
    let store = store().await;
    let (one, mut other): (Vec<_>, Vec<_>) = (0..200)
        .map(|n| {
            let volume = format!("W1-I{n}");
            (import(&volume, "aa", 2), import(&volume, "bb", 3))
        })
        .unzip();
    other.reverse();
    let imports = [&one, &other].map(|imports| store.import_volumes(imports, now()));
    for outcomes in futures::future::join_all(imports).await {
        assert_eq!(outcomes.unwrap().len(), 200);
    }
    // Each list is there whole, whichever came last.
    for volume in store.list_volumes(&VolumeQuery::default()).await.unwrap().volumes {
        let images = store.images(&volume.volume, 0, 9).await.unwrap();
        assert_eq!(images.len(), volume.list.unwrap().images as usize);
    }
}

#[tokio::test]
async fn volumes_are_listed_by_name_a_page_at_a_time() {
    let store = store().await;
    let known = ["W1-I2", "W1-I10", "W10-I1", "W1_a-I1", "w1-I1", "W2-I1"];
    let imports: Vec<VolumeImport> = known.map(|volume| import(volume, "aa", 1)).to_vec();
    store.import_volumes(&imports, now()).await.unwrap();
    let (mut seen, mut after) = (Vec::new(), None);
    loop {
        let query = VolumeQuery {
            after,
            limit: Some(2),
            ..VolumeQuery::default()
        };
        let page = store.list_volumes(&query).await.unwrap();
        assert!(page.volumes.len() <= 2);
        seen.extend(page.volumes.into_iter().map(|volume| volume.volume.to_string()));
        after = page.next;
        if after.is_none() {
            break;
        }
    }
    assert_eq!(seen, ["W1-I10", "W1-I2", "W10-I1", "W1_a-I1", "W2-I1", "w1-I1"]);
    let of = |collection: &str| VolumeQuery {
        collection: Some(collection.to_owned()),
        ..VolumeQuery::default()
    };
    assert_eq!(names(&store, of("W1")).await, seen[..4]);
    assert_eq!(names(&store, of("W1_")).await, ["W1_a-I1"]);
    let about = |text: &str| VolumeQuery {
        text: Some(text.to_owned()),
        ..VolumeQuery::default()
    };
    assert_eq!(names(&store, about("w1-i1")).await, ["W1-I10", "w1-I1"]);
    assert_eq!(names(&store, about("%")).await, [""; 0]);
}

/// Rows: 128.
#[tokio::test]
async fn documents_are_found_by_the_id_at_their_source() {
    let store = store().await;
    let known = ["HKEX-1", "HKEX-1@2", "HKEX-3@1-2", "ASX-1", "HKEX-11", "HKEX-1-2"];
    let known = known.map(|volume| import(volume, "aa", 1));
    store.import_volumes(&known, now()).await.unwrap();
    for (source, limit, expected) in [
        ("1", 9, &["ASX-1", "HKEX-1"][..]),
        ("1", 1, &["ASX-1"]),
        ("1-2", 9, &["HKEX-1-2"]),
        ("3", 9, &["HKEX-3"]),
        ("2", 9, &[]),
    ] {
        let found = store.documents_of_source(source, limit).await.unwrap();
        let found: Vec<String> = found.iter().map(ToString::to_string).collect();
        assert_eq!(found, expected, "{source} {limit}");
    }
}

/// Gets a volume of a job done by a model that read this version of it, at a time.
async fn finish(store: &PostgresStore, job: &Job, version: Option<&str>, at: DateTime<Utc>) {
    let mut task = store.tasks(job.id).await.unwrap().remove(0);
    while task.status != TaskStatus::Done || task.position.as_str() != "done" {
        let leased = store.commit(&[lease(&task, job)], at).await.unwrap().remove(0);
        let success = Change {
            metrics: Some(json!({ "version": version, "models": ["reader-1"] })),
            ..change(&leased.applied().unwrap(), Event::Succeeded)
        };
        let done = store.commit(&[success], at).await.unwrap().remove(0);
        task = done.applied().unwrap();
    }
}

/// Rows: F8, 149.
#[tokio::test]
async fn a_volume_has_been_read_if_its_latest_version_was() {
    let store = store().await;
    let job = store.create_job(&new_job(1), now()).await.unwrap();
    let volume = store.tasks(job.id).await.unwrap().remove(0).volume;
    let readers = |model: Option<&str>| Readers {
        jobs: vec![job.id],
        model: model.map(str::to_owned),
    };
    let is_read = async |readers: Readers| {
        let volumes = [volume.clone(), "W9-I9".parse().unwrap()];
        let read = store.already_read(&volumes, &job.pipeline, &readers).await;
        !read.unwrap().is_empty()
    };
    finish(&store, &job, Some("aa11"), now()).await;
    assert!(
        !is_read(readers(None)).await,
        "nobody knows what the latest version is"
    );
    let mut list = import(&volume.to_string(), "aa11-2", 1);
    store
        .import_volumes(std::slice::from_ref(&list), now() + TimeDelta::days(1))
        .await
        .unwrap();
    assert!(is_read(readers(None)).await);
    assert!(is_read(readers(Some("reader-1"))).await);
    assert!(!is_read(readers(Some("reader"))).await);
    assert!(!is_read(Readers::default()).await);
    list.etag = "bb22".to_owned();
    store
        .import_volumes(&[list], now() + TimeDelta::days(2))
        .await
        .unwrap();
    assert!(!is_read(readers(None)).await);
}

#[tokio::test]
async fn a_run_that_knows_no_version_counts_by_its_time() {
    let store = store().await;
    let (early, late) = (now(), now() + TimeDelta::days(2));
    for (at, read) in [(early, 0), (late, 1)] {
        let job = store.create_job(&new_job(1), now()).await.unwrap();
        finish(&store, &job, None, at).await;
        let list = import("W1-I0", "aa11", 1);
        store
            .import_volumes(&[list], now() + TimeDelta::days(1))
            .await
            .unwrap();
        let readers = Readers {
            jobs: vec![job.id],
            model: None,
        };
        let volumes = ["W1-I0".parse().unwrap()];
        let found = store
            .already_read(&volumes, &job.pipeline, &readers)
            .await
            .unwrap();
        assert_eq!(found.len(), read);
    }
    let work = store.work_on(&"W1-I0".parse().unwrap(), 1).await.unwrap();
    assert_eq!(work.len(), 1);
    assert_eq!((work[0].job.id.0, work[0].task.done_at), (2, Some(late)));
}

#[tokio::test]
async fn the_jobs_of_several_volumes_are_found_together() {
    let store = store().await;
    let mut created = Vec::new();
    for names in [&["H-1@2", "H-1@3"][..], &["H-1@2"], &["H-1@2", "H-1", "H-2"]] {
        let job = NewJob {
            volumes: names.iter().map(|name| name.parse().unwrap()).collect(),
            ..new_job(0)
        };
        created.push(store.create_job(&job, now()).await.unwrap());
    }
    let volumes = ["H-1@2", "H-1", "H-1@9"].map(|name| name.parse().unwrap());
    let found = store.jobs_of(&volumes, 2).await.unwrap();
    let named: Vec<(&Job, String)> = found
        .iter()
        .map(|(job, volume)| (job, volume.to_string()))
        .collect();
    let expected = [(2, "H-1"), (2, "H-1@2"), (1, "H-1@2")];
    assert_eq!(
        named,
        expected.map(|(job, volume)| (&created[job], volume.to_owned()))
    );
    assert_eq!(store.jobs_of(&[], 2).await.unwrap(), []);
}

#[tokio::test]
async fn the_parts_of_a_document_are_found() {
    let store = store().await;
    let names = [
        "H-1",
        "H-1@2",
        "H-1@1_3-4",
        "H-10",
        "H-10@1",
        "H-1A",
        "H-1.5",
        "G-1@2",
    ];
    let volumes: Vec<VolumeId> = names.map(|name| name.parse().unwrap()).to_vec();
    let job = NewJob {
        volumes,
        ..new_job(0)
    };
    store.create_job(&job, now()).await.unwrap();
    let parts = async |document: &str| -> Vec<String> {
        let parts = store.parts_of(&document.parse().unwrap(), 9).await.unwrap();
        parts.iter().map(ToString::to_string).collect()
    };
    assert_eq!(parts("H-1").await, ["H-1@1_3-4", "H-1@2"]);
    assert_eq!(parts("H-10").await, ["H-10@1"]);
    assert_eq!(parts("H-2").await, Vec::<String>::new());
}

#[tokio::test]
async fn failures_are_found_by_their_cause() {
    let store = store().await;
    let job = store.create_job(&new_job(4), now()).await.unwrap();
    let tasks = store.tasks(job.id).await.unwrap();
    for (task, category, message) in [
        (&tasks[0], ErrorCategory::Input, "page 7 is no Image"),
        (&tasks[1], ErrorCategory::Config, "no such volume"),
        (&tasks[2], ErrorCategory::Transient, "busy"),
    ] {
        let leased = applied(&store, lease(task, &job)).await;
        applied(&store, change(&leased, failure(category, message))).await;
    }
    for (cause, expected) in [
        (None, &[0, 1][..]),
        (Some("input"), &[0]),
        (Some("no image"), &[0]),
        (Some("VOLUME"), &[1]),
        (Some("busy"), &[]),
    ] {
        let expected: Vec<&VolumeId> = expected.iter().map(|place| &tasks[*place].volume).collect();
        let failed = store.failed_volumes(&job, cause).await.unwrap();
        assert_eq!(failed.iter().collect::<Vec<_>>(), expected, "{cause:?}");
    }
}

/// Rows: 102, 103, 104, 105, 149.
#[tokio::test]
async fn a_job_made_in_chunks_begins_with_the_last_of_them() {
    let store = store().await;
    let mut changes = store.job_changes().await.unwrap();
    let job = store.create_job_in_chunks(&new_job(7), 3, now()).await.unwrap();
    assert_eq!((job.key.as_str(), job.status), ("J1", JobStatus::Running));
    assert_eq!(store.tasks(job.id).await.unwrap().len(), 7);
    changes.next().await.unwrap();
    let empty = store.create_job_in_chunks(&new_job(0), 3, now()).await.unwrap();
    assert_eq!(store.tasks(empty.id).await.unwrap(), []);
    let named = NewJob {
        key: Some(job.key),
        ..new_job(1)
    };
    let refused = store.create_job_in_chunks(&named, 3, now()).await.unwrap_err();
    assert!(matches!(refused, StateError::JobExists(_)), "{refused}");
}

#[tokio::test]
async fn a_job_that_is_paused_while_it_is_made_stays_paused() {
    let store = store().await;
    let new = NewJob {
        key: Some(JobKey::new("large").unwrap()),
        ..new_job(300)
    };
    let key = new.key.clone().unwrap();
    let maker = store.clone();
    let making = tokio::spawn(async move { maker.create_job_in_chunks(&new, 1, now()).await });
    let made = Wait::until("the job is there")
        .sees_async(async || store.job(&key).await.unwrap(), Option::is_some)
        .await
        .unwrap();
    assert_eq!(made.status, JobStatus::Created, "it has more volumes to come");
    store.act_on_job(made.id, JobAction::Pause).await.unwrap();
    let job = making.await.unwrap().unwrap();
    assert_eq!(job.status, JobStatus::Paused);
    assert_eq!(store.job_by_id(job.id).await.unwrap(), Some(job.clone()));
    assert_eq!(store.tasks(job.id).await.unwrap().len(), 300);
}

#[tokio::test]
async fn questions_about_volumes_cost_what_they_show() {
    let store = store().await;
    let job = store.create_job(&new_job(4), now()).await.unwrap();
    raw_sql(
        "insert into volumes (bdrc_w_id, bdrc_i_id, etag, nb_images, imported_at)
         select 'V' || n % 1000, 'I' || n, 'aa', 10, now() from generate_series(1, 60000) n;
         insert into tasks (job_id, volume_id, max_attempts, allowance, current_stage, status, done_at)
         select 1, id, 3, 3, 'done', 'done', now() from volumes where etag is not null;
         insert into stage_runs (task_id, stage, attempt, generation, status, worker_id, started_at, done_at)
         select id, 'line_detection', 1, 0, 'done', 'w', now(), now() from tasks;
         insert into images (volume_id, position, file_name)
         select id, n, n || '.tif' from volumes, generate_series(0, 2) n;
         analyze",
    )
    .execute(&store.pool)
    .await
    .unwrap();
    assert_eq!(job.id.0, 1);
    for (statement, parameters, index) in [
        (
            LIST,
            "'V22', null, null, null, null, 50, null, null",
            "volumes_by_name",
        ),
        (
            LIST,
            "null, 'V7', 'I77', null, null, 50, null, null",
            "volumes_by_name",
        ),
        (PARTS, "'V7', 'I77', 50", "volumes_by_name"),
        (OF_SOURCE, "'I7', 20", "volumes_by_source"),
        (IMAGES, "'V7', 'I7', 0, 50", "images_pkey"),
        (WORK, "'V7', 'I7', 20", "tasks_by_volume"),
        (JOBS_OF, "'{V7,V8}', '{I7,I8}', 20", "tasks_by_volume"),
        (
            READ,
            "'{V7}', '{I7}', '{1}', 'line_detection', null",
            "tasks_by_volume",
        ),
    ] {
        let plan = plan_of(&store, statement, parameters).await;
        assert!(plan.contains(index), "{plan}");
        for table in ["tasks", "stage_runs", "images"] {
            assert!(!plan.contains(&format!("Seq Scan on {table}")), "{plan}");
        }
    }
}
