use proptest::prelude::*;

use super::*;
use crate::domain::testing::{at, stage};

fn limits(floor: u32, cap: u32, tasks_per_slot: u32) -> Limits {
    Limits {
        floor,
        cap,
        tasks_per_slot,
        max_age: TimeDelta::seconds(600),
        scale_out_cooldown: TimeDelta::seconds(60),
        scale_in_cooldown: TimeDelta::seconds(300),
    }
}

fn fleet(desired: u32, idle: u32) -> Fleet {
    Fleet {
        desired,
        limit: None,
        idle,
        slots: 1,
        changed_at: None,
    }
}

fn load(waiting: u64, running: u64) -> Load {
    Load {
        waiting,
        running,
        oldest: (waiting > 0).then(|| at(0)),
    }
}

#[track_caller]
fn decides(limits: Limits, loads: &[Load], fleet: Fleet, now: i64, desired: u32, reason: Reason) {
    let decision = decide(&limits, loads, &fleet, at(now));
    assert_eq!(decision, Decision { desired, reason });
}

/// Rows: 135, 136.
#[test]
fn with_one_task_a_slot_there_are_as_many_workers_as_tasks_up_to_the_cap() {
    let strict = limits(0, 128, 1);
    decides(strict, &[], fleet(0, 0), 0, 0, Reason::Sufficient);
    decides(strict, &[load(5, 0)], fleet(0, 0), 0, 5, Reason::Backlog);
    decides(strict, &[load(3, 2)], fleet(5, 0), 0, 5, Reason::Sufficient);
    decides(strict, &[load(500, 0)], fleet(5, 0), 0, 128, Reason::Backlog);
    decides(strict, &[load(372, 128)], fleet(128, 0), 0, 128, Reason::AtCap);
}

#[test]
fn the_stage_that_asks_for_the_most_says_how_many() {
    let two_slots = Fleet {
        slots: 2,
        ..fleet(0, 0)
    };
    let loads = [load(3, 0), load(12, 5)];
    decides(limits(0, 99, 1), &loads, two_slots, 0, 9, Reason::Backlog);
    decides(limits(0, 99, 4), &loads, two_slots, 0, 3, Reason::Backlog);
}

/// Rows: 155.
#[test]
fn a_task_that_waits_too_long_raises_the_number_step_by_step_to_a_slot_for_each() {
    let sparing = limits(0, 128, 10);
    let loads = [load(16, 4)];
    decides(sparing, &loads, fleet(2, 0), 599, 2, Reason::Sufficient);
    decides(sparing, &loads, fleet(2, 0), 600, 3, Reason::Age);
    decides(sparing, &loads, fleet(15, 0), 600, 20, Reason::Age);
    decides(sparing, &loads, fleet(20, 0), 600, 20, Reason::Sufficient);
    let nobody_waits = [Load {
        waiting: 0,
        ..load(1, 4)
    }];
    decides(sparing, &nobody_waits, fleet(1, 0), 600, 1, Reason::Sufficient);
}

#[test]
fn only_idle_workers_are_given_up_while_there_is_work() {
    let strict = limits(1, 99, 1);
    decides(strict, &[load(0, 3)], fleet(9, 0), 0, 9, Reason::Busy);
    decides(strict, &[load(0, 3)], fleet(9, 4), 0, 5, Reason::Idle);
    decides(strict, &[load(0, 3)], fleet(9, 8), 0, 3, Reason::Idle);
    decides(strict, &[load(0, 0)], fleet(9, 0), 0, 1, Reason::Empty);
}

#[test]
fn after_a_change_the_number_stands_for_a_while() {
    let changed = |desired, idle| Fleet {
        changed_at: Some(at(0)),
        ..fleet(desired, idle)
    };
    let strict = limits(0, 99, 1);
    decides(strict, &[load(9, 0)], changed(1, 0), 59, 1, Reason::Cooldown);
    decides(strict, &[load(9, 0)], changed(1, 0), 60, 9, Reason::Backlog);
    decides(strict, &[], changed(9, 9), 299, 9, Reason::Cooldown);
    decides(strict, &[], changed(9, 9), 300, 0, Reason::Empty);
}

#[test]
fn a_number_out_of_bounds_is_put_right_at_once() {
    let changed = |desired, limit| Fleet {
        changed_at: Some(at(0)),
        limit,
        ..fleet(desired, 0)
    };
    let bounds = limits(2, 8, 1);
    decides(bounds, &[load(50, 0)], changed(9, None), 1, 8, Reason::OverCap);
    decides(bounds, &[load(50, 0)], changed(8, Some(4)), 1, 4, Reason::OverCap);
    decides(bounds, &[], changed(1, None), 1, 2, Reason::BelowFloor);
    decides(bounds, &[], changed(0, Some(1)), 1, 1, Reason::BelowFloor);
}

#[test]
fn a_job_asks_for_no_more_than_it_may_have() {
    let of_job = |job, waiting, running| StageBacklog {
        job: JobId(job),
        stage: stage("ocr"),
        waiting,
        running,
        oldest: Some(at(job)),
    };
    let narrow = JobConfig {
        max_running: 6,
        max_running_per_stage: 4,
        ..JobConfig::default()
    };
    let wide = JobConfig::default();
    let config = |job: JobId| (job.0 < 3).then_some(if job.0 == 2 { &wide } else { &narrow });
    let load = |backlog: &[StageBacklog]| loads(backlog, config).into_values().collect::<Vec<_>>();
    let full = of_job(1, 50, 4);
    let expected = Load {
        waiting: 0,
        running: 4,
        oldest: None,
    };
    assert_eq!(load(std::slice::from_ref(&full)), [expected]);
    let expected = Load {
        waiting: 3 + 7,
        running: 1 + 2,
        oldest: Some(at(1)),
    };
    assert_eq!(load(&[of_job(2, 7, 2), of_job(1, 50, 1)]), [expected]);
}

#[test]
fn a_job_at_its_limit_in_one_stage_still_asks_for_workers_of_the_next() {
    let config = JobConfig {
        max_running: 4,
        ..JobConfig::default()
    };
    let at_stage = |name: &str, waiting, running| StageBacklog {
        job: JobId(1),
        stage: stage(name),
        waiting,
        running,
        oldest: Some(at(0)),
    };
    // All places are taken by the first stage, as the second has no workers yet.
    let backlog = [at_stage("detect", 50, 4), at_stage("read", 9, 0)];
    let loads = loads(&backlog, |_| Some(&config));
    assert_eq!(
        (loads[&stage("detect")].waiting, loads[&stage("read")].waiting),
        (0, 4)
    );
}

prop_compose! {
    fn any_limits()(
        floor in 0_u32..6, more in 0_u32..200, tasks_per_slot in 0_u32..20, out in 0_i64..300, back in 0_i64..900,
    ) -> Limits {
        Limits {
            scale_out_cooldown: TimeDelta::seconds(out),
            scale_in_cooldown: TimeDelta::seconds(back),
            ..limits(floor, floor + more, tasks_per_slot)
        }
    }
}

prop_compose! {
    fn any_fleet()(
        desired in 0_u32..300, limit in prop::option::of(0_u32..200), idle in 0_u32..300, slots in 0_u32..5,
        changed in prop::option::of(0_i64..1000),
    ) -> Fleet {
        Fleet { desired, limit, idle, slots, changed_at: changed.map(at) }
    }
}

prop_compose! {
    fn any_load()(waiting in 0_u64..2_000, running in 0_u64..400, since in 0_i64..1000) -> Load {
        Load { waiting, running, oldest: (waiting > 0).then(|| at(since)) }
    }
}

fn bounds(limits: &Limits, fleet: &Fleet) -> (u32, u32) {
    let cap = limits.cap.min(fleet.limit.unwrap_or(u32::MAX));
    (limits.floor.min(cap), cap)
}

proptest! {
    /// Rows: 135, 155.
    #[test]
    fn the_number_is_never_beyond_the_cap_nor_below_the_floor(
        limits in any_limits(), loads in prop::collection::vec(any_load(), 0..4), fleet in any_fleet(), now in 0_i64..2000,
    ) {
        let (floor, cap) = bounds(&limits, &fleet);
        let desired = decide(&limits, &loads, &fleet, at(now)).desired;
        prop_assert!((floor..=cap).contains(&desired), "{desired}");
    }

    #[test]
    fn nobody_at_work_is_given_up(
        limits in any_limits(), loads in prop::collection::vec(any_load(), 0..4), fleet in any_fleet(), now in 0_i64..2000,
    ) {
        let (_, cap) = bounds(&limits, &fleet);
        let desired = decide(&limits, &loads, &fleet, at(now)).desired;
        let has_work = loads.iter().any(|load| load.waiting + load.running > 0);
        if has_work && fleet.desired <= cap {
            prop_assert!(fleet.desired.saturating_sub(desired) <= fleet.idle);
        }
    }

    #[test]
    fn more_tasks_never_mean_fewer_workers(
        limits in any_limits(), mut loads in prop::collection::vec(any_load(), 1..4), fleet in any_fleet(), now in 0_i64..2000,
        more in 0_u64..500, which in any::<prop::sample::Index>(), waits in any::<bool>(),
    ) {
        let few = decide(&limits, &loads, &fleet, at(now)).desired;
        let which = which.index(loads.len());
        let load = &mut loads[which];
        if waits { load.waiting += more } else { load.running += more }
        let many = decide(&limits, &loads, &fleet, at(now)).desired;
        prop_assert!(few <= many, "{few}, then {many}");
    }

    /// Whatever comes and goes, two changes are a cooldown apart, and that of the second kind.
    #[test]
    fn the_number_does_not_flap(
        limits in any_limits(), slots in 1_u32..4,
        steps in prop::collection::vec((1_i64..120, any_load(), 0_u32..300), 1..60),
    ) {
        let mut fleet = Fleet { desired: limits.floor, limit: None, idle: 0, slots, changed_at: None };
        let mut now = at(0);
        for (seconds, load, idle) in steps {
            now += TimeDelta::seconds(seconds);
            fleet.idle = idle;
            let decision = decide(&limits, &[load], &fleet, now);
            if decision.desired == fleet.desired {
                continue;
            }
            let cooldown = match decision.desired > fleet.desired {
                true => limits.scale_out_cooldown,
                false => limits.scale_in_cooldown,
            };
            if let Some(changed) = fleet.changed_at {
                prop_assert!(now - changed >= cooldown);
            }
            (fleet.desired, fleet.changed_at) = (decision.desired, Some(now));
        }
    }

    #[test]
    fn without_tasks_the_number_comes_to_the_floor(
        limits in any_limits(), mut fleet in any_fleet(), start in 0_i64..2000,
    ) {
        let (floor, _) = bounds(&limits, &fleet);
        let (mut now, end) = (at(start), at(start.max(1000)) + limits.scale_in_cooldown);
        loop {
            let decision = decide(&limits, &[Load::default()], &fleet, now);
            if decision.desired != fleet.desired {
                (fleet.desired, fleet.changed_at) = (decision.desired, Some(now));
            }
            if now > end + limits.scale_in_cooldown {
                break;
            }
            now += TimeDelta::seconds(30);
        }
        prop_assert_eq!(fleet.desired, floor);
    }
}
