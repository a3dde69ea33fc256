//! Levels of queues and the alarms about them, which the leading orchestrator looks at.

use std::collections::BTreeMap;

use tracing::{error, info};

use super::catalogue::{
    ALARMS, QUEUE_DEAD_LETTERS, QUEUE_DELAYED, QUEUE_IN_FLIGHT, QUEUE_OLDEST_SECONDS, QUEUE_VISIBLE,
};
use parkhang_core::domain::{Alarm, AlarmKind, QueuePurpose, QueueRecord};

/// Levels of the queues as they were last seen. Remembers them, so that an alarm is logged when it is raised and when it is called
/// off.
#[derive(Debug, Default)]
pub struct QueueLevels {
    published: BTreeMap<QueuePurpose, QueueRecord>,
}

impl QueueLevels {
    /// Sets the levels of queues that were looked at. Those of the others stay as they are.
    pub fn publish(&mut self, records: Vec<QueueRecord>) {
        for record in records {
            set(&record);
            let before = self.published.insert(record.purpose.clone(), record.clone());
            let before = before.map(|record| record.alarms).unwrap_or_default();
            for kind in AlarmKind::ALL {
                report(&record, kind, &before);
            }
        }
    }
}

impl Drop for QueueLevels {
    /// Sets the levels to zero: the next leader sets them on its own node.
    fn drop(&mut self) {
        for record in std::mem::take(&mut self.published).into_values() {
            let nothing = QueueRecord {
                visible: 0,
                in_flight: 0,
                delayed: 0,
                dead_letters: record.dead_letters.map(|_| 0),
                oldest: None,
                ..record
            };
            set(&nothing);
            for kind in AlarmKind::ALL {
                let [stage, job] = labels(&nothing.purpose);
                ALARMS.set(0, [stage, job, kind.as_str()]);
            }
        }
    }
}

/// Labels `stage` and `standing_job`, of which the one that does not apply is empty.
fn labels(purpose: &QueuePurpose) -> [&str; 2] {
    match purpose {
        QueuePurpose::Stage(stage) => [stage.as_str(), ""],
        QueuePurpose::StandingJob(job) => ["", job.as_str()],
    }
}

fn set(record: &QueueRecord) {
    let [stage, job] = labels(&record.purpose);
    let labels = [stage, job, &record.queue];
    let level = |number: u64| usize::try_from(number).unwrap_or(usize::MAX);
    QUEUE_VISIBLE.set(level(record.visible), labels);
    QUEUE_IN_FLIGHT.set(level(record.in_flight), labels);
    QUEUE_DELAYED.set(level(record.delayed), labels);
    if let Some(letters) = record.dead_letters {
        QUEUE_DEAD_LETTERS.set(level(letters), labels);
    }
    let age = record
        .oldest
        .map_or(0, |oldest| (record.looked_at - oldest).num_seconds());
    QUEUE_OLDEST_SECONDS.set(usize::try_from(age).unwrap_or(0), labels);
}

fn report(record: &QueueRecord, kind: AlarmKind, before: &[Alarm]) {
    let is_of = |alarm: &Alarm| alarm.kind == kind;
    let (stood, stands) = (before.iter().any(is_of), record.alarms.iter().any(is_of));
    let QueueRecord {
        purpose,
        queue,
        visible,
        in_flight,
        dead_letters,
        oldest,
        ..
    } = record;
    let alarm = kind.as_str();
    let [stage, job] = labels(purpose);
    ALARMS.set(usize::from(stands), [stage, job, alarm]);
    match (stood, stands) {
        (false, true) => {
            error!(%purpose, queue, alarm, visible, in_flight, ?dead_letters, ?oldest, "an alarm about a queue is raised");
        }
        (true, false) => info!(%purpose, queue, alarm, "an alarm about a queue is called off"),
        (true, true) | (false, false) => {}
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::telemetry::testing::Measured;
    use parkhang_core::domain::testing::{at, stage};

    /// Rows: 152, 153.
    #[test]
    fn levels_and_alarms_are_told_until_nobody_looks() {
        let measured = Measured::begin();
        let mut levels = QueueLevels::default();
        let record = QueueRecord {
            purpose: QueuePurpose::Stage(stage("ocr")),
            queue: "reading.fifo".to_owned(),
            looked_at: at(100),
            visible: 3,
            in_flight: 2,
            delayed: 1,
            dead_letters: Some(4),
            oldest: Some(at(40)),
            alarms: vec![Alarm {
                kind: AlarmKind::DeadLetters,
                since: at(0),
                held_at: at(100),
            }],
        };
        levels.publish(vec![record.clone()]);
        measured.assert_has(&[
            "parkhang_queue_visible{stage=ocr,standing_job=,queue=reading.fifo} 3",
            "parkhang_queue_in_flight{stage=ocr,standing_job=,queue=reading.fifo} 2",
            "parkhang_queue_delayed{stage=ocr,standing_job=,queue=reading.fifo} 1",
            "parkhang_queue_dead_letters{stage=ocr,standing_job=,queue=reading.fifo} 4",
            "parkhang_queue_oldest_published_seconds{stage=ocr,standing_job=,queue=reading.fifo} 60",
            "parkhang_alarm{stage=ocr,standing_job=,alarm=dead_letters} 1",
            "parkhang_alarm{stage=ocr,standing_job=,alarm=age} 0",
        ]);
        levels.publish(vec![QueueRecord {
            oldest: None,
            alarms: Vec::new(),
            ..record.clone()
        }]);
        measured.assert_has(&[
            "parkhang_queue_oldest_published_seconds{stage=ocr,standing_job=,queue=reading.fifo} 0",
            "parkhang_alarm{stage=ocr,standing_job=,alarm=dead_letters} 0",
        ]);
        levels.publish(vec![QueueRecord {
            purpose: QueuePurpose::StandingJob("ocr".parse().unwrap()),
            queue: "bec_ocr_tasks".to_owned(),
            ..record
        }]);
        measured.assert_has(&[
            "parkhang_queue_visible{stage=,standing_job=ocr,queue=bec_ocr_tasks} 3",
            "parkhang_alarm{stage=,standing_job=ocr,alarm=dead_letters} 1",
            "parkhang_alarm{stage=ocr,standing_job=,alarm=dead_letters} 0",
        ]);
        drop(levels);
        measured.assert_has(&[
            "parkhang_queue_visible{stage=ocr,standing_job=,queue=reading.fifo} 0",
            "parkhang_queue_dead_letters{stage=ocr,standing_job=,queue=reading.fifo} 0",
            "parkhang_queue_visible{stage=,standing_job=ocr,queue=bec_ocr_tasks} 0",
            "parkhang_alarm{stage=,standing_job=ocr,alarm=dead_letters} 0",
        ]);
    }
}
