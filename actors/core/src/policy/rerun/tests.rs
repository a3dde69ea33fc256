use super::*;
use crate::domain::testing::{self, job, stage};
use crate::domain::{StageError, TaskStatus};

fn task(id: i64, volume: &str, position: Position, status: TaskStatus) -> Task {
    Task {
        volume: volume.parse().unwrap(),
        position,
        status,
        ..testing::task(id)
    }
}

fn tasks() -> Vec<Task> {
    let mut failed = task(3, "W2-I1", Position::At(stage("read")), TaskStatus::Failed);
    failed.last_error = Some(StageError::new("read", ErrorCategory::Network, "reset"));
    vec![
        task(1, "W1-I1", Position::Pending, TaskStatus::Pending),
        task(2, "W1-I2", Position::At(stage("detect")), TaskStatus::Done),
        failed,
        task(4, "W2-I2", Position::Done, TaskStatus::Done),
    ]
}

fn admitted(filter: &TaskFilter) -> Vec<i64> {
    let tasks = tasks();
    let admitted = tasks.iter().filter(|task| filter.admits(task, RetryScope::Task));
    admitted.map(|task| task.id.0).collect()
}

fn volumes(patterns: &[&str]) -> TaskFilter {
    TaskFilter {
        volumes: patterns
            .iter()
            .map(|pattern| Pattern::new(pattern).unwrap())
            .collect(),
        ..TaskFilter::default()
    }
}

#[test]
fn a_filter_without_conditions_admits_every_task() {
    assert_eq!(admitted(&TaskFilter::default()), [1, 2, 3, 4]);
}

#[test]
fn volumes_are_named_or_described() {
    assert_eq!(admitted(&volumes(&["W1-I2", "W2-I2"])), [2, 4]);
    assert_eq!(admitted(&volumes(&["W2-*"])), [3, 4]);
    assert_eq!(admitted(&volumes(&["W?-I1", "W1-I1"])), [1, 3]);
    assert_eq!(admitted(&volumes(&["W1"])), [] as [i64; 0]);
}

#[test]
fn every_condition_must_hold() {
    let failed = TaskFilter {
        phases: vec![Phase::FailedRetryable, Phase::FailedTerminal],
        ..volumes(&["W2-*"])
    };
    assert_eq!(admitted(&failed), [3]);
    let at = |name| TaskFilter {
        stage: Some(stage(name)),
        ..TaskFilter::default()
    };
    assert_eq!(admitted(&at("detect")), [2]);
    assert_eq!(admitted(&at("reduce")), [] as [i64; 0]);
    let with = |category| TaskFilter {
        error: Some(category),
        ..TaskFilter::default()
    };
    assert_eq!(admitted(&with(ErrorCategory::Network)), [3]);
    assert_eq!(admitted(&with(ErrorCategory::Input)), [] as [i64; 0]);
    let dead = TaskFilter {
        phases: vec![Phase::FailedTerminal],
        ..TaskFilter::default()
    };
    assert_eq!(admitted(&dead), [] as [i64; 0], "it has tries left");
}

#[test]
fn a_cause_is_the_category_and_the_message_but_for_some_words() {
    let error = StageError::new(
        "read",
        ErrorCategory::Input,
        "page 7 of \"a[1].jpg\" is no image?",
    );
    for (cause, is_its) in [
        ("input: page * of * is no image?", true),
        ("input: page 7 of \"a[1].jpg\" is no image?", true),
        ("input: *", true),
        ("*image?", true),
        ("network: *", false),
        ("page * of * is no image?", false),
        ("input: page * of * is no image.", false),
    ] {
        assert_eq!(Cause::new(cause).is_of(&error), is_its, "{cause}");
    }
    let caused = |cause| TaskFilter {
        cause: Some(Cause::new(cause)),
        ..TaskFilter::default()
    };
    assert_eq!(admitted(&caused("network: reset")), [3]);
    assert_eq!(admitted(&caused("network: rese")), [] as [i64; 0]);
}

#[test]
fn tasks_that_have_not_come_so_far_are_left_alone() {
    let rerun = Rerun {
        tasks: TaskFilter::default(),
        from: stage("read"),
        force: false,
    };
    let tasks = tasks();
    let split = rerun.split(&job(), &tasks);
    let ids = |tasks: &[&Task]| -> Vec<i64> { tasks.iter().map(|task| task.id.0).collect() };
    assert_eq!(ids(&split.reached), [2, 3, 4]);
    assert_eq!(ids(&split.not_reached), [1]);
}
