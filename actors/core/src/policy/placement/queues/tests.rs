use proptest::prelude::*;

use super::super::place;
use super::*;
use crate::domain::testing::{self, at, pipeline, pool, stage, worker};
use crate::domain::{JobConfig, Task};

/// A job of a single stage: what it holds already, what waits, and what it may.
#[derive(Debug, Clone)]
struct Claim {
    priority: i32,
    limit: usize,
    held: usize,
    waiting: usize,
}

fn claim() -> impl Strategy<Value = Claim> {
    (-1..2_i32, 0..4_usize, 0..4_usize, 0..6_usize).prop_map(|(priority, limit, held, waiting)| Claim {
        priority,
        limit,
        held,
        waiting,
    })
}

impl Claim {
    fn may_hold(&self, leases: usize) -> bool {
        self.limit == 0 || leases <= self.limit
    }
}

/// Leases that each claim gets of so many free slots.
fn granted(claims: &[Claim], slots: usize) -> Vec<usize> {
    let id = |index: usize| JobId(index as i64);
    let job = |(index, claim): (usize, &Claim)| Job {
        id: id(index),
        pipeline: pipeline(&["read"]),
        config: JobConfig {
            priority: claim.priority,
            max_running: claim.limit,
            ..JobConfig::default()
        },
        ..testing::job()
    };
    let jobs: Vec<Job> = claims.iter().enumerate().map(job).collect();
    let task = |index: usize, n: usize| Task {
        job_id: id(index),
        ..testing::task((index * 100 + n) as i64)
    };
    let tasks: Vec<(Task, &Job)> = jobs
        .iter()
        .enumerate()
        .flat_map(|(index, job)| (0..claims[index].waiting).map(move |n| (task(index, n), job)))
        .collect();
    let held: Vec<Held> = claims
        .iter()
        .enumerate()
        .map(|(index, claim)| Held {
            worker: worker("elsewhere"),
            job: id(index),
            stage: stage("read"),
            leases: claim.held,
            suspects: 0,
        })
        .collect();
    let pools = [pool("pool", "read", slots)];
    let waiting = tasks.iter().map(|(task, job)| (task, *job));
    let placements = place(at(0), waiting, FreeSlots::of(&pools, &held), &held);
    let of_job = |index: usize| {
        placements
            .iter()
            .filter(move |placement| placement.task.0 / 100 == index as i64)
    };
    (0..claims.len()).map(|index| of_job(index).count()).collect()
}

proptest! {
    #[test]
    fn priority_goes_before_shares_and_limits_before_both(
        claims in prop::collection::vec(claim(), 1..5),
        slots in 0..10_usize,
    ) {
        let granted = granted(&claims, slots);
        let mut could_take = 0;
        for (claim, granted) in claims.iter().zip(&granted) {
            prop_assert!(*granted == 0 || claim.may_hold(claim.held + granted));
            let room = if claim.limit == 0 { usize::MAX } else { claim.limit.saturating_sub(claim.held) };
            could_take += claim.waiting.min(room);
        }
        prop_assert_eq!(granted.iter().sum::<usize>(), could_take.min(slots), "no slot is left idle");
        for (left, got) in claims.iter().zip(&granted) {
            let goes_empty = *got < left.waiting && left.may_hold(left.held + got + 1);
            for (other, taken) in claims.iter().zip(&granted) {
                if goes_empty && *taken > 0 {
                    prop_assert!(other.priority >= left.priority);
                    let ahead = (other.held + taken).saturating_sub(left.held + got);
                    prop_assert!(other.priority > left.priority || ahead <= 1);
                }
            }
        }
    }
}
