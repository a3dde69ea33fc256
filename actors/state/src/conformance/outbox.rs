//! Cases of [`Outbox`], on stores that are one too.

use super::*;
use crate::{Outbox, Outgoing};
use parkhang_core::domain::{Fence, Generation, Publication};
use parkhang_core::policy::job_action::JobAction;
use parkhang_core::policy::placement::next_fence;

/// A store and its outbox, which are the same.
#[derive(Debug)]
pub struct Both {
    pub store: Store,
    pub outbox: Arc<dyn Outbox>,
}

impl Both {
    async fn outgoing(&self, now: i64) -> Vec<Outgoing> {
        let stages = [stage("read"), stage("detect")];
        self.outbox.outgoing(&stages, 10, at(now)).await.unwrap()
    }

    /// Volumes and stages of what is to be sent.
    async fn names(&self, now: i64) -> Vec<String> {
        let outgoing = self.outgoing(now).await;
        outgoing
            .iter()
            .map(|message| format!("{} {}", message.volume.i_id(), message.fence.stage))
            .collect()
    }

    /// Notes that all that is to be sent was sent.
    async fn send(&self, now: i64) -> Vec<Outgoing> {
        let outgoing = self.outgoing(now).await;
        let sent: Vec<(Fence, i32)> = outgoing
            .iter()
            .map(|message| (message.fence.clone(), message.repetition))
            .collect();
        self.outbox.published(&sent, at(now)).await.unwrap();
        assert_eq!(self.outgoing(now).await, [], "all of it was sent");
        outgoing
    }

    /// State of the message for the next lease of a task.
    async fn publication(&self, job: &Job, task: &Task) -> Publication {
        let fence = next_fence(task, job, at(99)).unwrap();
        self.outbox.publication(job, &fence, at(99)).await.unwrap()
    }

    /// Time of the oldest message of a stage.
    async fn oldest(&self, name: &str) -> Option<DateTime<Utc>> {
        let stages = [stage("read"), stage("detect")];
        self.outbox.oldest(&stages).await.unwrap().remove(&stage(name))
    }
}

/// Runs every case, each on a fresh store from `make`; panics at the first breach.
pub async fn suite(make: impl AsyncFn() -> Both) {
    what_may_begin_is_sent_once(make().await).await;
    what_was_not_noted_is_sent_again_and_the_same(make().await).await;
    what_is_done_again_is_sent_again(make().await).await;
    nothing_is_sent_before_it_is_due(make().await).await;
    only_running_jobs_are_published(make().await).await;
    no_more_is_out_than_the_limits_allow(make().await).await;
    what_is_withdrawn_is_sent_later_as_another_message(make().await).await;
    what_a_queue_lost_is_sent_again_if_it_still_waits(make().await).await;
    a_message_knows_how_many_are_in_front_of_it(make().await).await;
    an_unsent_message_knows_what_it_waits_for(make().await).await;
    the_oldest_message_is_the_first_whose_task_waits(make().await).await;
    messages_of_tasks_that_are_done_are_forgotten(make().await).await;
    writers_side_by_side_do_not_deadlock(make().await).await;
}

/// Rows: 52, 61.
async fn what_may_begin_is_sent_once(both: Both) {
    let (job, tasks) = job_with(&both.store, &["I1", "I2"]).await;
    let sent = both.send(1).await;
    let names: Vec<&str> = sent.iter().map(|message| message.volume.i_id()).collect();
    assert_eq!(names, ["I1", "I2"]);
    assert_eq!((sent[0].job, &sent[0].job_key), (job.id, &job.key));
    assert_eq!(sent[0].repetition, 0);

    let running = applied(&both.store, lease(&tasks[0], &job, "w")).await;
    assert_eq!(
        running.fence().as_ref(),
        Some(&sent[0].fence),
        "a message names the lease that it leads to"
    );
    assert_eq!(both.names(2).await, [""; 0]);
    applied(&both.store, change(&running, Event::Succeeded)).await;
    assert_eq!(both.names(3).await, ["I1 read"]);
    let only = [stage("detect")];
    assert_eq!(
        both.outbox.outgoing(&only, 10, at(3)).await.unwrap(),
        [],
        "the queue of another stage"
    );
    assert_eq!(
        both.outbox.outgoing(&[stage("read")], 0, at(4)).await.unwrap(),
        []
    );
}

/// A crash between sending and noting it. Rows: D5.
async fn what_was_not_noted_is_sent_again_and_the_same(both: Both) {
    let (job, tasks) = job_with(&both.store, &["I1", "I2"]).await;
    let first = both.outgoing(1).await;
    assert_eq!(both.outgoing(2).await, first);
    // A note of another repetition is not about this message.
    both.outbox
        .published(&[(first[0].fence.clone(), 1)], at(2))
        .await
        .unwrap();
    assert_eq!(both.outgoing(2).await, first);
    // Nor is one that comes too late.
    let running = applied(&both.store, lease(&tasks[0], &job, "w")).await;
    applied(&both.store, change(&running, Event::Released)).await;
    let again = both.outgoing(3).await;
    both.outbox
        .published(&[(first[0].fence.clone(), 0)], at(3))
        .await
        .unwrap();
    assert_eq!(both.outgoing(3).await, again);
    assert_eq!(again[0].fence.generation, Generation(1));
}

/// Rows: D1.
async fn what_is_done_again_is_sent_again(both: Both) {
    let (job, tasks) = job_with(&both.store, &["I1"]).await;
    let first = both.send(1).await.remove(0);
    let done = run_stage(&both.store, &job, &tasks[0], Event::Succeeded).await;
    both.send(2).await;
    applied(&both.store, change(&done, rerun_from("detect"))).await;
    let again = both.send(3).await.remove(0);
    assert_eq!(
        (&again.fence.stage, again.fence.attempt),
        (&first.fence.stage, first.fence.attempt)
    );
    assert_ne!(
        again.fence, first.fence,
        "the same attempt of the same stage is another message"
    );
}

/// Rows: D9.
async fn nothing_is_sent_before_it_is_due(both: Both) {
    let (job, tasks) = job_with(&both.store, &["I1"]).await;
    both.send(1).await;
    run_stage(&both.store, &job, &tasks[0], failure(ErrorCategory::Network)).await;
    assert_eq!(both.names(29).await, [""; 0]);
    let again = both.send(30).await.remove(0);
    assert_eq!(again.fence.attempt.0, 2);
}

async fn only_running_jobs_are_published(both: Both) {
    let (job, _) = job_with(&both.store, &["I1"]).await;
    both.store.act_on_job(job.id, JobAction::Pause).await.unwrap();
    assert_eq!(both.names(1).await, [""; 0]);
    both.store.act_on_job(job.id, JobAction::Resume).await.unwrap();
    assert_eq!(both.names(2).await, ["I1 detect"]);
    both.store.act_on_job(job.id, JobAction::Pause).await.unwrap();
    assert_eq!(both.names(3).await, [""; 0], "intended, and not sent any more");
}

async fn no_more_is_out_than_the_limits_allow(both: Both) {
    let mut job = new_job("job", &["I1", "I2", "I3", "I4", "I5"]);
    job.config.max_running = 3;
    job.config.max_running_per_stage = 2;
    let job = both.store.create_job(&job, at(0)).await.unwrap();
    let tasks = both.store.tasks(job.id).await.unwrap();
    assert_eq!(both.send(1).await.len(), 2);
    // One that runs counts like one that is out.
    let running = applied(&both.store, lease(&tasks[0], &job, "w")).await;
    assert_eq!(both.names(2).await, [""; 0]);
    applied(&both.store, change(&running, Event::Succeeded)).await;
    assert_eq!(both.names(3).await, ["I1 read", "I3 detect"]);
    both.send(3).await;
    assert_eq!(both.names(4).await, [""; 0], "three are out");
}

async fn what_is_withdrawn_is_sent_later_as_another_message(both: Both) {
    job_with(&both.store, &["I1", "I2"]).await;
    let sent = both.send(1).await;
    both.outbox
        .withdraw(&[sent[0].fence.clone()], at(20))
        .await
        .unwrap();
    assert_eq!(both.names(19).await, [""; 0]);
    let again = both.send(20).await.remove(0);
    assert_eq!((again.repetition, &again.fence), (1, &sent[0].fence));
    both.outbox.withdraw(&[], at(20)).await.unwrap();
}

async fn what_a_queue_lost_is_sent_again_if_it_still_waits(both: Both) {
    let (job, tasks) = job_with(&both.store, &["I1", "I2", "I3"]).await;
    let sent = both.send(10).await;
    applied(&both.store, lease(&tasks[0], &job, "w")).await;
    run_stage(&both.store, &job, &tasks[1], Event::Succeeded).await;
    assert_eq!(
        both.outbox.republish(&stage("detect"), at(10)).await.unwrap(),
        0,
        "none is so old"
    );
    assert_eq!(both.outbox.republish(&stage("read"), at(11)).await.unwrap(), 0);
    assert_eq!(both.outbox.republish(&stage("detect"), at(11)).await.unwrap(), 1);
    let again = both.outgoing(12).await;
    let lost = again
        .iter()
        .find(|message| message.fence == sent[2].fence)
        .unwrap();
    assert_eq!(lost.repetition, 1);
    assert_eq!(both.names(12).await, ["I2 read", "I3 detect"]);
}

async fn a_message_knows_how_many_are_in_front_of_it(both: Both) {
    let (job, tasks) = job_with(&both.store, &["I1", "I2", "I3"]).await;
    let first = both.outgoing(5).await;
    let [one, two, three] = &first[..] else {
        panic!("three wait");
    };
    let note = async |message: &Outgoing, now| {
        let sent = [(message.fence.clone(), message.repetition)];
        both.outbox.published(&sent, at(now)).await.unwrap();
    };
    note(two, 5).await;
    note(three, 6).await;
    note(one, 6).await;
    let sent = |at, in_front| Publication::Sent { at, in_front };
    assert_eq!(both.publication(&job, &tasks[1]).await, sent(at(5), 0));
    // Those of one time are sent in the order of their tasks.
    assert_eq!(both.publication(&job, &tasks[0]).await, sent(at(6), 1));
    assert_eq!(both.publication(&job, &tasks[2]).await, sent(at(6), 2));
    // Neither one that runs nor one of another stage is in front.
    let running = applied(&both.store, lease(&tasks[1], &job, "w")).await;
    assert_eq!(both.publication(&job, &tasks[2]).await, sent(at(6), 1));
    let between = applied(&both.store, change(&running, Event::Succeeded)).await;
    let read = both.send(7).await.remove(0);
    assert_eq!(read.fence.stage, stage("read"));
    assert_eq!(both.publication(&job, &between).await, sent(at(7), 0));
    assert_eq!(both.publication(&job, &tasks[2]).await, sent(at(6), 1));
}

async fn an_unsent_message_knows_what_it_waits_for(both: Both) {
    let mut job = new_job("job", &["I1", "I2"]);
    job.config.max_running = 1;
    let job = both.store.create_job(&job, at(0)).await.unwrap();
    let tasks = both.store.tasks(job.id).await.unwrap();
    let unsent = |due: Option<i64>, has_room| Publication::Unsent {
        due: due.map(at),
        has_room,
    };
    assert_eq!(both.publication(&job, &tasks[0]).await, unsent(None, true));
    let sent = both.send(1).await;
    assert_eq!(both.publication(&job, &tasks[1]).await, unsent(None, false));
    both.outbox
        .withdraw(&[sent[0].fence.clone()], at(20))
        .await
        .unwrap();
    assert_eq!(both.publication(&job, &tasks[0]).await, unsent(Some(20), true));
}

/// Rows: 152, 154.
async fn the_oldest_message_is_the_first_whose_task_waits(both: Both) {
    assert_eq!(both.oldest("detect").await, None);
    let (job, tasks) = job_with(&both.store, &["I1", "I2"]).await;
    assert_eq!(both.oldest("detect").await, None, "none is sent");
    both.send(5).await;
    let late = new_job("late", &["I3"]);
    let late = both.store.create_job(&late, at(0)).await.unwrap();
    both.send(9).await;
    assert_eq!(both.oldest("detect").await, Some(at(5)));
    assert_eq!(both.oldest("read").await, None);
    let running = applied(&both.store, lease(&tasks[0], &job, "w")).await;
    assert_eq!(both.oldest("detect").await, Some(at(5)), "the other one waits");
    applied(&both.store, lease(&tasks[1], &job, "w")).await;
    assert_eq!(both.oldest("detect").await, Some(at(9)));
    applied(&both.store, change(&running, Event::Succeeded)).await;
    assert_eq!(both.oldest("read").await, None);
    both.send(11).await;
    assert_eq!(both.oldest("read").await, Some(at(11)));
    both.store.act_on_job(late.id, JobAction::Pause).await.unwrap();
    assert_eq!(both.oldest("detect").await, None, "nobody is to work on it");
}

async fn messages_of_tasks_that_are_done_are_forgotten(both: Both) {
    let (job, tasks) = job_with(&both.store, &["I1", "I2"]).await;
    both.send(1).await;
    let read = run_stage(&both.store, &job, &tasks[0], Event::Succeeded).await;
    both.send(2).await;
    let forget = async |name, before| both.outbox.forget_done(&stage(name), at(before)).await.unwrap();
    assert_eq!(forget("read", 9).await, 0, "it waits");
    run_stage(&both.store, &job, &read, Event::Succeeded).await;
    assert_eq!(forget("read", 2).await, 0, "it is younger");
    assert_eq!(forget("detect", 9).await, 0);
    assert_eq!(forget("read", 3).await, 1);
    assert_eq!(forget("read", 3).await, 0);
    assert_eq!(both.names(9).await, [""; 0]);
    assert_eq!(both.oldest("detect").await, Some(at(1)));
}

/// Publishers, as two orchestrators may both take themselves for the leader, workers that withdraw messages, and commits over the same
/// tasks, of which the first half waits for the later stage.
async fn writers_side_by_side_do_not_deadlock(both: Both) {
    let names: Vec<String> = (0..24).map(|n| format!("I{n:02}")).collect();
    let names: Vec<&str> = names.iter().map(String::as_str).collect();
    for round in 0..8 {
        let job = new_job(&format!("job{round}"), &names);
        let job = both.store.create_job(&job, at(0)).await.unwrap();
        let tasks = both.store.tasks(job.id).await.unwrap();
        for task in &tasks[..12] {
            run_stage(&both.store, &job, task, Event::Succeeded).await;
        }
        // None of them applies, and all tasks are locked for it.
        let refused: Vec<Change> = tasks.iter().map(|task| change(task, Event::Succeeded)).collect();
        let writers = (0..8).map(|n| {
            let (store, outbox, refused) = (both.store.clone(), both.outbox.clone(), refused.clone());
            tokio::spawn(async move {
                if n % 2 == 1 {
                    for _ in 0..8 {
                        store.commit(&refused, at(2)).await.unwrap();
                    }
                    return;
                }
                let stages = [stage("detect"), stage("read")];
                let outgoing = outbox.outgoing(&stages, 100, at(2)).await.unwrap();
                let sent = outgoing
                    .into_iter()
                    .map(|message| (message.fence, message.repetition));
                let mut sent: Vec<(Fence, i32)> = sent.collect();
                if n % 4 == 2 {
                    sent.reverse();
                }
                outbox.published(&sent, at(2)).await.unwrap();
                let fences: Vec<Fence> = sent.into_iter().map(|(fence, _)| fence).collect();
                outbox.withdraw(&fences, at(3)).await.unwrap();
            })
        });
        for writer in writers.collect::<Vec<_>>() {
            writer.await.unwrap();
        }
    }
}
