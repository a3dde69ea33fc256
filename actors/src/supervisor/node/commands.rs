//! Commands of operators that end one of a node's actors.

use ractor::rpc::CallResult;
use ractor::{ActorId, ActorRef, RpcReplyPort};

use super::{NodeMsg, SUPERVISOR, SupervisorState};
use crate::detached;
use crate::supervisor::pool::{PoolMsg, WorkerFate};
use parkhang_core::domain::CommandOutcome;

/// Manner in which an actor is ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::supervisor) enum Fate {
    /// Replaced by another; its leases are released.
    Restarted,
    /// Killed, for supervision to notice.
    Killed,
}

impl SupervisorState {
    /// Carries the command out and sends its outcome.
    pub(super) fn execute(
        &mut self,
        name: &str,
        fate: Fate,
        reply: RpcReplyPort<CommandOutcome>,
        myself: &ActorRef<NodeMsg>,
    ) {
        let outcome = match (name.split_once('/'), fate) {
            (None, Fate::Restarted) if name == SUPERVISOR => CommandOutcome::refused(
                "the supervisor ends with its process: drain the node and start it again",
            ),
            (None, Fate::Killed) if name == SUPERVISOR => {
                myself.kill();
                CommandOutcome::done("the supervisor is killed, and the process ends with it")
            }
            (None, fate) => self.end_pool(name, fate, myself),
            (Some((stage, below)), fate) => match self.pool_of(stage) {
                None => no_such(name),
                Some(id) if self.has_device(id, below) => match fate {
                    Fate::Restarted => self.end_pool(stage, fate, myself),
                    Fate::Killed => CommandOutcome::refused("a thread cannot be killed; restart replaces it"),
                },
                Some(id) => return self.end_worker(id, name, fate, reply),
            },
        };
        // The caller may have timed out.
        let _ = reply.send(outcome);
    }

    fn pool_of(&self, stage: &str) -> Option<ActorId> {
        self.pools
            .iter()
            .find(|(_, pool)| pool.logic.info().name().as_str() == stage)
            .map(|(id, _)| *id)
    }

    fn has_device(&self, pool: ActorId, name: &str) -> bool {
        self.pools
            .get(&pool)
            .and_then(|pool| pool.logic.info().device())
            .is_some_and(|device| device.name == name)
    }

    fn end_pool(&mut self, stage: &str, fate: Fate, myself: &ActorRef<NodeMsg>) -> CommandOutcome {
        let Some(id) = self.pool_of(stage) else {
            if fate == Fate::Restarted && !self.draining && self.put_to_the_test(stage, myself) {
                return CommandOutcome::done(format!(
                    "{stage} was out of service, and is being tested again"
                ));
            }
            return no_such(stage);
        };
        if fate == Fate::Killed {
            if let Some(pool) = self.pools.get(&id) {
                pool.handle.actor.kill();
            }
            return CommandOutcome::done(format!("{stage} is killed"));
        }
        if self.draining {
            return CommandOutcome::refused("the node is draining, and starts nothing any more");
        }
        let Some(pool) = self.pools.remove(&id) else {
            return no_such(stage);
        };
        if let Err(error) = pool.logic.info().renew() {
            self.pools.insert(id, pool);
            return CommandOutcome::refused(format!("cannot start a thread for the device: {error}"));
        }
        let (logic, slots) = (pool.logic.clone(), pool.handle.info.slots);
        // First of all, so that no assignment is on its way to the pool when it ends: its lease would count as lost.
        self.config.control_plane.suspend(pool.handle.info.worker.clone());
        // A pool that has ended meanwhile holds no lease any more.
        let _ = pool.handle.actor.cast(PoolMsg::HandBack);
        self.replaced.insert(id, pool);
        self.count_restart(&logic.info().name());
        // Fails only when this supervisor is ending.
        let _ = myself.cast(NodeMsg::Start(logic, slots));
        CommandOutcome::done(format!(
            "{stage} is replaced, and its leases are given back uncharged"
        ))
    }

    fn end_worker(&self, pool: ActorId, name: &str, fate: Fate, reply: RpcReplyPort<CommandOutcome>) {
        let Some(pool) = self.pools.get(&pool).map(|pool| pool.handle.actor.clone()) else {
            return;
        };
        let name = name.to_owned();
        detached::spawn(async move {
            let (how, said) = match fate {
                Fate::Restarted => (
                    WorkerFate::Released,
                    "is stopped, and its lease given back uncharged",
                ),
                Fate::Killed => (WorkerFate::Killed, "is killed"),
            };
            let asked = pool.call(|reply| PoolMsg::EndWorker(name.clone(), how, reply), None);
            let outcome = match asked.await {
                Ok(CallResult::Success(true)) => CommandOutcome::done(format!("{name} {said}")),
                _ => no_such(&name),
            };
            // The caller may have timed out.
            let _ = reply.send(outcome);
        });
    }
}

fn no_such(name: &str) -> CommandOutcome {
    CommandOutcome::refused(format!(
        "there is no actor {name} that could be ended; actors tree shows what there is"
    ))
}
