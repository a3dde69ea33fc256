use std::collections::HashMap;

use ractor::ActorId;

use parkhang_core::domain::WorkerId;

/// Gates by which the pools of other nodes can be reached. A node that dialled again before its old session ended has two for
/// a while.
#[derive(Debug, Default)]
pub(super) struct Reach {
    gates: HashMap<ActorId, WorkerId>,
    away: HashMap<WorkerId, Absence>,
    absences: u64,
}

/// One time that a pool was disconnected, told apart from later ones.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Absence(u64);

/// Consequence of the end of a gate.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Loss {
    /// None: the gate was not known.
    Nothing,
    /// The pool can still be reached, by this gate.
    OneOfSeveral(ActorId),
    /// The pool is disconnected.
    OutOfTouch(WorkerId, Absence),
}

impl Reach {
    pub(super) fn found(&mut self, gate: ActorId, worker: WorkerId) {
        self.away.remove(&worker);
        self.gates.insert(gate, worker);
    }

    pub(super) fn lost(&mut self, gate: ActorId) -> Loss {
        let Some(worker) = self.gates.remove(&gate) else {
            return Loss::Nothing;
        };
        if let Some((other, _)) = self.gates.iter().find(|(_, known)| **known == worker) {
            return Loss::OneOfSeveral(*other);
        }
        self.absences += 1;
        let absence = Absence(self.absences);
        self.away.insert(worker.clone(), absence);
        Loss::OutOfTouch(worker, absence)
    }

    /// Gives the pool up if it has been disconnected ever since this absence began; returns whether it has.
    pub(super) fn give_up(&mut self, worker: &WorkerId, absence: Absence) -> bool {
        let is_away = self.away.get(worker) == Some(&absence);
        if is_away {
            self.away.remove(worker);
        }
        is_away
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use parkhang_core::domain::testing;

    fn gate(pid: u64) -> ActorId {
        ActorId::Remote { node_id: 1, pid }
    }

    fn worker() -> WorkerId {
        testing::worker("gpu-1/ocr/1")
    }

    fn out_of_touch(reach: &mut Reach, pid: u64) -> Absence {
        match reach.lost(gate(pid)) {
            Loss::OutOfTouch(lost, absence) if lost == worker() => absence,
            loss => panic!("{loss:?}"),
        }
    }

    #[test]
    fn a_pool_whose_only_gate_ends_is_given_up_once() {
        let mut reach = Reach::default();
        reach.found(gate(1), worker());
        let absence = out_of_touch(&mut reach, 1);
        assert_eq!(reach.lost(gate(1)), Loss::Nothing);
        assert!(reach.give_up(&worker(), absence));
        assert!(!reach.give_up(&worker(), absence));
    }

    #[test]
    fn a_pool_with_a_newer_gate_is_not_out_of_touch() {
        let mut reach = Reach::default();
        reach.found(gate(1), worker());
        reach.found(gate(2), worker());
        reach.found(gate(3), testing::worker("gpu-2/ocr/1"));
        assert_eq!(reach.lost(gate(1)), Loss::OneOfSeveral(gate(2)));
        out_of_touch(&mut reach, 2);
    }

    #[test]
    fn a_gate_that_never_introduced_itself_is_nobody() {
        assert_eq!(Reach::default().lost(gate(1)), Loss::Nothing);
    }

    #[test]
    fn a_pool_that_is_back_is_kept() {
        let mut reach = Reach::default();
        reach.found(gate(1), worker());
        let absence = out_of_touch(&mut reach, 1);
        reach.found(gate(2), worker());
        assert!(!reach.give_up(&worker(), absence));
    }

    #[test]
    fn a_second_absence_has_a_grace_of_its_own() {
        let mut reach = Reach::default();
        reach.found(gate(1), worker());
        let first = out_of_touch(&mut reach, 1);
        reach.found(gate(2), worker());
        let second = out_of_touch(&mut reach, 2);
        assert!(
            !reach.give_up(&worker(), first),
            "the first grace is over, not the second"
        );
        assert!(reach.give_up(&worker(), second));
    }
}
