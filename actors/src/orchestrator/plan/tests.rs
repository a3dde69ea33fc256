//! The state machine as a whole, against a world of pools that fail: passes over a store in memory, and whatever may happen
//! between two of them.

mod services;
mod world;

use proptest::prelude::*;

use self::world::{JOBS, STAGES, VOLUMES, World};
use parkhang_core::domain::ErrorCategory;
use parkhang_core::policy::job_action::JobAction;
use parkhang_core::policy::transition::Phase;

/// What happens next. Indices are taken modulo what there is.
#[derive(Debug, Clone)]
enum Happening {
    Pass,
    /// All pools that can, renew their leases.
    Heartbeats,
    Seconds(i64),
    Succeed(usize),
    Fail(usize, ErrorCategory),
    /// The actor that runs the stage dies.
    Die(usize),
    NodeDies(usize),
    GiveBack(usize),
    /// The stage hears nothing and says nothing any more, but goes on.
    Freeze(usize),
    /// A frozen stage reports a success.
    Thaw(usize),
    Act(usize, JobAction),
    Limit(usize, &'static str, i32),
    Rerun {
        job: usize,
        stage: usize,
        volume: Option<usize>,
        phase: Option<Phase>,
        force: bool,
    },
}

fn happening() -> impl Strategy<Value = Happening> {
    let place = any::<usize>;
    let category = prop::sample::select(vec![ErrorCategory::Network, ErrorCategory::Input]);
    let action = prop::sample::select(vec![JobAction::Pause, JobAction::Resume, JobAction::Resume]);
    let limit = prop::sample::select(vec!["max_running", "max_running_per_stage", "priority"]);
    prop_oneof![
        12 => Just(Happening::Pass),
        4 => Just(Happening::Heartbeats),
        4 => (0..40_i64).prop_map(Happening::Seconds),
        10 => place().prop_map(Happening::Succeed),
        3 => (place(), category).prop_map(|(run, category)| Happening::Fail(run, category)),
        2 => place().prop_map(Happening::Die),
        2 => place().prop_map(Happening::NodeDies),
        2 => place().prop_map(Happening::GiveBack),
        2 => place().prop_map(Happening::Freeze),
        2 => place().prop_map(Happening::Thaw),
        3 => (0..JOBS, action).prop_map(|(job, action)| Happening::Act(job, action)),
        1 => (0..JOBS).prop_map(|job| Happening::Act(job, JobAction::Cancel)),
        2 => (0..JOBS, limit, 0..3_i32).prop_map(|(job, key, value)| Happening::Limit(job, key, value)),
        1 => (0..JOBS, 1..5_i32).prop_map(|(job, value)| Happening::Limit(job, "max_attempts", value)),
        2 => (
            0..JOBS,
            0..STAGES.len(),
            prop::option::of(0..VOLUMES),
            prop::option::of(prop::sample::select(Phase::ALL.to_vec())),
            any::<bool>(),
        )
            .prop_map(|(job, stage, volume, phase, force)| Happening::Rerun { job, stage, volume, phase, force }),
    ]
}

impl World {
    async fn live_through(&mut self, happening: &Happening) {
        match *happening {
            Happening::Pass => self.pass().await,
            Happening::Heartbeats => self.heartbeats().await,
            Happening::Seconds(seconds) => self.wait(seconds),
            Happening::Succeed(run) => self.succeed(run).await,
            Happening::Fail(run, category) => self.fail(run, category).await,
            Happening::Die(run) => self.die(run).await,
            Happening::NodeDies(node) => self.node_dies(node).await,
            Happening::GiveBack(run) => self.release(run).await,
            Happening::Freeze(run) => self.freeze(run),
            Happening::Thaw(run) => self.thaw(run).await,
            Happening::Act(job, action) => self.act(job, action).await,
            Happening::Limit(job, key, value) => self.limit(job, key, value).await,
            Happening::Rerun {
                job,
                stage,
                volume,
                phase,
                force,
            } => self.rerun(job, stage, volume, phase, force).await,
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 200, ..ProptestConfig::default() })]

    #[test]
    fn whatever_happens_nothing_is_lost_and_all_ends_when_the_faults_stop(
        happenings in prop::collection::vec(happening(), 0..150),
    ) {
        futures::executor::block_on(async {
            let mut world = World::new().await;
            for happening in &happenings {
                world.live_through(happening).await;
                world.check().await;
            }
            world.calm().await;
        });
    }
}
