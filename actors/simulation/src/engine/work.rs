//! Simulated volumes and the runs of stages over them.

use rand::Rng;
use rand::rngs::StdRng;

use super::cluster::Address;
use crate::agenda::Millis;
use parkhang_core::domain::Fence;

/// A volume of the job.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Volume {
    pub pages: u32,
    /// Position of the volume in the distribution of every stage's time, from 0 to 1. It is one number, as a volume that is slow
    /// in one stage is slow in the others.
    pub pace: f64,
    pub is_poison: bool,
}

/// End of a run, if nothing happens to its node before.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Fate {
    Succeeds,
    Fails,
    KillsItsWorker,
    /// Its node was told to end.
    Stops,
}

/// A stage at work on a volume.
#[derive(Debug, Clone)]
pub(crate) struct Run {
    pub fence: Fence,
    pub address: Address,
    pub stage: usize,
    pub began: Millis,
    pub pages: u32,
    /// Pages whose results stood when it began.
    pub stood: u32,
    pub page_ms: f64,
    pub fate: Fate,
    /// Time from which its device does nothing any more.
    pub hung: Option<Millis>,
    /// Number of its current end, which is another one than that of an end foreseen earlier.
    pub version: u32,
}

/// Remains of a run that has ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Remains {
    /// Pages that stand.
    pub stand: u32,
    /// Pages that were worked on.
    pub worked: u32,
    pub lost_pages: u32,
    pub lost: Millis,
}

impl Run {
    pub(crate) fn whole_time(&self) -> Millis {
        // Pages that stand never exceed those of the volume, as `finished_pages` ends there.
        let left = f64::from(self.pages - self.stood);
        ((left * self.page_ms).ceil() as Millis).max(1)
    }

    pub(crate) fn finished_pages(&self, now: Millis) -> u32 {
        let elapsed = (self.hung.unwrap_or(now) - self.began) as f64;
        let done = if self.page_ms > 0.0 {
            (elapsed / self.page_ms).floor()
        } else {
            f64::MAX
        };
        // A float beyond the range of the integer becomes its largest value.
        self.stood.saturating_add(done as u32).min(self.pages)
    }

    /// The run comes to its end now, having saved its pages.
    pub(crate) fn saved(&self, now: Millis) -> Remains {
        if self.fate == Fate::Succeeds {
            self.with(self.pages)
        } else {
            self.stopped(now)
        }
    }

    /// The run is stopped now, and saves the pages that it has finished.
    pub(crate) fn stopped(&self, now: Millis) -> Remains {
        self.with(self.finished_pages(now))
    }

    fn with(&self, stand: u32) -> Remains {
        Remains {
            stand,
            worked: stand - self.stood,
            lost_pages: 0,
            lost: 0,
        }
    }

    /// The run is cut off now: what was not yet in a part of `checkpoint` pages is gone.
    pub(crate) fn cut_off(&self, now: Millis, checkpoint: usize) -> Remains {
        let parts = u32::try_from(checkpoint.max(1)).unwrap_or(u32::MAX);
        let worked = self.finished_pages(now) - self.stood;
        let kept = worked - worked % parts;
        let kept_ms = (f64::from(kept) * self.page_ms) as Millis;
        Remains {
            stand: self.stood + kept,
            worked,
            lost_pages: worked - kept,
            lost: (now - self.began - kept_ms).max(0),
        }
    }

    /// When a run that was told to stop at `now` has finished the page in work.
    pub(crate) fn page_ends(&self, now: Millis) -> Millis {
        let done = f64::from(self.finished_pages(now) - self.stood);
        let next = self.began + ((done + 1.0) * self.page_ms).ceil() as Millis;
        next.clamp(now, (self.began + self.whole_time()).max(now))
    }
}

/// A time drawn from the exponential distribution of this mean.
pub(crate) fn exponential(random: &mut StdRng, mean: Millis) -> Millis {
    let share: f64 = random.random();
    // The share may be 0 and is never 1, so the logarithm is finite.
    let factor = -(1.0 - share).ln();
    ((factor * mean as f64) as Millis).max(1)
}

#[cfg(test)]
mod tests {
    use super::*;
    use parkhang_core::domain::testing::fence;

    fn run(fate: Fate) -> Run {
        Run {
            fence: fence(1, "read"),
            address: Address {
                node: 0,
                incarnation: 0,
                pool: 0,
            },
            stage: 0,
            began: 1_000,
            pages: 100,
            stood: 20,
            page_ms: 10.0,
            fate,
            hung: None,
            version: 0,
        }
    }

    #[test]
    fn a_kill_costs_what_is_in_no_part() {
        let remains = run(Fate::Succeeds).cut_off(1_395, 16);
        let expected = Remains {
            stand: 52,
            worked: 39,
            lost_pages: 7,
            lost: 75,
        };
        assert_eq!(remains, expected);
    }

    #[test]
    fn a_drain_costs_nothing_and_ends_with_the_page_in_work() {
        let run = run(Fate::Stops);
        assert_eq!(run.page_ends(1_395), 1_400);
        let remains = run.saved(1_400);
        assert_eq!(
            (remains.stand, remains.worked, remains.lost_pages, remains.lost),
            (60, 40, 0, 0)
        );
        assert_eq!(run.page_ends(1_799), 1_800);
    }

    #[test]
    fn a_success_leaves_every_page() {
        let run = run(Fate::Succeeds);
        assert_eq!(run.whole_time(), 800);
        assert_eq!(run.saved(1_800).stand, 100);
    }
}
