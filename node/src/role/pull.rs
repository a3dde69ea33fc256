//! The roles cpu and gpu on a node that takes its work itself. It dials no other node: they share the database, or the artifact store,
//! and nothing else.

use std::convert::Infallible;
use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Result, bail};
use chrono::TimeDelta;
use parkhang_actors::engines::Engine;
use parkhang_actors::source::{
    Dispatcher, QueueClaims, ShardOptions, Shards, StageQueues, StateClaims, StoreClock, SystemClock,
    WorkSource,
};
use parkhang_actors::stage::StageRegistry;
use parkhang_actors::supervisor::IdempotentExecutor;
use parkhang_core::domain::{NodeRecord, NodeState, StageName};
use parkhang_state::{PostgresStore, StateStore};
use parkhang_store::storage::StoreDelay;
use tokio::sync::watch;
use tracing::{debug, warn};

use super::commands;
use super::control::{Faults, PullControl};
use super::probes::PullProbe;
use super::readiness::ReadinessReporter;
use super::services;
use super::stop::ShutdownSignals;
use super::watch::{NodeRegistration, NodeStatus, lose_silent_nodes};
use super::worker::{LEFT_IDLE, nothing_to_do, slots, supervise, wind_down};
use crate::config::{Loaded, SourceProperties};
use crate::database::{Database, database};
use crate::queues::{self, QueueFinder};
use crate::storage;

pub async fn run(loaded: &Loaded, mut readiness: ReadinessReporter) -> Result<ExitCode> {
    let mut stop = ShutdownSignals::listen()?;
    let node = readiness.node.clone();
    let delay = StoreDelay::default();
    let registry = Arc::new(services::stages(loaded, &delay).await?);
    let (manifests, keep) = (services::manifests(loaded)?, loaded.config.node.keep_manifests);
    let SourceProperties {
        is_in_database,
        is_published,
        ..
    } = loaded.config.source.kind.properties();
    let database = if is_in_database {
        Some(database(loaded).await?)
    } else {
        None
    };
    let stages = worked_stages(loaded, &registry);
    let engines = registry.engines().to_vec();
    if database.is_some() {
        // Until it is known who else asks.
        engines.iter().for_each(|engine| engine.share(0));
    }
    let finder = if is_published {
        Some(QueueFinder::open(&loaded.config.source.sqs, &stages).await?)
    } else {
        None
    };
    let queues = finder.as_ref().map(QueueFinder::queues);
    let source = open(loaded, node.as_str(), database.as_ref(), queues.clone()).await?;
    let dispatcher = Dispatcher::start(source, loaded.config.source.poll).await?;
    let supervisor = supervise(loaded, &node, registry, Arc::new(dispatcher.clone())).await?;
    let roles = super::roles(loaded);
    readiness.window.probe(Arc::new(PullProbe {
        roles: roles.clone(),
        dispatcher: dispatcher.clone(),
        stages: supervisor.out_of_order(),
        queues,
    }));
    readiness.ready(&roles)?;
    let state = watch::Sender::new(NodeState::Joined);
    let book = IdempotentExecutor::default();
    book.open(Arc::new(PullControl {
        supervisor: supervisor.clone(),
        dispatcher: dispatcher.clone(),
        state: state.clone(),
        faults: Faults::new(loaded, None, delay),
        manifests: manifests.clone(),
    }));
    let seen = Seen {
        database: database.as_ref(),
        presence: NodeRegistration::of(&readiness, &roles, &loaded.config.node.tags),
        dispatcher: &dispatcher,
        state: state.clone(),
        book,
        engines,
    };

    let ends = tokio::select! {
        () = stop.next() => ExitCode::SUCCESS,
        () = nothing_to_do(loaded, &supervisor) => ExitCode::from(LEFT_IDLE),
        () = seen.keep(loaded, node.as_str()) => ExitCode::SUCCESS,
        () = seen.execute_commands(node.as_str()) => ExitCode::SUCCESS,
        () = dispatcher.ended() => bail!("the node no longer looks for work"),
        () = supervisor.ended() => bail!("the stages keep failing; the node ends"),
        never = services::remove_old_manifests(&manifests, keep) => match never {},
        () = wake_on_changes(database.as_ref(), &dispatcher, loaded) => ExitCode::SUCCESS,
        never = look_for_queues(finder) => match never {},
    };
    readiness.stopping();
    state.send_replace(NodeState::Draining);
    // The node's record is kept fresh while it drains, which may take longer than a silent node is believed to be alive.
    tokio::select! {
    () = wind_down(loaded, supervisor, dispatcher.drain(), std::future::pending(), &mut stop) => {}
        () = seen.keep(loaded, node.as_str()) => {}
    }
    // Without this bound a database that is away would keep the process from ending. A receive that waits for a message is waited for: one
    // that is dropped may still take a message, which nobody else sees until its visibility is over.
    let receives = if is_published {
        loaded.config.source.sqs.wait
    } else {
        Duration::ZERO
    };
    let leaving = tokio::time::timeout(loaded.config.cluster.call_timeout + receives, async {
        dispatcher.clone().stop().await;
        if let Some(database) = &database {
            seen.presence.end(&database.store).await;
        }
    });
    if leaving.await.is_err() {
        warn!("no answer: leases of this node end only when they expire");
    }
    Ok(ends)
}

/// Link of this node to the database: its own record, and the commands for it.
struct Seen<'a> {
    database: Option<&'a Database>,
    presence: NodeRegistration,
    dispatcher: &'a Dispatcher,
    state: watch::Sender<NodeState>,
    book: IdempotentExecutor,
    /// Services that the node asks while its stages wait.
    engines: Vec<Engine>,
}

impl Seen<'_> {
    /// Records this node and its pools, for ever. It also records silent nodes as lost, since there need not be an orchestrator to do so.
    async fn keep(&self, loaded: &Loaded, node: &str) {
        let Some(database) = self.database else {
            return std::future::pending().await;
        };
        let heartbeat = loaded.config.cluster.heartbeat;
        let now = async |now| NodeStatus {
            state: *self.state.borrow(),
            workers: self.dispatcher.workers(now).await,
            actors: self.book.actors().await,
            engines: self.engines.iter().map(|engine| engine.record(now)).collect(),
        };
        tokio::join!(
            self.presence.keep(&database.store, heartbeat, now),
            lose_silent_nodes(&database.store, heartbeat),
            self.share_engines(&database.store, node, heartbeat),
        );
    }

    /// Leaves this node its part of what may be asked of services, by the nodes that are recorded, for ever.
    async fn share_engines(&self, store: &PostgresStore, node: &str, heartbeat: Duration) {
        if self.engines.is_empty() {
            return std::future::pending().await;
        }
        loop {
            match store.nodes().await {
                Ok(nodes) => {
                    for engine in &self.engines {
                        let asks =
                            |other: &&NodeRecord| other.name != node && other.asks(&engine.model().name);
                        let others = nodes.iter().filter(asks).count();
                        engine.share(u32::try_from(others + 1).unwrap_or(u32::MAX));
                    }
                }
                Err(error) => debug!(%error, "how many nodes ask services cannot be read now"),
            }
            tokio::time::sleep(heartbeat).await;
        }
    }

    /// Carries out the commands of operators, for ever.
    async fn execute_commands(&self, node: &str) {
        match self.database {
            Some(database) => commands::execute_commands(&database.store, node, &self.book).await,
            None => std::future::pending().await,
        }
    }
}

/// Stages of the registry that this node has slots for.
fn worked_stages(loaded: &Loaded, registry: &StageRegistry) -> Vec<StageName> {
    let slots = slots(loaded);
    let infos = registry.stages().iter().map(|stage| stage.info());
    infos
        .filter(|info| slots.get(&info.hardware()).is_some_and(|slots| *slots > 0))
        .map(|info| info.name())
        .collect()
}

async fn open(
    loaded: &Loaded,
    node: &str,
    database: Option<&Database>,
    queues: Option<StageQueues>,
) -> Result<Arc<dyn WorkSource>> {
    let lease = TimeDelta::from_std(loaded.config.cluster.lease)?;
    let max_interruptions = i32::try_from(loaded.config.orchestrator.max_interruptions)?;
    Ok(match database {
        Some(database) => {
            let store = Arc::new(database.store.clone());
            // Leases are compared by nodes on many machines, so they go by the one clock that all of them share.
            let clock = Arc::new(StoreClock(store.clone()));
            if let Some(queues) = queues {
                let options = queues::options(&loaded.config.source.sqs);
                Arc::new(QueueClaims::new(
                    store,
                    clock,
                    lease,
                    max_interruptions,
                    queues,
                    options,
                ))
            } else {
                Arc::new(StateClaims::new(store, clock, lease, max_interruptions))
            }
        }
        None => {
            let options = ShardOptions {
                worker: node.to_owned(),
                jobs: loaded.config.source.jobs.clone(),
                lease,
                max_interruptions,
            };
            Arc::new(Shards::new(
                storage::artifacts(loaded).await?,
                Arc::new(SystemClock),
                options,
            ))
        }
    })
}

/// Looks for queues that are missing for ever, where work comes from queues.
async fn look_for_queues(finder: Option<QueueFinder<'_>>) -> Infallible {
    match finder {
        Some(finder) => finder.look_for_ever().await,
        None => std::future::pending().await,
    }
}

/// Wakes the dispatcher on new work, for ever. Without notifications the dispatcher's polls find the work.
async fn wake_on_changes(database: Option<&Database>, dispatcher: &Dispatcher, loaded: &Loaded) {
    let Some(database) = database else {
        return std::future::pending().await;
    };
    loop {
        hear(&database.store, dispatcher).await;
        tokio::time::sleep(loaded.config.source.poll).await;
    }
}

async fn hear(store: &PostgresStore, dispatcher: &Dispatcher) {
    match store.work_changes().await {
        Ok(mut changes) => {
            // The error is not looked at: polling finds the same work, and the caller subscribes again.
            while let Ok(stage) = changes.next().await {
                dispatcher.wake(stage);
            }
        }
        Err(error) => warn!(%error, "cannot subscribe to new work; polling goes on"),
    }
}
