use std::time::Duration;

use chrono::TimeDelta;
use proptest::prelude::*;

use super::*;
use parkhang_actors::supervisor::HealthPolicy;
use parkhang_core::domain::testing::stage;
use parkhang_core::domain::{Hardware, JobConfig};
use parkhang_core::policy::autoscale::Limits;

fn hours(hours: u64) -> Duration {
    Duration::from_secs(hours * 3600)
}

fn profile() -> Profile {
    let stage = |name: &str, hardware, seconds: &[f64]| StageProfile {
        stage: stage(name),
        hardware,
        seconds_per_page: Distribution::new(seconds.to_vec()).unwrap(),
    };
    Profile {
        about: "made up".to_owned(),
        pages_per_volume: Distribution::new(vec![5.0, 40.0, 200.0]).unwrap(),
        stages: vec![
            stage("find", Hardware::Gpu, &[0.5, 1.0, 2.0]),
            stage("cut", Hardware::Cpu, &[0.2, 0.3]),
            stage("read", Hardware::Gpu, &[1.0, 2.0, 5.0]),
            stage("reduce", Hardware::Cpu, &[0.01]),
        ],
    }
}

/// Nodes that end every ten minutes on average, half of them without a word, and volumes that fail or kill.
fn stormy(seed: u64) -> Settings {
    let class = |hardware, nodes| NodeClass {
        hardware,
        nodes,
        slots: 2,
        speed: 1.0,
    };
    Settings {
        seed,
        volumes: 200,
        fleet: vec![class(Hardware::Gpu, 7), class(Hardware::Cpu, 3)],
        autoscaling: None,
        profile: profile(),
        faults: Faults {
            between: Duration::from_secs(600),
            repair: Duration::from_secs(60),
            announced: 0.5,
            notice: Duration::from_secs(120),
            failing_runs: 0.05,
            poison: 0.02,
        },
        sick: None,
        queues: None,
        timings: Timings::default(),
        config: JobConfig::default(),
        horizon: hours(24 * 30),
    }
}

fn autoscaled(settings: Settings) -> Settings {
    let limits = Limits {
        floor: 0,
        cap: 99,
        tasks_per_slot: 1,
        max_age: TimeDelta::hours(1),
        scale_out_cooldown: TimeDelta::minutes(1),
        scale_in_cooldown: TimeDelta::minutes(5),
    };
    Settings {
        autoscaling: Some(Autoscaling {
            limits: Hardware::ALL.map(|hardware| (hardware, limits)).into(),
            interval: Duration::from_secs(30),
            boot: Duration::from_secs(120),
        }),
        ..settings
    }
}

/// Half of the nodes with a GPU have a device that is sick, and nothing else happens.
fn half_sick(seed: u64, sickness: Sickness, pages_between: f64) -> Settings {
    let mut settings = Settings {
        volumes: 60,
        faults: Faults {
            between: Duration::ZERO,
            failing_runs: 0.0,
            poison: 0.0,
            ..stormy(seed).faults
        },
        sick: Some(SickDevices {
            share: 0.5,
            sickness,
            pages_between,
            health: HealthPolicy::default(),
        }),
        ..stormy(seed)
    };
    settings.fleet[0].nodes = 8;
    settings
}

async fn simulated(settings: Settings) -> SimulationReport {
    simulate(settings).await.unwrap()
}

fn assert_nothing_is_lost(report: &SimulationReport) {
    let ended = report.finished + report.quarantined + report.failed;
    assert_eq!(ended, report.volumes, "{report:#?}");
    assert_eq!(report.audit, Audit::default(), "{report:#?}");
}

#[tokio::test]
async fn a_storm_loses_nothing_and_books_no_slot_twice() {
    let report = simulated(stormy(1)).await;
    assert_nothing_is_lost(&report);
    let ends = report.ends;
    assert!(
        ends.killed > 0 && ends.drained > 0 && ends.crashed > 0 && ends.failed > 0,
        "{ends:?}"
    );
    assert!(report.quarantined > 0, "{report:#?}");
    assert!(report.undelivered > 0, "nothing was sent to a node that had gone");
    assert!(report.repeated_pages > 0);
    let last = &report.stages[3];
    assert_eq!(last.succeeded as usize, report.finished, "each volume ends once");
}

#[tokio::test]
async fn calm_weather_repeats_nothing() {
    let settings = Settings {
        faults: Faults {
            between: Duration::ZERO,
            failing_runs: 0.0,
            poison: 0.0,
            ..stormy(1).faults
        },
        ..stormy(1)
    };
    let report = simulated(settings).await;
    assert_nothing_is_lost(&report);
    assert_eq!(
        (report.finished, report.repeated_pages, report.node_ends),
        (200, 0, 0)
    );
    for stage in &report.stages {
        assert_eq!(
            (stage.succeeded, stage.pages),
            (200, report.pages),
            "{}",
            stage.stage
        );
    }
    let [gpu, _] = &report.classes[..] else {
        panic!("two classes");
    };
    let reading = gpu.utilisation.iter().find(|(stage, _)| stage == "read").unwrap();
    assert!(
        reading.1 > 0.7,
        "the stage with the most work keeps its slots busy: {reading:?}"
    );
}

#[tokio::test]
async fn the_makespan_is_that_of_the_narrowest_stage() {
    let one = Distribution::new(vec![1.0]).unwrap();
    let mut settings = stormy(1);
    settings.faults.between = Duration::ZERO;
    settings.faults.failing_runs = 0.0;
    settings.faults.poison = 0.0;
    settings.profile.pages_per_volume = Distribution::new(vec![100.0]).unwrap();
    for stage in &mut settings.profile.stages {
        stage.seconds_per_page = one.clone();
    }
    // 200 volumes of 100 s over the six slots that each cpu stage has; the gpu stages have 14.
    let report = simulated(settings).await;
    let narrowest = 200.0 * 100.0 / 6.0;
    let others = 3.0 * 100.0;
    let within = narrowest..narrowest + others + 100.0;
    assert!(within.contains(&report.makespan_s), "{} s", report.makespan_s);
}

#[tokio::test]
async fn a_fleet_that_lacks_a_stage_is_refused() {
    let mut settings = stormy(1);
    settings.fleet.truncate(1);
    let refused = simulate(settings).await;
    assert!(matches!(refused, Err(SimulationError::Unserved { stage, .. }) if stage == "cut"));
}

#[tokio::test]
async fn what_does_not_end_is_given_up() {
    let mut settings = stormy(1);
    settings.horizon = Duration::from_secs(60);
    let refused = simulate(settings).await;
    assert!(matches!(
        refused,
        Err(SimulationError::Unfinished { unfinished: 1.., .. })
    ));
}

/// Rows: 135, 155.
#[tokio::test]
async fn an_autoscaled_fleet_does_the_same_work_with_fewer_node_hours() {
    let mut oversized = stormy(1);
    for class in &mut oversized.fleet {
        class.nodes = 25;
    }
    let fixed = simulated(oversized.clone()).await;
    let report = simulated(autoscaled(oversized)).await;
    assert_nothing_is_lost(&report);
    assert!(report.scalings > 2, "{report:#?}");
    let whole = fixed.makespan_s / 3600.0 * 50.0;
    assert!(
        (fixed.node_hours - whole).abs() < 1e-6,
        "{} of {whole}",
        fixed.node_hours
    );
    assert!(
        report.node_hours < fixed.node_hours,
        "{} hours",
        report.node_hours
    );
    assert!(
        report.makespan_s < 2.0 * fixed.makespan_s,
        "{} s",
        report.makespan_s
    );
    for class in &report.classes {
        assert!((1..=class.nodes).contains(&class.most_nodes), "{class:?}");
    }
}

#[tokio::test]
async fn nobody_is_there_before_the_boot_delay() {
    let mut settings = autoscaled(stormy(1));
    settings.faults.between = Duration::ZERO;
    let delayed = |minutes: u64| {
        let mut settings = settings.clone();
        let autoscaling = settings.autoscaling.as_mut().unwrap();
        autoscaling.boot = Duration::from_secs(minutes * 60);
        simulated(settings)
    };
    let (soon, late) = (delayed(1).await, delayed(31).await);
    assert!(
        late.makespan_s > soon.makespan_s + 1_700.0,
        "{} s",
        late.makespan_s
    );
    assert!(late.node_hours > soon.node_hours, "boots are paid for");
}

#[tokio::test]
async fn sick_devices_are_renewed_given_up_and_worked_around() {
    for sickness in Sickness::ALL {
        let report = simulated(half_sick(1, sickness, 30.0)).await;
        let devices = report.devices.unwrap();
        assert_eq!(devices.nodes, 4, "{sickness:?}");
        let (faults, ends, out) = (
            devices.faults > 0,
            devices.node_ends > 0,
            devices.out_of_service > 0,
        );
        let expected = match sickness {
            Sickness::Hangs => (true, true, false),
            Sickness::Fails => (true, false, true),
            Sickness::HangsAtTimes | Sickness::FailsAtTimes => (true, ends, out),
            Sickness::Slow => (false, false, false),
        };
        assert_eq!((faults, ends, out), expected, "{sickness:?}: {devices:?}");
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(12))]

    /// Nor does any of their nodes hold up what the others could do: the job takes little longer than without these nodes.
    #[test]
    fn sick_devices_are_no_volumes_fault(
        seed in any::<u64>(),
        sickness in prop::sample::select(Sickness::ALL.to_vec()),
        pages_between in 2.0..100.0_f64,
    ) {
        let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
        runtime.block_on(async {
            let settings = half_sick(seed, sickness, pages_between);
            let mut healthy = Settings { sick: None, ..settings.clone() };
            healthy.fleet[0].nodes /= 2;
            let (report, alone) = (simulated(settings).await, simulated(healthy).await);
            assert_nothing_is_lost(&report);
            prop_assert_eq!((report.finished, report.failed, report.quarantined), (60, 0, 0));
            let blamed = report.devices.map(|devices| devices.blamed);
            prop_assert!(sickness == Sickness::HangsAtTimes || blamed == Some(0), "{:?}", report.devices);
            // The largest volume on the slowest device, or the wait for what hangs.
            let longest = 200.0 * (2.0 + 5.0) * 20.0;
            prop_assert!(
                report.makespan_s < alone.makespan_s + longest,
                "{} s, {} s without them", report.makespan_s, alone.makespan_s
            );
            Ok(())
        })?;
    }

    #[test]
    fn whatever_the_seed_nothing_is_lost_and_the_run_repeats(
        seed in any::<u64>(), mean_s in 120_u64..3_000, scales in any::<bool>(),
    ) {
        let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
        runtime.block_on(async {
            let mut settings = if scales { autoscaled(stormy(seed)) } else { stormy(seed) };
            settings.volumes = 40;
            settings.faults.between = Duration::from_secs(mean_s);
            let report = simulated(settings.clone()).await;
            assert_nothing_is_lost(&report);
            let again = SimulationReport { cost: report.cost, ..simulated(settings).await };
            prop_assert_eq!(report, again);
            Ok(())
        })?;
    }
}
