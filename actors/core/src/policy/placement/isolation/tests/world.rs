//! Volumes of one job that nodes run until the poison among them kills or hangs what it runs on, while other nodes have devices
//! that hang whatever they are given.

use super::*;
use crate::domain::{Lease, Position};
use crate::policy::pool_health::{FaultLimits, PoolHealth, Remedy};

const LIMITS: FaultLimits = FaultLimits {
    stalls: 5,
    silences: 2,
    renewals: 5,
};

/// Processes that a service manager starts on a machine whose device hangs.
const STARTS: usize = 3;

/// Effect of the poison on the place where it runs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Harm {
    KillsNode,
    HangsPool,
}

struct Node {
    name: String,
    /// Nothing comes back from its device.
    hangs: bool,
    health: HashMap<StageName, PoolHealth>,
    starts: usize,
}

struct World {
    job: Job,
    tasks: Vec<Task>,
    nodes: Vec<Node>,
    slots: usize,
    poison: usize,
    harm: Harm,
    max_interruptions: i32,
    /// Losses of the poison that were held against it.
    losses: usize,
}

impl World {
    fn pools(&self) -> Vec<PoolInfo> {
        let nodes = self.nodes.iter();
        nodes
            .flat_map(|node| super::node(&node.name, self.slots))
            .collect()
    }

    fn held(&self) -> Vec<Held> {
        let mut held: HashMap<(WorkerId, StageName), Held> = HashMap::new();
        for task in &self.tasks {
            let (Some(lease), Position::At(stage)) = (&task.lease, &task.position) else {
                continue;
            };
            let entry = held
                .entry((lease.worker.clone(), stage.clone()))
                .or_insert_with(|| Held {
                    worker: lease.worker.clone(),
                    job: self.job.id,
                    stage: stage.clone(),
                    leases: 0,
                    suspects: 0,
                });
            entry.leases += 1;
            entry.suspects += usize::from(is_suspect(task));
        }
        held.into_values().collect()
    }

    fn apply(&mut self, index: usize, event: &Event) {
        let task = &self.tasks[index];
        let scope = self.job.config.retry_scope;
        self.tasks[index] = next(task, &self.job.pipeline, scope, event, at(0)).unwrap();
    }

    fn pass(&mut self) {
        let (held, pools) = (self.held(), self.pools());
        let tasks = self.tasks.iter().map(|task| (task, &self.job));
        let placements = place(at(0), tasks, FreeSlots::of(&pools, &held), &held);
        for Placement { task, stage, worker } in placements {
            let index = self.tasks.iter().position(|known| known.id == task).unwrap();
            let until = at(0);
            self.apply(index, &Event::Leased { stage, worker, until });
        }
        for task in self.tasks.iter().filter(|task| is_suspect(task)) {
            let Some(lease) = &task.lease else { continue };
            let beside = self.running(|worker| worker.node() == lease.worker.node());
            assert!(beside.len() <= 1, "a suspect is not alone");
        }
    }

    /// Volumes whose worker is such a one.
    fn running(&self, is_such: impl Fn(&WorkerId) -> bool) -> Vec<usize> {
        let leases = |task: &Task| task.lease.as_ref().is_some_and(|lease| is_such(&lease.worker));
        (0..self.tasks.len())
            .filter(|index| leases(&self.tasks[*index]))
            .collect()
    }

    fn node_of(&self, task: usize) -> Option<usize> {
        let lease = self.tasks[task].lease.as_ref()?;
        self.nodes
            .iter()
            .position(|node| node.name == lease.worker.node())
    }

    /// The poison does what it does, if it runs.
    fn harm(&mut self) {
        let Some(node) = self.node_of(self.poison).filter(|node| !self.nodes[*node].hangs) else {
            return;
        };
        let Some(Lease { worker, .. }) = self.tasks[self.poison].lease.clone() else {
            return;
        };
        let lost = match self.harm {
            Harm::KillsNode => self.running(|other| other.node() == worker.node()),
            // Whatever else runs there stands still for as long as the poison does.
            Harm::HangsPool => self.running(|other| *other == worker),
        };
        if self.harm == Harm::HangsPool {
            let Position::At(stage) = self.tasks[self.poison].position.clone() else {
                return;
            };
            let health = self.nodes[node].health.entry(stage).or_default();
            // The renewed pool answers, and nothing speaks against it.
            assert_ne!(
                health.stalled(LIMITS),
                Remedy::EndNode,
                "a volume that hangs ended its node"
            );
        }
        self.losses += 1;
        for index in lost {
            let event = lost_lease(&self.tasks[index], Loss::Node, self.max_interruptions);
            self.apply(index, &event);
        }
    }

    /// The device of a node hangs under what it was given: the pools are renewed and asked in vain, until the node ends and hands
    /// back what it has.
    fn stand_still(&mut self, node: usize) {
        let name = self.nodes[node].name.clone();
        let running = self.running(|worker| worker.node() == name);
        if !self.nodes[node].hangs || running.is_empty() {
            return;
        }
        let mut health = PoolHealth::default();
        let (mut remedy, mut renewals) = (health.stalled(LIMITS), 0);
        while remedy != Remedy::EndNode {
            remedy = health.silent(LIMITS);
            renewals += 1;
            assert!(renewals <= LIMITS.silences + 1, "it is renewed for ever");
        }
        for index in running {
            self.apply(index, &Event::Released);
        }
        let starts = self.nodes[node].starts + 1;
        if starts >= STARTS {
            self.nodes.remove(node);
        } else {
            self.nodes[node].starts = starts;
            self.nodes[node].name = format!("{name}.{starts}");
        }
    }

    /// Some healthy volume ends its stage, if one runs where that is possible.
    fn succeed(&mut self, choice: usize) {
        let comes_on = |index: &usize| {
            let node = self.node_of(*index);
            *index != self.poison && node.is_some_and(|node| !self.nodes[node].hangs)
        };
        let running: Vec<usize> = (0..self.tasks.len()).filter(comes_on).collect();
        let Some(place) = choice.checked_rem(running.len()) else {
            return;
        };
        let (index, node) = (running[place], self.node_of(running[place]));
        if let (Some(node), Position::At(stage)) = (node, self.tasks[index].position.clone()) {
            self.nodes[node].health.entry(stage).or_default().proven();
        }
        self.apply(index, &Event::Succeeded);
    }
}

#[derive(Debug, Clone, Copy)]
enum Step {
    Harm,
    Succeed,
    StandStill,
}

proptest! {
    /// Whatever the order in which nodes die, devices hang and volumes come to their ends.
    #[test]
    fn the_poison_is_set_aside_and_never_its_neighbours(
        nodes in 1..4_usize,
        hung in 0..3_usize,
        slots in 1..4_usize,
        volumes in 1..12_usize,
        poison in any::<prop::sample::Index>(),
        harm in prop::sample::select(vec![Harm::KillsNode, Harm::HangsPool]),
        max_running in 0..4_usize,
        max_interruptions in 1..6_i32,
        chances in prop::collection::vec((
            prop::sample::select(vec![Step::Harm, Step::Succeed, Step::StandStill]), any::<usize>(),
        ), 1..200),
    ) {
        let poison = poison.index(volumes);
        let config = JobConfig { max_running, ..JobConfig::default() };
        // Those that hang have the names that come first.
        let node = |index: usize| Node {
            name: index.to_string(),
            hangs: index < hung,
            health: HashMap::new(),
            starts: 0,
        };
        let mut world = World {
            job: job(1, config),
            tasks: (0..volumes).map(|id| fresh(1, id as i64)).collect(),
            nodes: (0..nodes + hung).map(node).collect(),
            slots,
            poison,
            harm,
            max_interruptions,
            losses: 0,
        };
        for (step, choice) in &chances {
            world.pass();
            match step {
                Step::Harm => world.harm(),
                Step::Succeed => world.succeed(*choice),
                Step::StandStill => world.stand_still(choice % world.nodes.len()),
            }
        }
        // Whoever runs comes to an end.
        for round in 0..10 * volumes + STARTS * hung {
            world.pass();
            for node in (0..world.nodes.len()).rev() {
                world.stand_still(node);
            }
            world.harm();
            world.succeed(round);
        }
        for (index, task) in world.tasks.iter().enumerate() {
            prop_assert!(is_finished(task, world.job.config.retry_scope), "{task:?}");
            let category = task.last_error.as_ref().map(|error| error.category);
            prop_assert_eq!(category, (index == poison).then_some(ErrorCategory::Poison));
        }
        let bound = max_interruptions.max(SUSPECT_AFTER + 1);
        prop_assert_eq!(world.losses as i32, bound);
    }
}
