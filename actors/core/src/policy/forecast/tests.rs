use proptest::prelude::*;
use serde_json::json;

use super::*;
use crate::domain::JobConfig;
use crate::domain::testing::{self, stage};

fn pipeline() -> Pipeline {
    testing::pipeline(&["detect", "cut", "read"])
}

fn config() -> Map<String, Value> {
    let Value::Object(config) = serde_json::to_value(JobConfig::default()).unwrap() else {
        panic!("a configuration is an object");
    };
    config
}

fn made(settings: Value, model: &str) -> Option<MadeWith> {
    let Value::Object(settings) = settings else {
        panic!("settings are an object");
    };
    Some(MadeWith {
        settings,
        models: vec![model.to_owned()],
        names: vec![format!("{model}-1")],
    })
}

/// Record of a volume that is done, with what the job is set to now and the models that are loaded.
fn all_made() -> BTreeMap<StageName, Option<MadeWith>> {
    BTreeMap::from([
        (stage("detect"), made(json!({"use_tps": true}), "a")),
        (stage("cut"), made(json!({"k_factor": config()["k_factor"]}), "b")),
        (
            stage("read"),
            made(json!({"beam_width": 8, "head": "wylie"}), "c"),
        ),
    ])
}

fn cohort(position: Position, status: TaskStatus, volumes: u64) -> Cohort {
    let done = match &position {
        Position::Pending => 0,
        Position::At(at) => pipeline().stages().iter().position(|stage| stage == at).unwrap(),
        Position::Done => 3,
    };
    let made = all_made().into_iter();
    Cohort {
        made: made
            .filter(|(stage, _)| pipeline().stages()[..done].contains(stage))
            .collect(),
        position,
        status,
        terminal: false,
        forced: false,
        volumes,
        counted: volumes,
        pages: volumes * 10,
    }
}

struct World {
    config: Map<String, Value>,
    named: NamedModels,
    models: BTreeMap<StageName, BTreeSet<Vec<String>>>,
    paces: BTreeMap<StageName, Pace>,
}

impl World {
    fn new() -> Self {
        let model = |name: &str| BTreeSet::from([vec![name.to_owned()], vec!["older".to_owned()]]);
        let pace = |seconds| Pace {
            seconds_per_page: Some(seconds),
            samples: 12,
            of_this_job: true,
            ..Pace::default()
        };
        Self {
            config: config(),
            named: NamedModels::default(),
            models: BTreeMap::from([(stage("detect"), model("a")), (stage("read"), model("c"))]),
            paces: BTreeMap::from([
                (stage("detect"), pace(2.0)),
                (
                    stage("read"),
                    Pace {
                        seconds_per_volume: Some(7.0),
                        samples: 1,
                        ..Pace::default()
                    },
                ),
            ]),
        }
    }

    fn forecast(&self, cohorts: &[Cohort], again: Option<&Again>) -> Forecast {
        let known = Known {
            pipeline: &pipeline(),
            config: &self.config,
            named: &self.named,
            models: &self.models,
            paces: &self.paces,
            pages_of_a_volume: None,
        };
        forecast(cohorts, again, known)
    }
}

fn runs(forecast: &Forecast) -> Vec<Vec<(Cause, u64)>> {
    let stages = forecast.stages.iter();
    stages
        .map(|stage| {
            stage
                .runs
                .iter()
                .map(|(cause, volumes)| (*cause, *volumes))
                .collect()
        })
        .collect()
}

fn outdated(forecast: &Forecast) -> Vec<Vec<Cause>> {
    let stages = forecast.stages.iter();
    stages
        .map(|stage| stage.outdated.keys().copied().collect())
        .collect()
}

#[test]
fn what_is_missing_and_what_failed_will_run_and_is_priced() {
    let failed = cohort(Position::At(stage("cut")), TaskStatus::Failed, 2);
    let given_up = Cohort {
        terminal: true,
        ..failed.clone()
    };
    let unseen = Cohort {
        counted: 0,
        pages: 0,
        ..cohort(Position::Pending, TaskStatus::Pending, 3)
    };
    let forecast = World::new().forecast(
        &[
            unseen,
            failed,
            given_up,
            cohort(Position::Done, TaskStatus::Done, 5),
        ],
        None,
    );
    assert_eq!(
        runs(&forecast),
        [
            vec![(Cause::Missing, 3)],
            vec![(Cause::Missing, 3), (Cause::Failed, 2)],
            vec![(Cause::Missing, 5)]
        ]
    );
    assert_eq!(forecast.given_up, 2);
    let [detect, cut, read] = &forecast.stages[..] else {
        panic!("three stages");
    };
    // Volumes whose pages nobody knows are taken to be like the others.
    assert_eq!((detect.pages, detect.seconds), (Some(30.0), Some(60.0)));
    assert_eq!(
        (cut.pages, cut.seconds),
        (Some(50.0), None),
        "nothing like it has been done"
    );
    assert_eq!(read.seconds, Some(35.0), "by the volume");
    assert_eq!(
        read.pace.map(|pace| (pace.samples, pace.of_this_job)),
        Some((1, false))
    );
}

#[test]
fn a_change_reaches_the_stages_after_it_and_a_rerun_would_come_to_them() {
    let mut world = World::new();
    let done = [cohort(Position::Done, TaskStatus::Done, 4)];
    assert_eq!(outdated(&world.forecast(&done, None)), [vec![], vec![], vec![]]);
    let again = |from: &str, force| Again {
        from: stage(from),
        force,
    };
    let nothing = world.forecast(&done, Some(&again("detect", false)));
    assert_eq!(runs(&nothing), [vec![], vec![], vec![]]);
    assert!(
        nothing
            .stages
            .iter()
            .all(|stage| stage.stands == 4 && stage.seconds == Some(0.0))
    );
    let forced = world.forecast(&done, Some(&again("cut", true)));
    assert_eq!(
        runs(&forced),
        [vec![], vec![(Cause::Forced, 4)], vec![(Cause::Forced, 4)]]
    );

    world.config.insert("k_factor".to_owned(), json!(2.5));
    let changed = world.forecast(&done, None);
    assert_eq!(
        outdated(&changed),
        [vec![], vec![Cause::ConfigChanged], vec![Cause::InputChanged]]
    );
    assert_eq!(
        changed.stages[1].changed_settings,
        BTreeSet::from(["k_factor".to_owned()])
    );
    let rerun = world.forecast(&done, Some(&again("read", false)));
    assert_eq!(runs(&rerun), [vec![], vec![], vec![(Cause::InputChanged, 4)]]);
    assert_eq!(rerun.stages[2].seconds, Some(28.0));
}

#[test]
fn a_model_that_no_node_has_any_more_is_a_change_and_one_that_nobody_tells_of_is_not() {
    let mut world = World::new();
    let done = [cohort(Position::Done, TaskStatus::Done, 1)];
    world
        .models
        .insert(stage("read"), BTreeSet::from([vec!["new".to_owned()]]));
    world.models.remove(&stage("detect"));
    assert_eq!(
        outdated(&world.forecast(&done, None)),
        [vec![], vec![], vec![Cause::ModelChanged]]
    );
}

#[test]
fn a_model_that_the_job_names_is_a_change_where_another_made_the_result() {
    let mut world = World::new();
    let done = [cohort(Position::Done, TaskStatus::Done, 3)];
    let named = |name: &str| NamedModels::new([name.parse().unwrap()]);
    world.named = named("read=c-1");
    assert_eq!(outdated(&world.forecast(&done, None)), [vec![], vec![], vec![]]);
    world.named = named("read=other");
    for models in [world.models.clone(), BTreeMap::new()] {
        world.models = models;
        let changed = world.forecast(&done, None);
        assert_eq!(outdated(&changed), [vec![], vec![], vec![Cause::ModelChanged]]);
        assert_eq!(changed.stages[2].outdated[&Cause::ModelChanged], 3);
        let again = Again {
            from: stage("read"),
            force: false,
        };
        let rerun = world.forecast(&done, Some(&again));
        assert_eq!(runs(&rerun), [vec![], vec![], vec![(Cause::ModelChanged, 3)]]);
    }
}

#[test]
fn what_nobody_wrote_down_stands_and_is_said_to_be_unknown() {
    let mut old = cohort(Position::Done, TaskStatus::Done, 6);
    for made in old.made.values_mut() {
        *made = None;
    }
    let forecast = World::new().forecast(&[old], None);
    assert_eq!(outdated(&forecast), [vec![], vec![], vec![]]);
    assert!(forecast.stages.iter().all(|stage| stage.unknown == 6));
}

#[test]
fn after_a_rerun_what_still_stands_is_taken_over() {
    let sent_back = Cohort {
        made: all_made(),
        ..cohort(Position::Pending, TaskStatus::Pending, 2)
    };
    let forecast = World::new().forecast(std::slice::from_ref(&sent_back), None);
    assert_eq!(runs(&forecast), [vec![], vec![], vec![]]);
    let forced = Cohort {
        forced: true,
        ..sent_back
    };
    let forecast = World::new().forecast(&[forced], None);
    assert_eq!(runs(&forecast), [(); 3].map(|()| vec![(Cause::Forced, 2)]));
}

proptest! {
    #[test]
    fn every_volume_is_accounted_for_at_every_stage(
        places in proptest::collection::vec((0..4_usize, 0..3_usize, any::<bool>(), 1..5_u64), 0..6),
        from in proptest::option::of((0..3_usize, any::<bool>())),
    ) {
        let stages = pipeline().stages().to_vec();
        let cohorts: Vec<Cohort> = places.iter().map(|(place, status, forced, volumes)| {
            let status = [TaskStatus::Pending, TaskStatus::Done, TaskStatus::Failed][*status];
            let (position, status) = match place {
                3 => (Position::Done, TaskStatus::Done),
                place => (Position::At(stages[*place].clone()), status),
            };
            Cohort { forced: *forced, made: all_made(), ..cohort(position, status, *volumes) }
        }).collect();
        let again = from.map(|(from, force)| Again { from: stages[from].clone(), force });
        let forecast = World::new().forecast(&cohorts, again.as_ref());
        let all: u64 = cohorts.iter().map(|cohort| cohort.volumes).sum();
        let last = &forecast.stages[2];
        let waiting = last.volumes() + last.stands;
        prop_assert!(waiting <= all);
        if again.is_some() {
            prop_assert_eq!(waiting, all, "a rerun comes to the last stage of all");
        }
        for (before, after) in forecast.stages.iter().zip(&forecast.stages[1..]) {
            prop_assert!(before.volumes() + before.stands <= after.volumes() + after.stands);
        }
    }
}
