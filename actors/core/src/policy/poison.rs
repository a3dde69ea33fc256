//! Poison: volumes that kill their nodes. Volumes that ran beside one when its node died look as guilty, so a volume that lost
//! its node twice in a row is run alone, and from then on its losses are its own.

use crate::domain::{ErrorCategory, StageError, Task};
use crate::policy::transition::Event;

/// Number of losses in a row after which a volume shares its node with no other.
pub const SUSPECT_AFTER: i32 = 2;

/// Number of pages by which a volume gets on that does not kill its nodes, from one loss to the next.
pub const ADVANCE: i32 = 10;

/// True if a stage that has finished `now` pages, those of earlier leases included, has got on since it had finished `before`: its losses
/// are no row. One that kills its node at one page never gets past it, and runs out of other pages.
pub const fn got_on(before: i32, now: i32) -> bool {
    now >= before.saturating_add(ADVANCE)
}

/// Extent of the failure by which a lease was lost.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Loss {
    /// The worker of the one volume failed; all others go on.
    Worker,
    /// The pool or the node failed, with all that ran there.
    Node,
}

/// True for a suspect, a volume that has to run alone on its node.
pub const fn is_suspect(task: &Task) -> bool {
    task.interruptions >= SUSPECT_AFTER
}

/// Event by which a lost lease ends: an interruption with another try, or, after too many in a row, quarantine. A volume that had
/// neighbours when its node was lost is never set aside for it.
pub fn lost_lease(task: &Task, loss: Loss, max_interruptions: i32) -> Event {
    let losses = task.interruptions + 1;
    // A suspect ran alone, and so it did for as long as this lease: only the end of a lease changes the count.
    let ran_alone = is_suspect(task);
    let is_evidence = ran_alone || loss == Loss::Worker;
    if !is_evidence || losses < max_interruptions {
        return Event::Interrupted;
    }
    let last = if ran_alone {
        ", the last time alone on its node"
    } else {
        ""
    };
    let message = format!(
        "lost its worker {losses} times in a row at {}{last}",
        task.position
    );
    Event::Quarantined {
        error: StageError::new(task.position.as_str(), ErrorCategory::Poison, message),
    }
}

#[cfg(test)]
mod tests;
