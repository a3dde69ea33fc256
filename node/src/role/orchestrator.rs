//! The role orchestrator: campaigns for the leadership, leads until another does, and campaigns again.

use std::collections::BTreeSet;
use std::convert::Infallible;
use std::net::{IpAddr, SocketAddr};
use std::process::ExitCode;
use std::sync::Arc;

use anyhow::{Context, Result, bail};
use chrono::{DateTime, Utc};
use parkhang_actors::cluster::{NodeName, NodeRegistry, RemotePools, RemotePoolsConfig};
use parkhang_actors::orchestrator::{OrchestratorConfig, OrchestratorHandle};
use parkhang_actors::supervisor::IdempotentExecutor;
use parkhang_core::domain::{NodeState, StageName};
use parkhang_state::{Leadership, LeadershipTimings, PostgresStore, StateError};
use parkhang_store::storage::StoreDelay;
use tokio::sync::watch;
use tracing::{info, warn};

use super::commands;
use super::control::{Faults, OrchestratorControl};
use super::external::{self, Led, OrchestratorListener};
use super::intake::take_in;
use super::levels::look_at_services;
use super::models::look_for_missed_models;
use super::probes::OrchestratorProbe;
use super::publishing::{publish, watch_queues};
use super::readiness::ReadinessReporter;
use super::stop::ShutdownSignals;
use super::watch::{NodeRegistration, NodeStatus, count_tasks, record_last, record_nodes};
use super::webhook::{self, Listener};
use super::workers;
use crate::admin::Admin;
use crate::api;
use crate::config::{Cluster, HostPort, Loaded};
use crate::database::database;
use crate::join::join;
use crate::repl;
use crate::session::Line;
use crate::storage;

/// Runs the role until the process is stopped; `takes_commands` runs commands from its terminal as well.
///
/// # Errors
///
/// If the process cannot start, or can no longer reach its nodes.
pub async fn run(
    loaded: &Arc<Loaded>,
    mut readiness: ReadinessReporter,
    takes_commands: bool,
) -> Result<ExitCode> {
    let mut stop = ShutdownSignals::listen()?;
    let node = readiness.node.clone();
    let database = database(loaded).await?;
    // A standby listens and takes commands too: commands work on the database, and nodes stay connected to it for the day it leads.
    let cluster = join(loaded, &node, true).await?;
    let listens = cluster.local_addr().context("the orchestrator does not listen")?;
    let (leads, led) = watch::channel(None);
    let unserved = watch::Sender::default();
    readiness.window.probe(Arc::new(OrchestratorProbe {
        store: database.store.clone(),
        leads: led,
        unserved: unserved.subscribe(),
    }));
    let admin = Admin::new(database.store.clone(), loaded.clone());
    let leader_state = LeaderState::default();
    let webhook = match loaded.config.stage.is_empty() {
        true => None,
        false => {
            let led = leader_state.external.subscribe();
            let listener = Arc::new(OrchestratorListener::new(loaded, &database.store, led));
            Some(webhook::router(
                loaded,
                &database.store,
                vec![Listener {
                    listener,
                    id_field: None,
                }],
            ))
        }
    };
    let on_api = webhook.clone().filter(|_| loaded.config.webhook.on_api);
    // Before READY, whose line has the address.
    let api = api::serve(loaded, admin.clone(), node.as_str(), on_api).await?;
    readiness.api = api.as_ref().map(api::Served::url);
    let webhook = match webhook {
        Some(router) => webhook::serve(loaded, router).await?,
        None => None,
    };
    let told_at = webhook
        .as_ref()
        .map_or(String::new(), |webhook| format!(" webhook={}", webhook.url()));
    // Only for the READY line; who leads is decided by the lock alone.
    let leader = database.store.leader().await?;
    let stands_by = leader.map_or(String::new(), |leader| format!(" standing by for {leader},"));
    readiness.ready(&format!(
        "orchestrator{told_at}{stands_by} listening on {listens}"
    ))?;
    if !is_named(&loaded.config.cluster, listens) {
        let own = loaded
            .config
            .cluster
            .advertise
            .as_ref()
            .map_or_else(|| listens.to_string(), HostPort::to_string);
        warn!(
            "cluster.orchestrators does not have this one, {own}: nodes with this configuration do not dial it"
        );
    }
    // An orchestrator records itself, since no other one would record a standby.
    let presence = NodeRegistration::of(&readiness, "orchestrator", &loaded.config.node.tags);
    let book = IdempotentExecutor::default();
    book.open(Arc::new(OrchestratorControl {
        orchestrator: leader_state.orchestrator.subscribe(),
        since: Utc::now(),
        faults: Faults::new(loaded, None, StoreDelay::default()),
    }));
    let presently = async |_: DateTime<Utc>| {
        let external = leader_state.external.borrow().clone();
        NodeStatus {
            state: NodeState::Joined,
            workers: match external {
                Some(external) => external.workers().await,
                None => Vec::new(),
            },
            actors: book.actors().await,
            // It asks no service while a stage waits.
            engines: Vec::new(),
        }
    };
    let line = Line::inside(admin, &node, leads.subscribe());
    let attended = stop.attended();
    let terminal = async {
        if takes_commands {
            repl::inside(loaded, line, &attended).await;
        }
        // The end of the commands is not the end of the process.
        std::future::pending().await
    };
    let reigns = async {
        loop {
            let timings = &loaded.config.orchestrator.leadership;
            let timings = LeadershipTimings {
                silence: timings.idle_session,
                interval: timings.renew,
            };
            match database.store.lead(node.as_str(), timings).await {
                Ok(leadership) => {
                    leads.send_replace(Some(leadership.epoch()));
                    let end = run_as_leader(
                        loaded,
                        &node,
                        &database.store,
                        leadership,
                        &unserved,
                        &leader_state,
                    )
                    .await;
                    // Before the error is looked at: commands and reports must not reach an orchestrator that
                    // has ended.
                    leader_state.end();
                    leads.send_replace(None);
                    end?;
                }
                Err(error) => warn!(%error, "cannot campaign for the leadership now"),
            }
            // Also after a reign, so that an orchestrator which fails at once does not campaign in a tight
            // loop.
            tokio::time::sleep(loaded.config.orchestrator.leadership.standby_retry).await;
        }
    };
    tokio::select! {
        () = stop.next() => info!("stopping; running work continues under the next leader"),
        end = reigns => return end,
        () = presence.keep(&database.store, loaded.config.cluster.heartbeat, presently) => {}
        () = commands::execute_commands(&database.store, node.as_str(), &book) => {}
        () = cluster.ended() => bail!("the cluster transport ended"),
        () = terminal => {}
    }
    readiness.stopping();
    let registry = leader_state.registry.borrow().clone();
    // With `reigns` dropped this process leads no more, so the last write goes through a store without an
    // epoch.
    if let Some(registry) = registry {
        record_last(&database.store, &registry, loaded.config.cluster.call_timeout).await;
    }
    let external = leader_state.external.borrow().clone();
    if let Some(external) = external {
        external.part().await;
    }
    presence.end(&database.store).await;
    cluster.leave().await;
    Ok(ExitCode::SUCCESS)
}

/// Returns whether nodes with the same configuration dial this listener. A host name cannot be resolved for certain, so it counts as
/// this machine's.
fn is_named(cluster: &Cluster, listens: SocketAddr) -> bool {
    let is_own = |named: &HostPort| match &cluster.advertise {
        Some(own) => named == own,
        None => {
            let is_here = |ip: IpAddr| ip == listens.ip() || (ip.is_loopback() && listens.ip().is_loopback());
            named.port == listens.port() && named.ip().is_none_or(is_here)
        }
    };
    cluster.orchestrators.iter().any(is_own)
}

/// Parts that run while this process leads.
#[derive(Default)]
struct LeaderState {
    registry: watch::Sender<Option<NodeRegistry>>,
    orchestrator: watch::Sender<Option<OrchestratorHandle>>,
    external: Led,
}

impl LeaderState {
    fn end(&self) {
        self.registry.send_replace(None);
        self.orchestrator.send_replace(None);
        self.external.send_replace(None);
    }
}

/// Leads until another orchestrator does.
///
/// # Errors
///
/// If the orchestrator cannot start, or the pools of other nodes are lost. The process ends then, and another one takes over.
async fn run_as_leader(
    loaded: &Loaded,
    node: &NodeName,
    store: &PostgresStore,
    leadership: Leadership,
    unserved: &watch::Sender<BTreeSet<StageName>>,
    leader_state: &LeaderState,
) -> Result<()> {
    let section = &loaded.config.orchestrator;
    // Every write of this leader carries its epoch, so that none takes effect after it was replaced, even if it does not know yet.
    let led = store.led_by(&leadership);
    let registry = NodeRegistry::default();
    leader_state.registry.send_replace(Some(registry.clone()));
    let mut config = OrchestratorConfig::new(Arc::new(led.clone()));
    config.lease = loaded.config.cluster.lease;
    config.full_pass = section.full_pass;
    config.unserved = unserved.clone();
    // More than the column can count is the same as no limit.
    config.max_interruptions = i32::try_from(section.max_interruptions).unwrap_or(i32::MAX);
    let artifacts = match storage::uncached_artifacts(loaded).await {
        Ok(artifacts) => Some(artifacts),
        // Markers are not needed for the work, and the next leader writes those that are missing.
        Err(error) => {
            warn!(
                "finished volumes are not marked, and services get no work, as the storage cannot be opened: {error:#}"
            );
            None
        }
    };
    config.markers = artifacts.clone();
    let orchestrator = OrchestratorHandle::start(config).await?;
    leader_state.orchestrator.send_replace(Some(orchestrator.clone()));
    let external = match artifacts.filter(|_| !loaded.config.stage.is_empty()) {
        Some(artifacts) => Some(Arc::new(external::open(
            loaded,
            &led,
            artifacts,
            orchestrator.clone(),
        )?)),
        None => None,
    };
    leader_state.external.send_replace(external.clone());
    let external = async {
        match &external {
            Some(external) => tokio::select! {
                () = external.run() => {}
                () = external::take_messages(store, external) => {}
            },
            None => std::future::pending().await,
        }
    };
    let cluster = &loaded.config.cluster;
    let pools = RemotePools::start(RemotePoolsConfig {
        registry: registry.clone(),
        call_timeout: cluster.call_timeout,
        ..RemotePoolsConfig::new(node.clone(), orchestrator.clone(), leadership.epoch())
    })
    .await?;
    tokio::select! {
        () = leadership.lost() => warn!("another orchestrator leads; standing by"),
        () = orchestrator.ended() => warn!("the orchestrator ended; campaigning again"),
        () = pools.ended() => bail!("the pools of other nodes cannot be reached"),
        () = wake_on_changes(store, &orchestrator) => {}
        () = count_tasks(store) => {}
        () = look_at_services(loaded, store) => {}
        () = publish(loaded, store) => {}
        () = watch_queues(loaded, &led) => {}
        () = take_in(loaded, store) => {}
        () = look_for_missed_models(store, &loaded.config) => {}
        () = record_nodes(&led, &registry, cluster.heartbeat) => {}
        () = commands::forward(store, &pools) => {}
        () = workers::tend(loaded, &led) => {}
        () = external => warn!("the work on stages of services ended; campaigning again"),
    }
    // Pools first: they hand reports to the orchestrator, which must still take them.
    pools.stop().await;
    orchestrator.stop().await;
    Ok(())
}

/// Wakes the orchestrator on changes of jobs. Returns when the database stops sending notifications: its session may be gone, and with
/// it the leadership.
async fn wake_on_changes(store: &PostgresStore, orchestrator: &OrchestratorHandle) {
    let listen = async {
        let mut changes = store.job_changes().await?;
        loop {
            // The first wake is for changes that came before the subscription.
            orchestrator.wake();
            changes.next().await?;
        }
    };
    let Err::<Infallible, StateError>(error) = listen.await;
    warn!(%error, "notifications of new jobs ended; campaigning again");
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::BucketArgs;

    #[test]
    fn an_orchestrator_is_named_by_what_it_advertises_or_else_by_where_it_listens() {
        let mut cluster = Loaded::apart(&BucketArgs::default()).unwrap().config.cluster;
        let listens = |address: &str| address.parse::<SocketAddr>().unwrap();
        assert!(is_named(&cluster, listens("127.0.0.1:7400")));
        assert!(!is_named(&cluster, listens("127.0.0.1:7401")));
        assert!(!is_named(&cluster, listens("10.0.0.7:7400")));
        cluster.orchestrators = vec!["orch-1.example:7400".parse().unwrap()];
        assert!(is_named(&cluster, listens("10.0.0.7:7400")), "perhaps");
        cluster.advertise = Some("orch-2.example:7400".parse().unwrap());
        assert!(!is_named(&cluster, listens("0.0.0.0:7400")));
        cluster.advertise = Some("orch-1.example:7400".parse().unwrap());
        assert!(is_named(&cluster, listens("0.0.0.0:7400")));
    }
}
