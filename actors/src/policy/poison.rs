//! Which volume kills its nodes. Those that ran beside it when a node died look as guilty, so a volume that lost its node
//! twice in a row is run alone, and from then on its losses are its own.

use crate::domain::{ErrorCategory, StageError, Task};
use crate::policy::transition::Event;

/// Losses in a row after which a volume shares its node with no other.
pub const SUSPECT_AFTER: i32 = 2;

/// What went when a lease was lost.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Loss {
    /// The worker of the one volume; whatever ran beside it goes on.
    Worker,
    /// The pool or the node, and all that ran there.
    Node,
}

/// Whether the volume has to run alone on its node.
pub const fn is_suspect(task: &Task) -> bool {
    task.interruptions >= SUSPECT_AFTER
}

/// What a lost lease means for its task: another try, or, after too many in a row, quarantine. A volume that had neighbours when
/// its node was lost is never set aside for it.
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
