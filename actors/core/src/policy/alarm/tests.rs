use proptest::prelude::*;

use super::*;
use crate::domain::testing::{at, node_record};

const BOUNDS: Bounds = Bounds {
    max_age: TimeDelta::minutes(15),
    in_flight: 20_000,
    scanned: Some(120_000),
    retention: TimeDelta::days(14),
};

fn kinds(sight: Sight, now: i64) -> Vec<AlarmKind> {
    let alarms = standing(&BOUNDS, &sight, &[], at(now));
    alarms.into_iter().map(|alarm| alarm.kind).collect()
}

fn working(done: u64, failed: u64, nodes: u64, lost: u64) -> Sight {
    Sight {
        work: Work {
            done,
            failed,
            nodes,
            lost,
        },
        ..Sight::default()
    }
}

/// Rows: 153.
#[test]
fn age_dead_letters_failures_and_crashes_raise_alarms() {
    let waits = Sight {
        oldest: Some(at(0)),
        ..Sight::default()
    };
    assert_eq!(kinds(waits, 900), []);
    assert_eq!(kinds(waits, 901), [AlarmKind::Age]);
    let dead = Sight {
        dead_letters: 1,
        ..Sight::default()
    };
    assert_eq!(kinds(dead, 0), [AlarmKind::DeadLetters]);
    assert_eq!(kinds(working(0, 2, 0, 0), 0), [], "two failures are no evidence");
    assert_eq!(kinds(working(3, 3, 0, 0), 0), [AlarmKind::Failures]);
    assert_eq!(kinds(working(4, 3, 0, 0), 0), []);
    assert_eq!(kinds(working(0, 0, 3, 3), 0), [AlarmKind::Crashes]);
    assert_eq!(
        kinds(working(0, 0, 4, 3), 0),
        [],
        "so it is in a fleet of spot machines"
    );
}

/// Rows: 52, 153.
#[test]
fn an_alarm_about_a_missing_queue_is_called_off_as_soon_as_it_is_there() {
    let missing = Sight {
        is_missing: true,
        ..Sight::default()
    };
    let raised = standing(&BOUNDS, &missing, &[], at(0));
    assert_eq!(raised[0].kind, AlarmKind::Missing);
    assert_eq!(standing(&BOUNDS, &Sight::default(), &raised, at(1)), []);
}

#[test]
fn nodes_are_counted_by_their_hardware_and_losses_for_a_while() {
    let node = |role: &str, state, seen| NodeRecord {
        roles: vec![role.to_owned()],
        state,
        last_seen: at(seen),
        ..node_record("w")
    };
    let nodes = [
        node("gpu", NodeState::Joined, 0),
        node("gpu", NodeState::Draining, 0),
        node("gpu", NodeState::Lost, 400),
        node("gpu", NodeState::Lost, 399),
        node("gpu", NodeState::Left, 999),
        node("cpu", NodeState::Lost, 999),
    ];
    let expected = Work {
        done: 5,
        failed: 1,
        nodes: 2,
        lost: 1,
    };
    assert_eq!(Work::of(5, 1, Hardware::Gpu, &nodes, at(1000)), expected);
}

/// Rows: D12.
#[test]
fn each_quota_that_grows_raises_an_alarm_before_it_is_reached() {
    let quiet = Sight::default();
    for (sight, now, expected) in [
        (
            Sight {
                in_flight: 15_999,
                ..quiet
            },
            0,
            None,
        ),
        (
            Sight {
                in_flight: 16_000,
                ..quiet
            },
            0,
            Some(AlarmKind::InFlight),
        ),
        (
            Sight {
                visible: 95_999,
                ..quiet
            },
            0,
            None,
        ),
        (
            Sight {
                visible: 96_000,
                ..quiet
            },
            0,
            Some(AlarmKind::Backlog),
        ),
    ] {
        assert_eq!(kinds(sight, now), Vec::from_iter(expected), "{sight:?}");
    }
    let waits = Sight {
        oldest: Some(at(0)),
        ..quiet
    };
    let days = |days: i64| days * 24 * 60 * 60;
    assert_eq!(kinds(waits, days(11)), [AlarmKind::Age]);
    assert_eq!(kinds(waits, days(12)), [AlarmKind::Age, AlarmKind::Retention]);
    let standard = Bounds {
        scanned: None,
        ..BOUNDS
    };
    let deep = Sight {
        visible: 1_000_000,
        ..quiet
    };
    assert_eq!(standing(&standard, &deep, &[], at(0)), []);
}

#[test]
fn an_alarm_is_called_off_late_and_keeps_the_time_at_which_it_was_raised() {
    let held = |in_flight| Sight {
        in_flight,
        ..Sight::default()
    };
    let mut alarms = Vec::new();
    for (now, in_flight, expected) in [
        (0, 16_000, Some((0, 0))),
        (60, 14_000, Some((0, 60))),
        (120, 13_999, Some((0, 60))),
        (179, 0, Some((0, 60))),
        (180, 0, None),
        (240, 14_000, None),
        (300, 20_000, Some((300, 300))),
    ] {
        alarms = standing(&BOUNDS, &held(in_flight), &alarms, at(now));
        let expected = expected.map(|(since, held_at)| Alarm {
            kind: AlarmKind::InFlight,
            since: at(since),
            held_at: at(held_at),
        });
        assert_eq!(alarms, Vec::from_iter(expected), "at {now}");
    }
}

prop_compose! {
    fn any_sight()(
        visible in 0_u64..200_000, in_flight in 0_u64..30_000, dead_letters in 0_u64..2, oldest in prop::option::of(0_i64..2000),
        done in 0_u64..9, failed in 0_u64..9, nodes in 0_u64..9, lost in 0_u64..9, is_missing in any::<bool>(),
    ) -> Sight {
        let work = Work { done, failed, nodes, lost };
        Sight { is_missing, visible, in_flight, dead_letters, oldest: oldest.map(at), work }
    }
}

proptest! {
    /// Rows: 153.
    #[test]
    fn alarms_do_not_flicker(looks in prop::collection::vec((1_i64..200, any_sight()), 1..40)) {
        let (mut now, mut alarms) = (at(0), Vec::new());
        for (pause, sight) in looks {
            now += TimeDelta::seconds(pause);
            let after = standing(&BOUNDS, &sight, &alarms, now);
            prop_assert!(after.is_sorted_by_key(|alarm| alarm.kind));
            for kind in AlarmKind::ALL {
                let find = |alarms: &[Alarm]| alarms.iter().find(|alarm| alarm.kind == kind).copied();
                match (find(&alarms), find(&after)) {
                    (None, Some(raised)) => {
                        prop_assert_eq!(level(kind, &BOUNDS, &sight, now), Level::Over);
                        prop_assert_eq!(raised.since, now);
                    }
                    (Some(stood), Some(stands)) => prop_assert_eq!(stood.since, stands.since),
                    (Some(stood), None) => {
                        prop_assert_eq!(level(kind, &BOUNDS, &sight, now), Level::Under);
                        prop_assert!(now - stood.held_at >= calm(kind) && now - stood.since >= calm(kind));
                    }
                    (None, None) => prop_assert_ne!(level(kind, &BOUNDS, &sight, now), Level::Over),
                }
            }
            alarms = after;
        }
    }
}
