//! Health of a stage's pool: the evidence that a fault is, and its remedy.
//!
//! A pool that stands still, or whose device fails, is judged before the volumes that it runs are: it is renewed and tested
//! with input whose answer is known. One that does not answer is out of order, and its volumes are handed back as they were.
//! One that answers may still hang under work, so the volumes that stood still wait for a verdict: the next pages that the
//! renewed pool reads speak against them, the next fault for them. Where nothing else is to be read the answer to the known
//! question has to do. Faults in a row, without [so many pages](PAGES_OF_PROOF) in between, are bounded: a pool that hangs again
//! and again ends its node, as only the end of the process ends the threads that it leaves behind; one that fails is taken out of
//! service.

use std::time::Duration;

use crate::domain::Unfit;

/// Number of pages after which a renewed pool is taken to work. A device that is sick at times reads some pages between two faults, and
/// one page would clear it at the cost of the volumes that stood still.
pub const PAGES_OF_PROOF: u64 = 10;
/// Delay before the second renewal of a pool that fails; four times as long before each further one.
const FIRST_DELAY: Duration = Duration::from_secs(2);
/// Longest time between two renewals.
const MAX_DELAY: Duration = Duration::from_secs(300);

/// Numbers of faults in a row that a pool may have.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FaultLimits {
    /// Times that it stands still. At least as many as the lost leases that set a volume aside, so that a volume that makes
    /// pools hang is found out before their node ends, where nothing else is left to be read.
    pub stalls: u32,
    /// Times that it does not answer a test.
    pub silences: u32,
    /// Times that it is renewed after it failed.
    pub renewals: u32,
}

/// Faults of the pools of one stage on a node since it was last proven that it works.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct PoolHealth {
    stalls: u32,
    silences: u32,
    failures: u32,
    waits: u32,
}

/// Measure that is taken about a fault.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Remedy {
    /// The pool gets a new thread, and is tested.
    Renew { after: Duration },
    /// The pool is tested again.
    Ask { after: Duration },
    /// The pool is given no more work until an operator restarts it.
    TakeOutOfService,
    /// The process ends.
    EndNode,
}

impl PoolHealth {
    /// Takes note that the pool works: earlier faults no longer count.
    pub fn proven(&mut self) {
        *self = Self::default();
    }

    /// Remedy for a pool that finished no page for too long.
    pub fn stalled(&mut self, limits: FaultLimits) -> Remedy {
        self.stalls = self.stalls.saturating_add(1);
        Self::renew_or_end(self.stalls <= limits.stalls)
    }

    /// Remedy for a pool that did not answer a test.
    pub fn silent(&mut self, limits: FaultLimits) -> Remedy {
        self.silences = self.silences.saturating_add(1);
        Self::renew_or_end(self.silences <= limits.silences)
    }

    fn renew_or_end(may_go_on: bool) -> Remedy {
        let after = Duration::ZERO;
        if may_go_on {
            Remedy::Renew { after }
        } else {
            Remedy::EndNode
        }
    }

    /// Remedy for a pool that reported that it does not work.
    pub fn failed(&mut self, why: &Unfit, limits: FaultLimits) -> Remedy {
        match why {
            Unfit::Disk(_) => {
                // No renewal gives a disk room, so the stage is only tested again, for as long as it takes.
                self.waits = self.waits.saturating_add(1);
                Remedy::Ask {
                    after: delay(self.waits),
                }
            }
            Unfit::Device(_) => {
                self.failures = self.failures.saturating_add(1);
                if self.failures > limits.renewals {
                    return Remedy::TakeOutOfService;
                }
                Remedy::Renew {
                    after: delay(self.failures),
                }
            }
        }
    }

    /// Number of times that it hung, in a row: stood still, or did not answer.
    pub fn hung(&self) -> u32 {
        self.stalls.saturating_add(self.silences)
    }
}

/// Delay before the renewal after `times` of them: none before the first, then longer each time.
fn delay(times: u32) -> Duration {
    match times.checked_sub(2) {
        None => Duration::ZERO,
        Some(doublings) => FIRST_DELAY
            .saturating_mul(4_u32.saturating_pow(doublings))
            .min(MAX_DELAY),
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const LIMITS: FaultLimits = FaultLimits {
        stalls: 3,
        silences: 2,
        renewals: 5,
    };

    fn device() -> Unfit {
        Unfit::Device("lost".to_owned())
    }

    fn disk() -> Unfit {
        Unfit::Disk("full".to_owned())
    }

    fn seconds(remedy: Remedy) -> u64 {
        match remedy {
            Remedy::Renew { after } | Remedy::Ask { after } => after.as_secs(),
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn a_device_that_fails_is_renewed_so_often_and_taken_out_of_service() {
        let mut health = PoolHealth::default();
        let waits: Vec<u64> = (0..5)
            .map(|_| seconds(health.failed(&device(), LIMITS)))
            .collect();
        assert_eq!(waits, [0, 2, 8, 32, 128]);
        assert_eq!(health.failed(&device(), LIMITS), Remedy::TakeOutOfService);
    }

    #[test]
    fn a_full_disk_is_waited_for() {
        let mut health = PoolHealth::default();
        let waits: Vec<u64> = (0..100)
            .map(|_| seconds(health.failed(&disk(), LIMITS)))
            .collect();
        assert_eq!(waits[..6], [0, 2, 8, 32, 128, 300]);
        assert_eq!(waits[99], 300);
    }

    #[test]
    fn a_pool_that_hangs_again_and_again_ends_its_node() {
        let mut health = PoolHealth::default();
        for _ in 0..LIMITS.stalls {
            assert_eq!(seconds(health.stalled(LIMITS)), 0);
        }
        assert_eq!(health.stalled(LIMITS), Remedy::EndNode);
        health.proven();
        assert_eq!(seconds(health.stalled(LIMITS)), 0);
        for _ in 0..LIMITS.silences {
            assert_eq!(seconds(health.silent(LIMITS)), 0);
        }
        assert_eq!(health.silent(LIMITS), Remedy::EndNode);
    }

    #[derive(Debug, Clone, Copy)]
    enum Step {
        Proven,
        Stalled,
        Silent,
        Failed,
        Full,
    }

    proptest! {
        /// Whatever faults come in whatever order.
        #[test]
        fn renewals_in_a_row_are_bounded(steps in prop::collection::vec(
            prop::sample::select(vec![Step::Proven, Step::Stalled, Step::Silent, Step::Failed, Step::Full]), 0..200,
        )) {
            let (mut health, mut renewals) = (PoolHealth::default(), 0);
            for step in steps {
                let remedy = match step {
                    Step::Proven => {
                        health.proven();
                        renewals = 0;
                        continue;
                    }
                    Step::Stalled => health.stalled(LIMITS),
                    Step::Silent => health.silent(LIMITS),
                    Step::Failed => health.failed(&device(), LIMITS),
                    Step::Full => health.failed(&disk(), LIMITS),
                };
                renewals += u32::from(matches!(remedy, Remedy::Renew { .. }));
                prop_assert!(renewals <= LIMITS.stalls + LIMITS.silences + LIMITS.renewals);
                prop_assert!(!matches!((step, remedy), (Step::Full, Remedy::TakeOutOfService | Remedy::EndNode)));
            }
        }
    }
}
