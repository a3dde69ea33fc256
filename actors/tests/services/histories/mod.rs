//! Random histories of services, leaders and operators on paused time, with the real orchestrator and external stages, over a state and a
//! service in memory. Whatever happens, each task ends once, for a reason that the service gave.

mod judge;
mod script;
mod simulated;
mod world;

use parkhang_core::domain::{JobStatus, StageRun, StageRunStatus};
use parkhang_state::StateStore;
use proptest::prelude::*;
use tokio::runtime::Builder;

use self::judge::judge;
use self::script::{Answer, Conduct, End, History, Step, Telling, histories};
use self::world::{Past, past};

/// Plays and judges a history.
async fn holds(history: &History) -> Past {
    let past = past(history).await;
    judge(history, &past).await;
    past
}

proptest! {
    // Each takes about half a second.
    #![proptest_config(ProptestConfig::with_cases(128))]

    /// Rows: 219, 233, 235, 236, 237, 242.
    #[test]
    fn whatever_happens_each_task_ends_once_for_a_reason(history in histories()) {
        let runtime = Builder::new_current_thread().enable_time().start_paused(true).build().unwrap();
        runtime.block_on(holds(&history));
    }
}

/// History of one task whose first submits meet this conduct, with steps from outside.
fn of_one(submits: &[Conduct], steps: &[(u64, Step)]) -> History {
    History {
        tasks: 1,
        submits: submits.to_vec(),
        steps: steps.to_vec(),
        ..History::default()
    }
}

/// Ends of the runs of the first stage, in a history that is judged and ends so.
async fn runs(history: &History, status: JobStatus) -> Vec<StageRun> {
    let past = holds(history).await;
    assert_eq!(past.job.status, status);
    let runs = past.store.stage_runs(past.tasks[0].id).await.unwrap();
    let first = runs
        .into_iter()
        .filter(|run| run.fence.stage.as_str() == "scrape");
    first.collect()
}

fn ends(runs: &[StageRun]) -> Vec<StageRunStatus> {
    runs.iter().map(|run| run.status).collect()
}

/// The next leader hears of a failure before it knows how many tries the stage grants.
#[tokio::test(start_paused = true)]
async fn a_failure_that_is_told_while_a_leader_rises_is_charged_to_its_stage() {
    let failing = Conduct {
        work: 9_900,
        ..Conduct::ending(End::Fails)
    };
    let death = Step::Death { turns: 0, gap: 5 };
    let runs = runs(&of_one(&[failing], &[(5, death)]), JobStatus::Completed).await;
    assert_eq!(ends(&runs), [StageRunStatus::Failed, StageRunStatus::Done]);
}

#[tokio::test(start_paused = true)]
async fn a_message_that_overtakes_the_answer_ends_the_job_at_once() {
    let early = Conduct {
        telling: Telling::Early,
        ..Conduct::GOOD
    };
    let runs = runs(&of_one(&[early], &[]), JobStatus::Completed).await;
    let took = runs[0].ended_at.unwrap() - runs[0].started_at;
    assert!(took.num_seconds() < 3, "the poller had to ask: {took}");
}

/// Rows: 235, 236.
#[tokio::test(start_paused = true)]
async fn each_answer_that_may_pass_costs_a_try_and_the_last_one_the_task() {
    let submits = [Answer::Late, Answer::Busy(Some(40)), Answer::Nameless].map(Conduct::answering);
    let runs = runs(&of_one(&submits, &[]), JobStatus::Failed).await;
    assert_eq!(ends(&runs), [StageRunStatus::Failed; 3]);
    let asked = runs[2].started_at - runs[1].ended_at.unwrap();
    assert!(asked.num_seconds() >= 40, "it was not left alone: {asked}");
}

/// Rows: 242.
#[tokio::test(start_paused = true)]
async fn a_death_before_the_answer_costs_no_try_and_no_second_job() {
    let steps = [(5, Step::Death { turns: 0, gap: 1 })];
    let history = of_one(&[Conduct::answering(Answer::Late)], &steps);
    let past = holds(&history).await;
    let runs = past.store.stage_runs(past.tasks[0].id).await.unwrap();
    assert_eq!(ends(&runs), [StageRunStatus::Done; 2], "one lease for each stage");
    let tries = past.service.tries();
    let of_first = tries.iter().find(|(tried, _)| tried.stage == "scrape");
    let keys = &of_first.unwrap().1.keys;
    assert!(keys.len() == 2 && keys[0] == keys[1], "{keys:?}");
}

/// Rows: 231, 237.
#[tokio::test(start_paused = true)]
async fn what_nobody_tells_is_asked_for_and_what_has_no_end_counts_as_stuck() {
    let silent = |end| Conduct {
        telling: Telling::Never,
        ..Conduct::ending(end)
    };
    let submits = [silent(End::Forgotten), silent(End::Never), silent(End::Result)];
    let runs = runs(&of_one(&submits, &[]), JobStatus::Completed).await;
    let took = |run: &StageRun| (run.ended_at.unwrap() - run.started_at).num_seconds();
    let [lost, stuck, done] = &runs[..] else {
        panic!("{runs:?}")
    };
    assert!(
        [lost, done]
            .map(took)
            .iter()
            .all(|took| (300..310).contains(took))
    );
    assert!((600..620).contains(&took(stuck)), "{stuck:?}");
}
