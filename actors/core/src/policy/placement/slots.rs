use std::cmp::Reverse;
use std::collections::binary_heap::PeekMut;
use std::collections::{BTreeMap, BTreeSet, BinaryHeap, HashMap, HashSet};

use super::Held;
use crate::domain::{Job, JobKey, PoolInfo, StageName, TaskId, WorkerId};

/// Record of what pools have refused and finished, and of what stood still there.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Conduct {
    /// Jobs that they have refused lately.
    pub refused: BTreeMap<WorkerId, BTreeSet<JobKey>>,
    /// Pools that have brought a stage to its end. The others are new, or their devices are sick: those are always roomy.
    pub proven: BTreeSet<WorkerId>,
    /// Volumes that stood still, by node. Many at one node speak against its device more than against any of them.
    pub stood_still: BTreeMap<String, BTreeSet<TaskId>>,
}

impl Conduct {
    /// Number of volumes that stood still on the node, without this one.
    fn others_stood_still(&self, node: &str, task: TaskId) -> usize {
        let tasks = self.stood_still.get(node);
        tasks.map_or(0, |tasks| tasks.len() - usize::from(tasks.contains(&task)))
    }
}

/// Slots that no lease in force takes. They are computed anew each time, so nothing that a dead process held can leak.
#[derive(Debug, Clone)]
pub struct FreeSlots<'a> {
    by_stage: HashMap<&'a StageName, Vec<Alike<'a>>>,
    /// Groups of all pools, also of those without free slots.
    pools: &'a [PoolInfo],
    held: &'a [Held],
    conduct: &'a Conduct,
    /// Nodes whose slots are closed: a suspect runs there, or will once they are empty.
    closed: HashSet<&'a str>,
}

/// Pools of a stage that have the same models loaded and refuse the same jobs. There are many pools, and few such groups.
#[derive(Debug, Clone)]
struct Alike<'a> {
    /// Any pool of the group.
    pool: &'a PoolInfo,
    refused: Option<&'a BTreeSet<JobKey>>,
    /// Pools with free slots, the roomiest first.
    roomy: BinaryHeap<Room<'a>>,
}

/// Free slots of a pool. Of equally roomy pools one that is proven comes first, and then the first by name.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct Room<'a> {
    free: usize,
    is_proven: bool,
    worker: Reverse<&'a WorkerId>,
}

impl<'a> Alike<'a> {
    /// Returns whether the pools may run their stage for the job.
    fn suits(&self, job: &Job) -> bool {
        self.pool.suits(job) && !self.refused.is_some_and(|refused| refused.contains(&job.key))
    }

    /// Roomiest pool that is not on a closed node.
    fn roomiest(&mut self, closed: &HashSet<&str>) -> Option<Room<'a>> {
        while let Some(roomiest) = self.roomy.peek_mut() {
            let Reverse(worker) = roomiest.worker;
            if closed.is_empty() || !closed.contains(worker.node()) {
                return Some(*roomiest);
            }
            // Dropped for good, as a closed node stays closed for the rest of the pass.
            PeekMut::pop(roomiest);
        }
        None
    }

    /// Takes a slot of the roomiest pool.
    fn take(&mut self) {
        if let Some(mut roomiest) = self.roomy.peek_mut() {
            // Pools without a free slot are not kept, so the number does not wrap.
            roomiest.free -= 1;
            if roomiest.free == 0 {
                PeekMut::pop(roomiest);
            }
        }
    }
}

impl<'a> FreeSlots<'a> {
    pub fn of(pools: &'a [PoolInfo], held: &'a [Held]) -> Self {
        static NOTHING: Conduct = Conduct {
            refused: BTreeMap::new(),
            proven: BTreeSet::new(),
            stood_still: BTreeMap::new(),
        };
        Self::in_view_of(&NOTHING, pools, held)
    }

    /// Free slots of pools that are given nothing of the jobs which they have refused.
    pub fn in_view_of(conduct: &'a Conduct, pools: &'a [PoolInfo], held: &'a [Held]) -> Self {
        let mut taken: HashMap<&WorkerId, usize> = HashMap::with_capacity(held.len());
        let mut closed = HashSet::new();
        for held in held {
            *taken.entry(&held.worker).or_default() += held.leases;
            if held.suspects > 0 {
                closed.insert(held.worker.node());
            }
        }
        let mut by_stage: HashMap<&StageName, Vec<Alike<'a>>> = HashMap::new();
        for pool in pools {
            let taken = taken.get(&pool.worker).copied().unwrap_or(0);
            let free = pool.slots.saturating_sub(taken);
            if free == 0 || (!closed.is_empty() && closed.contains(pool.worker.node())) {
                continue;
            }
            let groups = by_stage.entry(&pool.stage).or_default();
            let slot = Room {
                free,
                is_proven: conduct.proven.contains(&pool.worker),
                worker: Reverse(&pool.worker),
            };
            let refused = conduct.refused.get(&pool.worker);
            let is_alike =
                |group: &&mut Alike<'_>| group.pool.models == pool.models && group.refused == refused;
            match groups.iter_mut().find(is_alike) {
                Some(group) => group.roomy.push(slot),
                None => groups.push(Alike {
                    pool,
                    refused,
                    roomy: BinaryHeap::from([slot]),
                }),
            }
        }
        Self {
            by_stage,
            pools,
            held,
            conduct,
            closed,
        }
    }

    /// Number of tasks that could begin each stage, of one job or another; stages that are full are left out.
    pub fn room(&self) -> BTreeMap<StageName, usize> {
        let stages = self.by_stage.iter();
        stages
            .map(|(stage, groups)| {
                let pools = groups.iter().flat_map(|group| &group.roomy);
                ((*stage).clone(), pools.map(|room| room.free).sum())
            })
            .collect()
    }

    /// Number of tasks of the job that could begin the stage.
    pub fn room_for(&self, stage: &StageName, job: &Job) -> usize {
        let groups = self.by_stage.get(stage).into_iter().flatten();
        let pools = groups
            .filter(|group| group.suits(job))
            .flat_map(|group| &group.roomy);
        pools.map(|room| room.free).sum()
    }

    /// True if there are pools, free or not, that may run the stage for the job.
    pub(super) fn are_known(&self, stage: &StageName, job: &Job) -> bool {
        let refuses = |pool: &PoolInfo| {
            let refused = self.conduct.refused.get(&pool.worker);
            refused.is_some_and(|refused| refused.contains(&job.key))
        };
        let mut pools = self.pools.iter();
        pools.any(|pool| pool.stage == *stage && pool.suits(job) && !refuses(pool))
    }

    pub(super) fn take(&mut self, stage: &StageName, job: &Job) -> Option<&'a WorkerId> {
        let closed = &self.closed;
        let groups = self.by_stage.get_mut(stage)?.iter_mut();
        let suited = groups.filter(|group| group.suits(job));
        let free = suited.filter_map(|group| Some((group.roomiest(closed)?, group)));
        let (roomiest, group) = free.max_by_key(|(roomiest, _)| *roomiest)?;
        group.take();
        Some(roomiest.worker.0)
    }

    /// Leases in force by node.
    pub(super) fn leases_by_node(&self) -> HashMap<&'a str, usize> {
        let mut leases = HashMap::new();
        for held in self.held {
            *leases.entry(held.worker.node()).or_default() += held.leases;
        }
        leases
    }

    /// Takes a slot for the suspect on a node that holds no lease, and closes the node, so that nothing else is placed there.
    pub(super) fn take_empty_node(
        &mut self,
        stage: &StageName,
        job: &Job,
        task: TaskId,
        leases: &HashMap<&str, usize>,
    ) -> Option<&'a WorkerId> {
        let (leases, worker) = self.emptiest(stage, job, task, leases)?;
        (leases == 0).then(|| {
            self.closed.insert(worker.node());
            worker
        })
    }

    /// Closes the node with the fewest leases of those that run the stage for the job; returns false if there is none. As its
    /// leases only become fewer, one node or another is empty in the end.
    pub(super) fn close_emptiest_node(
        &mut self,
        stage: &StageName,
        job: &Job,
        task: TaskId,
        leases: &HashMap<&str, usize>,
    ) -> bool {
        let emptiest = self.emptiest(stage, job, task, leases);
        emptiest.is_some_and(|(_, worker)| self.closed.insert(worker.node()))
    }

    /// Pool of the stage on the node with the fewest leases. What a suspect does on a sick device says nothing: before that count the
    /// nodes where the fewest other volumes stood still, and then the pools that are proven.
    fn emptiest(
        &self,
        stage: &StageName,
        job: &Job,
        task: TaskId,
        leases: &HashMap<&str, usize>,
    ) -> Option<(usize, &'a WorkerId)> {
        let groups = self.by_stage.get(stage)?.iter();
        let rooms = groups
            .filter(|group| group.suits(job))
            .flat_map(|group| &group.roomy);
        let open = rooms.filter(|room| !self.closed.contains(room.worker.0.node()));
        let leases = |worker: &WorkerId| leases.get(worker.node()).copied().unwrap_or(0);
        let emptiest = open.min_by_key(|room| {
            let worker = room.worker.0;
            let others = self.conduct.others_stood_still(worker.node(), task);
            (others, !room.is_proven, leases(worker), worker)
        })?;
        let worker = emptiest.worker.0;
        Some((leases(worker), worker))
    }
}
