use std::collections::HashMap;

use ractor::ActorId;

use parkhang_core::domain::WorkerId;

/// Endpoints by which the pools of other nodes can be reached. A node that dialled again before its old session ended has two for
/// a while.
#[derive(Debug, Default)]
pub(super) struct ConnectionTracker {
    endpoints: HashMap<ActorId, WorkerId>,
    away: HashMap<WorkerId, DisconnectId>,
    absences: u64,
}

/// One time that a pool was disconnected, told apart from later ones.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct DisconnectId(u64);

/// Consequence of the end of an endpoint.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum ConnectionLoss {
    /// None: the endpoint was not known.
    Nothing,
    /// The pool can still be reached, by this endpoint.
    OneOfSeveral(ActorId),
    /// The pool is disconnected.
    Disconnected(WorkerId, DisconnectId),
}

impl ConnectionTracker {
    pub(super) fn found(&mut self, endpoint: ActorId, worker: WorkerId) {
        self.away.remove(&worker);
        self.endpoints.insert(endpoint, worker);
    }

    pub(super) fn lost(&mut self, endpoint: ActorId) -> ConnectionLoss {
        let Some(worker) = self.endpoints.remove(&endpoint) else {
            return ConnectionLoss::Nothing;
        };
        if let Some((other, _)) = self.endpoints.iter().find(|(_, known)| **known == worker) {
            return ConnectionLoss::OneOfSeveral(*other);
        }
        self.absences += 1;
        let absence = DisconnectId(self.absences);
        self.away.insert(worker.clone(), absence);
        ConnectionLoss::Disconnected(worker, absence)
    }

    /// Gives the pool up if it has been disconnected ever since this absence began; returns whether it has.
    pub(super) fn give_up(&mut self, worker: &WorkerId, absence: DisconnectId) -> bool {
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

    fn endpoint(pid: u64) -> ActorId {
        ActorId::Remote { node_id: 1, pid }
    }

    fn worker() -> WorkerId {
        testing::worker("gpu-1/ocr/1")
    }

    fn out_of_touch(connection_tracker: &mut ConnectionTracker, pid: u64) -> DisconnectId {
        match connection_tracker.lost(endpoint(pid)) {
            ConnectionLoss::Disconnected(lost, absence) if lost == worker() => absence,
            loss => panic!("{loss:?}"),
        }
    }

    #[test]
    fn a_pool_whose_only_endpoint_ends_is_given_up_once() {
        let mut connection_tracker = ConnectionTracker::default();
        connection_tracker.found(endpoint(1), worker());
        let absence = out_of_touch(&mut connection_tracker, 1);
        assert_eq!(connection_tracker.lost(endpoint(1)), ConnectionLoss::Nothing);
        assert!(connection_tracker.give_up(&worker(), absence));
        assert!(!connection_tracker.give_up(&worker(), absence));
    }

    #[test]
    fn a_pool_with_a_newer_endpoint_is_not_out_of_touch() {
        let mut connection_tracker = ConnectionTracker::default();
        connection_tracker.found(endpoint(1), worker());
        connection_tracker.found(endpoint(2), worker());
        connection_tracker.found(endpoint(3), testing::worker("gpu-2/ocr/1"));
        assert_eq!(
            connection_tracker.lost(endpoint(1)),
            ConnectionLoss::OneOfSeveral(endpoint(2))
        );
        out_of_touch(&mut connection_tracker, 2);
    }

    #[test]
    fn an_endpoint_that_never_introduced_itself_is_nobody() {
        assert_eq!(
            ConnectionTracker::default().lost(endpoint(1)),
            ConnectionLoss::Nothing
        );
    }

    #[test]
    fn a_pool_that_is_back_is_kept() {
        let mut connection_tracker = ConnectionTracker::default();
        connection_tracker.found(endpoint(1), worker());
        let absence = out_of_touch(&mut connection_tracker, 1);
        connection_tracker.found(endpoint(2), worker());
        assert!(!connection_tracker.give_up(&worker(), absence));
    }

    #[test]
    fn a_second_absence_has_a_grace_of_its_own() {
        let mut connection_tracker = ConnectionTracker::default();
        connection_tracker.found(endpoint(1), worker());
        let first = out_of_touch(&mut connection_tracker, 1);
        connection_tracker.found(endpoint(2), worker());
        let second = out_of_touch(&mut connection_tracker, 2);
        assert!(
            !connection_tracker.give_up(&worker(), first),
            "the first grace is over, not the second"
        );
        assert!(connection_tracker.give_up(&worker(), second));
    }
}
