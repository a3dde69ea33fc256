//! What the watch over queues sees.

use std::collections::BTreeMap;

use super::*;
use parkhang_core::domain::{Alarm, AlarmKind, QueuePurpose, QueueRecord};

const LIMITS: WatchLimits = WatchLimits {
    max_age: TimeDelta::minutes(15),
    max_in_flight: 10,
};

impl World {
    fn watch(&self) -> QueueWatch {
        let mut watch = QueueWatch::new(self.store.clone(), self.clock.clone(), LIMITS);
        for stage in self.queues.stages() {
            let queue = self.queues.get(&stage);
            watch.add(
                QueuePurpose::Stage(stage.clone()),
                &format!("{stage}.fifo"),
                queue,
            );
        }
        watch
    }
}

/// Look at the queue of the first stage.
async fn look(watch: &QueueWatch, before: &[QueueRecord]) -> QueueRecord {
    let seen = watch.look(before, &BTreeMap::new()).await.unwrap();
    let found = seen
        .into_iter()
        .find(|record| record.purpose == QueuePurpose::Stage(stage("detect")));
    found.unwrap()
}

async fn wait(seconds: u64) {
    tokio::time::advance(Duration::from_secs(seconds)).await;
}

/// Rows: 139, 152.
#[tokio::test(start_paused = true)]
async fn messages_are_counted_as_they_wait_and_are_held_and_the_oldest_is_known() {
    let (world, _) = World::new(2).await;
    let watch = world.watch();
    wait(40).await;
    let waiting = look(&watch, &[]).await;
    let expected = QueueRecord {
        purpose: QueuePurpose::Stage(stage("detect")),
        queue: "detect.fifo".to_owned(),
        looked_at: at(40),
        visible: 2,
        in_flight: 0,
        delayed: 0,
        dead_letters: Some(0),
        oldest: Some(at(0)),
        alarms: Vec::new(),
    };
    assert_eq!(waiting, expected);
    let source = world.source();
    let claims = claim(&source).await;
    let held = look(&watch, &[]).await;
    assert_eq!((held.visible, held.in_flight, held.oldest), (0, 2, None));
    for claim in &claims {
        complete(&source, claim, success()).await;
    }
    assert!(look(&watch, &[]).await.is_empty());
}

/// Rows: 153, 155.
#[tokio::test(start_paused = true)]
async fn a_message_that_waits_too_long_is_an_alarm_until_it_is_taken() {
    let (world, _) = World::new(1).await;
    let watch = world.watch();
    wait(900).await;
    let in_time = look(&watch, &[]).await;
    assert_eq!(in_time.alarms, []);
    wait(60).await;
    let late = look(&watch, &[in_time]).await;
    let alarm = Alarm {
        kind: AlarmKind::Age,
        since: at(960),
        held_at: at(960),
    };
    assert_eq!(late.alarms, [alarm]);
    claim(&world.source()).await;
    wait(60).await;
    let just_taken = look(&watch, &[late]).await;
    assert_eq!(just_taken.alarms, [alarm], "it is called off late");
    wait(60).await;
    assert_eq!(look(&watch, &[just_taken]).await.alarms, []);
}

/// Rows: 141, 144, 153.
#[tokio::test(start_paused = true)]
async fn a_dead_letter_is_an_alarm_as_long_as_it_lies_there() {
    let (world, _) = World::new(1).await;
    let junk = NewMessage::new("no JSON").in_group("junk", "junk");
    world.detect().send(junk).await.unwrap();
    assert_eq!(claim(&world.source()).await.len(), 1);
    let watch = world.watch();
    let seen = look(&watch, &[]).await;
    assert_eq!(seen.dead_letters, Some(1));
    assert_eq!(seen.alarms[0].kind, AlarmKind::DeadLetters);
    let letters = world.detect().dead_letters().await.unwrap();
    letters.purge().await.unwrap();
    wait(120).await;
    assert_eq!(look(&watch, &[seen]).await.alarms, []);
}

#[tokio::test(start_paused = true)]
async fn a_queue_that_does_not_answer_hides_no_other() {
    let (world, _) = World::new(1).await;
    let read = world.queues.get(&stage("read")).unwrap();
    let silent = Arc::new(RefusingQueue::new(read));
    silent.refuse(Refused::Counts, 1);
    world.queues.found(&stage("read"), silent);
    let seen = world.watch().look(&[], &BTreeMap::new()).await.unwrap();
    let stages: Vec<&str> = seen.iter().map(|record| record.purpose.name()).collect();
    assert_eq!(stages, ["detect"]);
}

/// Rows: 52, 153.
#[tokio::test(start_paused = true)]
async fn a_queue_that_does_not_exist_is_an_alarm_until_it_does() {
    let (world, _) = World::new(1).await;
    let there = world.detect();
    let gone = MemoryServer::new().open("memory:detect.fifo").await.unwrap();
    world.queues.found(&stage("detect"), gone);
    let missing = look(&world.watch(), &[]).await;
    let kinds: Vec<AlarmKind> = missing.alarms.iter().map(|alarm| alarm.kind).collect();
    assert_eq!((kinds, missing.visible), (vec![AlarmKind::Missing], 0));
    world.queues.found(&stage("detect"), there);
    let back = look(&world.watch(), &[missing]).await;
    assert_eq!((back.alarms.as_slice(), back.visible), ([].as_slice(), 1));
}

/// Rows: 153, D12.
#[tokio::test(start_paused = true)]
async fn an_alarm_goes_by_the_quota_of_messages_in_flight_that_the_account_has() {
    let (world, _) = World::new(8).await;
    let (watch, source) = (world.watch(), world.source());
    source.claim(&room(7)).await.unwrap();
    assert_eq!(look(&watch, &[]).await.alarms, []);
    source.claim(&room(1)).await.unwrap();
    let kinds: Vec<AlarmKind> = look(&watch, &[])
        .await
        .alarms
        .iter()
        .map(|alarm| alarm.kind)
        .collect();
    assert_eq!(kinds, [AlarmKind::InFlight], "at four fifths of ten");
}

/// Rows: 152, 153.
#[tokio::test(start_paused = true)]
async fn the_queue_of_a_standing_job_is_watched_as_those_of_stages_are() {
    let (world, _) = World::new(0).await;
    let queue = world.detect().clone();
    let purpose = QueuePurpose::StandingJob("press".parse().unwrap());
    let mut watch = QueueWatch::new(world.store.clone(), world.clock.clone(), LIMITS);
    watch.add(purpose.clone(), queue.name(), Some(queue.clone()));
    let look = async |before: &[QueueRecord]| watch.look(before, &BTreeMap::new()).await.unwrap();
    assert_eq!(look(&[]).await[0].oldest, None);
    let message = |id: &str| NewMessage::new("{}").in_group(id, id);
    queue.send(message("1")).await.unwrap();
    wait(60).await;
    let first = look(&[]).await;
    assert_eq!(
        (&first[0].purpose, first[0].visible, first[0].oldest),
        (&purpose, 1, Some(at(60))),
        "nobody knows when it was sent"
    );
    queue.send(message("2")).await.unwrap();
    wait(16 * 60).await;
    let later = look(&first).await;
    assert_eq!(later[0].oldest, Some(at(60)));
    let kinds: Vec<AlarmKind> = later[0].alarms.iter().map(|alarm| alarm.kind).collect();
    assert_eq!(kinds, [AlarmKind::Age]);
    let taken = queue
        .receive(Receive::one(Duration::from_secs(60)).up_to(10))
        .await
        .unwrap();
    assert_eq!(taken.len(), 2);
    assert_eq!(look(&later).await[0].oldest, None, "no message waits");
}
