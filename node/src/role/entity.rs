//! The role entity: hands rows of users' tables to services, stage by stage. It dials no other node and remembers nothing: all state is in
//! the tables, and as many such nodes may run as one likes.

use std::collections::BTreeMap;
use std::process::ExitCode;
use std::sync::Arc;

use anyhow::{Context, Result, bail};
use async_trait::async_trait;
use futures::future::join_all;
use parkhang_actors::entity::{Entities, EntityOptions};
use parkhang_core::domain::StageName;
use parkhang_service::Transport;
use parkhang_state::PostgresStore;
use serde_json::json;
use tokio_util::sync::CancellationToken;
use tracing::{info, warn};

use super::elsewhere::ElsewhereCounter;
use super::external::{bounds, stage_service};
use super::levels::count_rows;
use super::probes::answers;
use super::readiness::ReadinessReporter;
use super::stop::ShutdownSignals;
use super::webhook::{self, Listener};
use crate::config::{ConfiguredEntity, Loaded};
use crate::database::{database, entity_database};
use crate::http::{Probe, Readiness};

/// Connections to the database of a table that has one of its own.
const CONNECTIONS: u32 = 8;

/// Runs the role until the process is stopped. What is being submitted then gets its answer first.
///
/// # Errors
///
/// If the database cannot be reached, or a table is not fit for its pipeline.
pub async fn run(loaded: &Loaded, mut readiness: ReadinessReporter) -> Result<ExitCode> {
    let mut stop = ShutdownSignals::listen()?;
    let database = database(loaded).await?;
    let entities = open_all(loaded, &database.store).await?;
    let listeners = entities.iter().map(|entity| Listener {
        id_field: loaded
            .config
            .entity
            .get(entity.name())
            .and_then(|entity| entity.id_field.clone()),
        listener: entity.clone(),
    });
    let router = webhook::router(loaded, &database.store, listeners.collect());
    let webhook = webhook::serve(loaded, router).await?;
    readiness.window.probe(Arc::new(DatabaseProbe {
        store: database.store.clone(),
        entities: entities.clone(),
    }));
    let address = webhook
        .as_ref()
        .map(|webhook| format!(" webhook={}", webhook.url()));
    readiness.ready(&format!("entity{}", address.unwrap_or_default()))?;

    let ending = CancellationToken::new();
    let work = join_all(entities.iter().map(|entity| entity.run(&ending)));
    tokio::pin!(work);
    tokio::select! {
        () = stop.next() => {}
        _ = &mut work => bail!("the workers ended"),
        () = count_rows(&entities) => {}
    }
    readiness.stopping();
    ending.cancel();
    let deadline = loaded.config.node.drain_deadline;
    info!(?deadline, "stopping when what is being submitted has its answer");
    tokio::select! {
        _ = &mut work => info!("all submits are recorded"),
        () = tokio::time::sleep(deadline) => warn!("some submits have no answer; their rows count as stuck later"),
        () = stop.next() => warn!("stopped at once; rows that were being submitted count as stuck later"),
    }
    Ok(ExitCode::SUCCESS)
}

async fn open_all(loaded: &Loaded, store: &PostgresStore) -> Result<Vec<Arc<Entities>>> {
    let transport = Transport::new()?;
    let named = &loaded.config.node.entities;
    let mut entities = Vec::new();
    for (name, entity) in &loaded.config.entity {
        if named.is_empty() || named.contains(name) {
            let opened = open(loaded, store, &transport, name, entity).await;
            entities.push(Arc::new(opened.with_context(|| format!("entity.{name}"))?));
        }
    }
    Ok(entities)
}

async fn open(
    loaded: &Loaded,
    store: &PostgresStore,
    transport: &Transport,
    name: &str,
    entity: &ConfiguredEntity,
) -> Result<Entities> {
    let database = entity_database(loaded, store, name, CONNECTIONS).await?;
    let table = database.open(Arc::new(entity.pipeline(name)?)).await?;
    let mut services = BTreeMap::new();
    for stage in &entity.stages {
        let settings = entity.stage.get(stage).cloned().unwrap_or_default();
        let service = stage_service(loaded, transport, &settings);
        let service = service.with_context(|| format!("stage.{stage}"))?;
        services.insert(StageName::new(stage.as_str())?, service);
    }
    let options = EntityOptions {
        batch: entity.batch,
        poll_interval: entity.poll_interval,
        webhook_url: loaded.config.webhook.url.clone(),
        elsewhere: Some(Arc::new(ElsewhereCounter::beside(loaded, store, name)?)),
        services: Some(Arc::new(store.clone())),
    };
    Ok(Entities::new(table, options, services, &bounds(loaded))?)
}

/// Readiness of the role: the database answers, and those of the tables.
#[derive(Debug)]
struct DatabaseProbe {
    store: PostgresStore,
    entities: Vec<Arc<Entities>>,
}

#[async_trait]
impl Probe for DatabaseProbe {
    async fn readiness(&self) -> Readiness {
        let tables = join_all(self.entities.iter().map(|entity| answers(entity.ping())));
        let (cluster, tables) = tokio::join!(answers(self.store.ping()), tables);
        let all = cluster && tables.into_iter().all(|answers| answers);
        let reason = (!all).then_some("the database does not answer");
        let names: Vec<&str> = self.entities.iter().map(|entity| entity.name()).collect();
        Readiness {
            ready: reason.is_none(),
            details: json!({ "role": "entity", "entities": names, "reason": reason }),
        }
    }
}
