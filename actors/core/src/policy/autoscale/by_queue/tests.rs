use proptest::prelude::*;

use super::*;
use crate::domain::testing::at;
use crate::policy::autoscale::{Limits, decide};

fn limits(floor: u32, cap: u32, cooldown: i64) -> Limits {
    Limits {
        floor,
        cap,
        tasks_per_slot: 1,
        max_age: TimeDelta::minutes(15),
        scale_out_cooldown: TimeDelta::seconds(cooldown),
        scale_in_cooldown: TimeDelta::seconds(cooldown),
    }
}

#[test]
fn a_backlog_is_as_old_as_the_time_for_which_messages_have_waited_without_a_break() {
    let history = QueueHistory::new(at(0)).after(3, 0, at(10)).after(1, 2, at(40));
    let load = history.load(1, 2);
    assert_eq!((load.waiting, load.running, load.oldest), (1, 2, Some(at(10))));
    let history = history.after(0, 2, at(70)).after(5, 2, at(100));
    assert_eq!(history.load(5, 2).oldest, Some(at(100)));
    assert_eq!(
        history.load(5, 2).oldest,
        history.unanswered(at(110)).load(5, 2).oldest
    );
}

#[test]
fn a_fleet_falls_once_its_queues_have_been_empty_for_a_while() {
    let fleet = Fleet {
        desired: 5,
        limit: None,
        idle: 0,
        slots: 1,
        changed_at: None,
    };
    let fall = |history: QueueHistory, now| {
        let decision = decide(&limits(0, 9, 0), &[history.load(0, 0)], &fleet, at(now));
        let settled = settled(decision, &fleet, history.busy_at(), at(now));
        (settled.desired, settled.reason)
    };
    let history = QueueHistory::new(at(0)).after(0, 1, at(60)).after(0, 0, at(90));
    assert_eq!(fall(history, 179), (5, Reason::Cooldown));
    assert_eq!(fall(history, 180), (0, Reason::Empty));
    assert_eq!(
        fall(history.unanswered(at(170)), 200),
        (5, Reason::Cooldown),
        "it may be busy"
    );
}

/// A minute or so in a fleet without an orchestrator.
#[derive(Debug, Clone, Copy)]
struct Step {
    seconds: i64,
    comes: u64,
    /// Share in per cent of the messages that are held and get done.
    done: u64,
    /// True if the queue says that it is empty, whatever it holds.
    lies: bool,
}

prop_compose! {
    fn step()(seconds in 5_i64..90, comes in prop_oneof![3 => Just(0), 1 => 0_u64..40], done in 0_u64..=100, lies in any::<bool>()) -> Step {
        Step { seconds, comes, done, lies }
    }
}

proptest! {
    /// Rows: 155.
    #[test]
    fn no_worker_is_stopped_at_work_and_the_number_stays_within_its_bounds_and_does_not_flap(
        floor in 0_u32..3, more in 1_u32..30, slots in 1_u32..4, cooldown in 0_i64..300,
        steps in prop::collection::vec(step(), 1..80),
    ) {
        let limits = limits(floor, floor + more, cooldown);
        let mut fleet = Fleet { desired: floor, limit: None, idle: 0, slots, changed_at: None };
        let (mut now, mut true_at) = (at(0), at(0));
        let (mut waiting, mut held, mut was_busy) = (0_u64, 0_u64, false);
        let mut history = QueueHistory::new(now);
        for Step { seconds, comes, done, lies } in steps {
            now += TimeDelta::seconds(seconds);
            held -= held * done / 100;
            waiting += comes;
            let room = u64::from(fleet.desired * slots).saturating_sub(held);
            (held, waiting) = (held + room.min(waiting), waiting - room.min(waiting));
            // A queue tells the truth in the end. Work that comes in the moment of a fall nobody can know of: its worker gives it back.
            let lies = lies && was_busy && now - true_at < SETTLING;
            if !lies {
                (true_at, was_busy) = (now, waiting + held > 0);
            }
            let (seen_waiting, seen_held) = if lies { (0, 0) } else { (waiting, held) };
            history = history.after(seen_waiting, seen_held, now);
            let load = history.load(seen_waiting, seen_held);
            let decision = settled(decide(&limits, &[load], &fleet, now), &fleet, history.busy_at(), now);
            prop_assert!((limits.floor..=limits.cap).contains(&decision.desired));
            if decision.desired == fleet.desired {
                continue;
            }
            if decision.desired < fleet.desired {
                prop_assert_eq!((waiting, held), (0, 0));
            }
            if let Some(changed) = fleet.changed_at {
                prop_assert!(now - changed >= TimeDelta::seconds(cooldown));
            }
            (fleet.desired, fleet.changed_at) = (decision.desired, Some(now));
        }
    }

    #[test]
    fn a_fleet_comes_from_zero_and_goes_back(messages in 1_u64..200, cap in 1_u32..50) {
        let limits = limits(0, cap, 60);
        let mut fleet = Fleet { desired: 0, limit: None, idle: 0, slots: 1, changed_at: None };
        let mut history = QueueHistory::new(at(0));
        let mut look = |waiting, now| {
            history = history.after(waiting, 0, at(now));
            let decision = decide(&limits, &[history.load(waiting, 0)], &fleet, at(now));
            let decision = settled(decision, &fleet, history.busy_at(), at(now));
            if decision.desired != fleet.desired {
                (fleet.desired, fleet.changed_at) = (decision.desired, Some(at(now)));
            }
            u64::from(fleet.desired)
        };
        prop_assert_eq!(look(0, 0), 0);
        prop_assert_eq!(look(messages, 30), messages.min(u64::from(cap)));
        prop_assert_eq!(look(0, 140), messages.min(u64::from(cap)));
        prop_assert_eq!(look(0, 150), 0);
    }
}
