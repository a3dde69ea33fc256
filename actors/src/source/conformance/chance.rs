//! Random events, judged by a model that knows only what leases promise.

use std::collections::{HashMap, HashSet};

use proptest::prelude::*;
use proptest::strategy::ValueTree;
use proptest::test_runner::TestRunner;

use super::*;
use parkhang_core::domain::{Position, TaskStatus};

const PROCESSES: usize = 3;
const VOLUMES: usize = 7;

#[derive(Debug, Clone)]
enum Deed {
    Claim {
        process: usize,
        detect: usize,
        read: usize,
    },
    Settle {
        process: usize,
        lease: usize,
        how: How,
    },
    Renew {
        process: usize,
    },
    Die {
        process: usize,
    },
    Leave {
        process: usize,
    },
    Wait {
        seconds: i64,
    },
}

#[derive(Debug, Clone, Copy)]
enum How {
    Succeeded,
    Failed,
    Deferred,
    Lost,
    GivenBack,
}

fn deeds() -> impl Strategy<Value = Vec<Deed>> {
    let process = || 0..PROCESSES;
    let how = prop_oneof![
        6 => Just(How::Succeeded),
        1 => Just(How::Failed),
        1 => Just(How::Deferred),
        1 => Just(How::Lost),
        1 => Just(How::GivenBack),
    ];
    let deed = prop_oneof![
        6 => (process(), 0..3usize, 0..3usize).prop_map(|(process, detect, read)| Deed::Claim { process, detect, read }),
        8 => (process(), 0..4usize, how).prop_map(|(process, lease, how)| Deed::Settle { process, lease, how }),
        3 => process().prop_map(|process| Deed::Renew { process }),
        1 => process().prop_map(|process| Deed::Die { process }),
        1 => process().prop_map(|process| Deed::Leave { process }),
        4 => (0..LEASE).prop_map(|seconds| Deed::Wait { seconds }),
    ];
    prop::collection::vec(deed, 1..80)
}

struct Lease {
    claim: Claim,
    /// Nobody else may have the volume before.
    safe_until: i64,
}

struct Model {
    site: Arc<dyn Site>,
    now: i64,
    started: usize,
    processes: Vec<(Process, Vec<Lease>)>,
    fences: HashSet<Fence>,
    /// Volume and stage of each success that was recorded.
    successes: HashMap<(VolumeId, StageName), usize>,
    /// Leases of processes that died, whose deadline still stands.
    orphans: Vec<Lease>,
}

impl Model {
    async fn new(site: Arc<dyn Site>) -> Self {
        site.create(job_of(VOLUMES)).await;
        let mut model = Self {
            site,
            now: 0,
            started: 0,
            processes: Vec::new(),
            fences: HashSet::new(),
            successes: HashMap::new(),
            orphans: Vec::new(),
        };
        for _ in 0..PROCESSES {
            let process = model.start();
            model.processes.push((process, Vec::new()));
        }
        model
    }

    fn start(&mut self) -> Process {
        self.started += 1;
        self.site.process(&format!("p{}", self.started))
    }

    async fn claim(&mut self, process: usize, detect: usize, read: usize) -> usize {
        let offers = [room("detect", detect), room("read", read)];
        let source = self.processes[process].0.clone();
        let claims = source.claim(&offers, at(self.now)).await.unwrap();
        let found = claims.len();
        for claim in claims {
            let (fence, volume) = (&claim.assignment.fence, &claim.assignment.volume);
            assert!(
                self.fences.insert(fence.clone()),
                "{fence:?} was handed out before"
            );
            let others = self
                .processes
                .iter()
                .flat_map(|(_, leases)| leases)
                .chain(&self.orphans);
            for other in others.filter(|other| other.claim.assignment.volume == *volume) {
                assert!(other.safe_until <= self.now, "{volume} is leased to two");
            }
            self.processes[process].1.push(Lease {
                claim,
                safe_until: self.now + LEASE * 3 / 4,
            });
        }
        found
    }

    async fn complete(&mut self, process: usize, lease: usize, how: How) {
        let (source, leases) = &mut self.processes[process];
        if leases.is_empty() {
            return;
        }
        let Lease { claim, safe_until } = leases.swap_remove(lease % leases.len());
        let verdict = match how {
            How::Succeeded => success(),
            How::Failed => failure(ErrorCategory::Transient),
            How::Deferred => failure(ErrorCategory::Network),
            How::Lost => None,
            How::GivenBack => Some(StageVerdict::Interrupted),
        };
        let recording = complete(source, &claim, verdict, at(self.now)).await;
        if safe_until > self.now {
            assert_eq!(recording, ReportReply::Recorded, "{:?}", claim.assignment.fence);
        }
        if recording == ReportReply::Recorded && matches!(how, How::Succeeded) {
            let assignment = claim.assignment;
            *self
                .successes
                .entry((assignment.volume, assignment.fence.stage))
                .or_default() += 1;
        }
    }

    async fn renew(&mut self, process: usize) {
        let (source, leases) = &mut self.processes[process];
        let fences: Vec<Fence> = leases
            .iter()
            .map(|lease| lease.claim.assignment.fence.clone())
            .collect();
        let standings = source.renew(&fences, at(self.now)).await.unwrap();
        let mut standings = standings.into_iter();
        leases.retain_mut(|lease| match standings.next().unwrap() {
            LeaseStatus::Lost => {
                assert!(lease.safe_until <= self.now, "a live lease was lost");
                false
            }
            LeaseStatus::Held | LeaseStatus::Cancelled => {
                lease.safe_until = lease.safe_until.max(self.now + LEASE * 3 / 4);
                true
            }
        });
    }

    async fn act(&mut self, deed: Deed) {
        match deed {
            Deed::Claim {
                process,
                detect,
                read,
            } => drop(self.claim(process, detect, read).await),
            Deed::Settle { process, lease, how } => self.complete(process, lease, how).await,
            Deed::Renew { process } => self.renew(process).await,
            Deed::Die { process } => {
                let successor = self.start();
                let (_, leases) = std::mem::replace(&mut self.processes[process], (successor, Vec::new()));
                self.orphans.extend(leases);
            }
            Deed::Leave { process } => {
                while !self.processes[process].1.is_empty() {
                    self.complete(process, 0, How::GivenBack).await;
                }
                self.processes[process].0.leave(at(self.now)).await.unwrap();
                self.processes[process].0 = self.start();
            }
            Deed::Wait { seconds } => self.now += seconds,
        }
    }

    /// Everybody else stops; one process does what is left.
    async fn finish(&mut self) {
        self.now += 10 * LEASE;
        let last = self.start();
        self.processes.push((last, Vec::new()));
        let last = self.processes.len() - 1;
        let mut idle = 0;
        while idle < 3 {
            // Far enough for any backoff, and never past a lease that is being worked on.
            self.now += LEASE;
            idle = if self.claim(last, 9, 9).await == 0 {
                idle + 1
            } else {
                0
            };
            while !self.processes[last].1.is_empty() {
                self.complete(last, 0, How::Succeeded).await;
            }
        }
        for task in self.site.tasks().await {
            let read = self.successes.get(&(task.volume.clone(), stage("read")));
            match (&task.position, task.status) {
                (Position::Done, TaskStatus::Done) => assert_eq!(read, Some(&1)),
                (Position::At(_), TaskStatus::Failed) => assert_eq!(read, None),
                unfinished => panic!("{} is at {unfinished:?}", task.volume),
            }
        }
        assert!(
            self.successes.values().all(|times| *times == 1),
            "{:?}",
            self.successes
        );
    }
}

/// Lets so many sequences of events happen, each on a site of its own.
pub(super) async fn suite(sequences: usize, make: impl AsyncFn() -> Arc<dyn Site>) {
    let mut runner = TestRunner::default();
    for _ in 0..sequences {
        let deeds = deeds().new_tree(&mut runner).unwrap().current();
        let mut model = Model::new(make().await).await;
        for (place, deed) in deeds.iter().cloned().enumerate() {
            // Shown where the test fails.
            eprintln!("{place} of {}: {deed:?}", deeds.len());
            model.act(deed).await;
        }
        model.finish().await;
    }
}
