use chrono::{DateTime, TimeDelta, Utc};
use serde_json::json;
use sqlx::raw_sql;

use super::paces::{OF_NODES, PACES};
use super::tasks::{ALL, DONE, FAILED, OPEN};
use crate::postgres::PostgresStore;
use crate::postgres::tests::{applied, change, failure, lease, new_job, now, plan_of, store};
use crate::{AtStage, AuditEntry, AuditQuery, Change, ListedPhase, StateStore, TaskQuery};
use parkhang_core::domain::testing::stage;
use parkhang_core::domain::{ErrorCategory, Job, JobId, Task, VolumeId};
use parkhang_core::policy::job_action::JobAction;
use parkhang_core::policy::transition::Event;

fn query(phase: Option<ListedPhase>, limit: u32) -> TaskQuery {
    TaskQuery {
        phase,
        limit,
        ..TaskQuery::default()
    }
}

async fn volumes(store: &PostgresStore, job: &Job, query: &TaskQuery) -> Vec<String> {
    let page = store.list_tasks(job, query).await.unwrap();
    page.tasks.iter().map(|task| task.volume.to_string()).collect()
}

async fn fail(store: &PostgresStore, job: &Job, task: &Task, category: ErrorCategory, message: &str) -> Task {
    let task = applied(store, lease(task, job)).await;
    applied(store, change(&task, failure(category, message))).await
}

/// Rows: F5.
#[tokio::test]
async fn a_list_has_pages_that_together_hold_every_task_once() {
    let store = store().await;
    let job = store.create_job(&new_job(7), now()).await.unwrap();
    store.create_job(&new_job(3), now()).await.unwrap();
    let all: Vec<Task> = store.tasks(job.id).await.unwrap();
    let (mut seen, mut after) = (Vec::new(), None);
    loop {
        let page = store
            .list_tasks(
                &job,
                &TaskQuery {
                    after,
                    ..query(None, 3)
                },
            )
            .await
            .unwrap();
        assert!(page.tasks.len() <= 3);
        seen.extend(page.tasks);
        after = page.next;
        if after.is_none() {
            break;
        }
    }
    assert_eq!(seen, all);
}

/// Rows: 75, F5.
#[tokio::test]
async fn tasks_are_listed_by_how_far_they_are() {
    let store = store().await;
    let job = store.create_job(&new_job(5), now()).await.unwrap();
    let tasks = store.tasks(job.id).await.unwrap();
    let [running, retrying, failed, between, _] = &tasks[..] else {
        panic!("there are five");
    };
    applied(&store, lease(running, &job)).await;
    fail(&store, &job, retrying, ErrorCategory::Transient, "busy").await;
    fail(&store, &job, failed, ErrorCategory::Input, "broken").await;
    let leased = applied(&store, lease(between, &job)).await;
    applied(&store, change(&leased, Event::Succeeded)).await;
    let names: Vec<String> = tasks.iter().map(|task| task.volume.to_string()).collect();
    for (phase, places) in [
        (ListedPhase::Waiting, &[3, 4][..]),
        (ListedPhase::Running, &[0]),
        (ListedPhase::Retrying, &[1]),
        (ListedPhase::Failed, &[2]),
        (ListedPhase::Done, &[]),
        (ListedPhase::Cancelled, &[]),
    ] {
        let expected: Vec<&String> = places.iter().map(|place| &names[*place]).collect();
        let listed = volumes(&store, &job, &query(Some(phase), 9)).await;
        assert_eq!(listed.iter().collect::<Vec<_>>(), expected, "{phase:?}");
    }
    let [first, second] = &job.pipeline.stages()[..2] else {
        panic!("there are two stages");
    };
    let of = async |stage: AtStage, phase| {
        let query = TaskQuery {
            stage: Some(stage),
            ..query(phase, 9)
        };
        volumes(&store, &job, &query).await
    };
    let waiting = Some(ListedPhase::Waiting);
    let begun = [&names[0], &names[1], &names[2], &names[4]].map(Clone::clone);
    assert_eq!(of(AtStage::Next(first.clone()), None).await, begun);
    assert_eq!(of(AtStage::Next(first.clone()), waiting).await, names[4..]);
    assert_eq!(of(AtStage::Next(second.clone()), None).await, names[3..4]);
    assert_eq!(of(AtStage::Last(first.clone()), None).await, names[..4]);
    assert_eq!(of(AtStage::Last(first.clone()), waiting).await, names[3..4]);
    assert_eq!(of(AtStage::Last(second.clone()), None).await, [""; 0]);
    let unknown = stage("proofs");
    assert_eq!(of(AtStage::Next(unknown), None).await, [""; 0]);

    let cancelled = store.act_on_job(job.id, JobAction::Cancel).await.unwrap();
    let of = async |phase| volumes(&store, &cancelled, &query(Some(phase), 9)).await;
    let waited = [&names[1], &names[3], &names[4]].map(Clone::clone);
    assert_eq!(of(ListedPhase::Cancelled).await, waited);
    assert_eq!(of(ListedPhase::Waiting).await, [""; 0]);
    assert_eq!(of(ListedPhase::Running).await, names[..1]);
    assert_eq!(of(ListedPhase::Failed).await, names[2..3]);
}

/// Rows: 118, F37.
#[tokio::test]
async fn failures_that_differ_in_numbers_and_names_are_one_cause() {
    let store = store().await;
    let job = store.create_job(&new_job(4), now()).await.unwrap();
    let tasks = store.tasks(job.id).await.unwrap();
    let messages = [
        "page 7 of \"a.jpg\" is no image",
        "page 31 of \"b.jpg\" is no image",
        "disk full",
    ];
    for (task, message) in tasks.iter().zip(messages) {
        fail(&store, &job, task, ErrorCategory::Input, message).await;
    }
    fail(&store, &job, &tasks[3], ErrorCategory::Transient, "disk full").await;
    let groups = store.error_groups(&job, 10).await.unwrap();
    let reported: Vec<(u64, u64, &str, ErrorCategory)> = groups
        .iter()
        .map(|group| {
            (
                group.tasks,
                group.terminal,
                group.message.as_str(),
                group.category,
            )
        })
        .collect();
    assert_eq!(
        reported,
        [
            (2, 2, messages[0], ErrorCategory::Input),
            (1, 1, "disk full", ErrorCategory::Input),
            (1, 0, "disk full", ErrorCategory::Transient),
        ]
    );
    assert_eq!(
        groups[0].volumes,
        [tasks[0].volume.to_string(), tasks[1].volume.to_string()]
    );
    assert_eq!(store.error_groups(&job, 1).await.unwrap().len(), 1);
}

/// Rows: 118.
#[tokio::test]
async fn a_pace_is_that_of_the_runs_that_ended_lately() {
    let store = store().await;
    let job = store.create_job(&new_job(3), now()).await.unwrap();
    let other = store.create_job(&new_job(1), now()).await.unwrap();
    let mut at = now();
    for task in store.tasks(job.id).await.unwrap() {
        let task = applied(&store, lease(&task, &job)).await;
        let success = Change {
            metrics: Some(json!({ "read": 50, "failed": 10, "found": 7 })),
            ..change(&task, Event::Succeeded)
        };
        at += TimeDelta::seconds(30);
        store.commit(&[success], at).await.unwrap();
    }
    let first = job.pipeline.first();
    let pace = store.recent_paces(Some(job.id), at).await.unwrap().remove(0);
    // The first of them began a minute and a half ago.
    assert_eq!(
        (&pace.stage, pace.runs_a_second, pace.pages_a_second),
        (first, 3.0 / 90.0, 2.0)
    );
    assert_eq!(store.recent_paces(None, at).await.unwrap(), [pace]);
    let of_node = store.paces_of_nodes(at).await.unwrap().remove(0);
    assert_eq!(
        (&of_node.stage, of_node.pages, of_node.seconds),
        (first, 180, 180.0)
    );
    assert!(!of_node.node.contains('/'), "{}", of_node.node);
    assert_eq!(store.recent_paces(Some(other.id), at).await.unwrap(), []);
    let later = at + TimeDelta::minutes(11);
    assert_eq!(store.recent_paces(None, later).await.unwrap(), []);
}

async fn audit(store: &PostgresStore, before: Option<DateTime<Utc>>, limit: u32) -> Vec<AuditEntry> {
    let query = AuditQuery {
        before,
        limit,
        full: true,
    };
    store.audit(&query).await.unwrap().entries
}

#[tokio::test]
async fn an_answer_with_long_commands_is_bounded_and_goes_on_where_it_ends() {
    let store = store().await;
    let entry = |seconds: i64| AuditEntry {
        at: now() + TimeDelta::seconds(seconds),
        done_at: None,
        who: "eva".to_owned(),
        via: "http".to_owned(),
        command: "corrections import".to_owned(),
        arguments: json!({ "document": "x".repeat(3 << 20) }),
        refusal: Some("y".repeat(1 << 20)),
    };
    for seconds in 0..4 {
        store.record_audit(&entry(seconds)).await.unwrap();
    }
    let of = async |before, full| {
        let query = AuditQuery {
            before,
            limit: 4,
            full,
        };
        store.audit(&query).await.unwrap()
    };
    let first = of(None, true).await;
    assert_eq!(first.entries, [entry(3), entry(2)]);
    assert!(first.has_more);
    let rest = of(Some(first.entries[1].at), true).await;
    assert_eq!(rest.entries, [entry(1), entry(0)]);
    assert!(!rest.has_more);
    let short = of(None, false).await;
    assert!(short.entries.len() == 4 && !short.has_more);
    for entry in short.entries {
        let shown = entry.arguments.as_str().unwrap();
        assert!(shown.starts_with("{\"document\": \"xx") && shown.len() <= 2000);
        assert_eq!(entry.refusal.map(|refusal| refusal.len()), Some(2000));
    }
}

#[tokio::test]
async fn what_an_operator_did_with_a_number_beyond_all_bounds_is_read_back() {
    let store = store().await;
    let entry = AuditEntry {
        at: now(),
        done_at: Some(now()),
        who: "eva".to_owned(),
        via: "http".to_owned(),
        command: "job create".to_owned(),
        arguments: json!({ "priority": f64::MAX }),
        refusal: Some("invalid".to_owned()),
    };
    store.record_audit(&entry).await.unwrap();
    let read = audit(&store, None, 9).await;
    assert_eq!(read.len(), 1);
    assert!(read[0].arguments.to_string().contains("priority"), "{read:?}");
}

#[tokio::test]
async fn the_character_zero_keeps_no_command_out_of_the_log() {
    let store = store().await;
    let mut entry = AuditEntry {
        at: now(),
        done_at: None,
        who: "eva".to_owned(),
        via: "http".to_owned(),
        command: "volumes import".to_owned(),
        arguments: json!({ "a\0b": ["c\0"], "d": { "\0": 1 } }),
        refusal: None,
    };
    let number = store.record_audit(&entry).await.unwrap();
    store
        .complete_audit(number, Some("no a\0b"), now())
        .await
        .unwrap();
    let read = audit(&store, None, 9).await;
    assert_eq!(
        read[0].arguments,
        json!({ "a\u{fffd}b": ["c\u{fffd}"], "d": { "\u{fffd}": 1 } })
    );
    assert_eq!(read[0].refusal.as_deref(), Some("no a\u{fffd}b"));
    entry.refusal = Some("\0".to_owned());
    store.record_audit(&entry).await.unwrap();
}

#[tokio::test]
async fn a_command_that_has_begun_has_no_end_until_it_is_written_and_then_one() {
    let store = store().await;
    let begun = AuditEntry {
        at: now(),
        done_at: None,
        who: "eva".to_owned(),
        via: "http".to_owned(),
        command: "job delete".to_owned(),
        arguments: json!({}),
        refusal: None,
    };
    let entry = store.record_audit(&begun).await.unwrap();
    assert_eq!(audit(&store, None, 9).await, std::slice::from_ref(&begun));
    let end = now() + TimeDelta::seconds(9);
    store.complete_audit(entry, Some("it runs"), end).await.unwrap();
    store
        .complete_audit(entry, None, end + TimeDelta::seconds(9))
        .await
        .unwrap();
    let ended = AuditEntry {
        done_at: Some(end),
        refusal: Some("it runs".to_owned()),
        ..begun
    };
    assert_eq!(audit(&store, None, 9).await, [ended]);
}

#[tokio::test]
async fn what_operators_did_is_read_back_the_newest_first_and_marks_a_change() {
    let store = store().await;
    let mut marks = vec![store.change_mark().await.unwrap()];
    let entry = |seconds: i64, refusal: Option<&str>| AuditEntry {
        at: now() + TimeDelta::seconds(seconds),
        done_at: Some(now() + TimeDelta::seconds(seconds)),
        who: "eva".to_owned(),
        via: "http".to_owned(),
        command: "job pause".to_owned(),
        arguments: json!({ "job": "press" }),
        refusal: refusal.map(str::to_owned),
    };
    let (first, second) = (entry(0, None), entry(1, Some("it is paused")));
    for entry in [&first, &second] {
        store.record_audit(entry).await.unwrap();
        marks.push(store.change_mark().await.unwrap());
    }
    assert_eq!(audit(&store, None, 9).await, [second.clone(), first.clone()]);
    assert_eq!(audit(&store, None, 1).await, std::slice::from_ref(&second));
    assert_eq!(audit(&store, Some(second.at), 9).await, [first]);
    let job = store.create_job(&new_job(1), now()).await.unwrap();
    marks.push(store.change_mark().await.unwrap());
    let task = store.tasks(job.id).await.unwrap().remove(0);
    assert_eq!(
        store.task_of(job.id, &task.volume).await.unwrap().as_ref(),
        Some(&task)
    );
    let elsewhere: VolumeId = "W9-I9".parse().unwrap();
    assert_eq!(store.task_of(job.id, &elsewhere).await.unwrap(), None);
    applied(&store, lease(&task, &job)).await;
    marks.push(store.change_mark().await.unwrap());
    assert_eq!(marks.last(), Some(&store.change_mark().await.unwrap()));
    marks.dedup();
    assert_eq!(marks.len(), 5);
}

#[tokio::test]
async fn a_page_costs_what_it_shows() {
    let store = store().await;
    store.create_job(&new_job(4), now()).await.unwrap();
    let small = store.create_job(&new_job(3), now()).await.unwrap();
    assert_eq!(small.id, JobId(2));
    raw_sql(
        "insert into volumes (bdrc_w_id, bdrc_i_id) select 'W2', 'I' || n from generate_series(1, 60000) n;
         insert into tasks (job_id, volume_id, max_attempts, allowance, current_stage, status, done_at)
         select 1, id, 3, 3, 'done', 'done', now() from volumes where bdrc_w_id = 'W2' and id % 100 = 0;
         insert into tasks (job_id, volume_id, max_attempts, allowance, current_stage, status, terminal)
         select 1, id, 3, 3, 'ocr', 'failed', id % 100 = 1 from volumes where bdrc_w_id = 'W2' and id % 100 in (1, 2);
         insert into tasks (job_id, volume_id, max_attempts, allowance)
         select 1, id, 3, 3 from volumes where bdrc_w_id = 'W2' and id % 100 > 2;
         insert into stage_runs (task_id, stage, attempt, generation, status, worker_id, started_at, done_at)
         select id, 'ocr', 1, 0, 'done', 'w', now() - interval '1 day', now() - interval '1 day' from tasks;
         analyze",
    )
    .execute(&store.pool)
    .await
    .unwrap();
    for (statement, parameters, index) in [
        (ALL, "2, 0, 50", "tasks_by_job"),
        (DONE, "1, 0, 50", "tasks_done"),
        (FAILED, "1, 0, 50, '{ocr}'", "tasks_terminal"),
        (OPEN, "1, 0, 50, '{ocr}', '{failed}'", "tasks_open"),
        (PACES, "now() - interval '10 minutes', null", "stage_runs_done"),
        (OF_NODES, "now() - interval '10 minutes'", "stage_runs_done"),
    ] {
        let plan = plan_of(&store, statement, parameters).await;
        assert!(plan.contains(index), "{plan}");
        assert!(!plan.contains("Seq Scan on tasks"), "{plan}");
    }
}
