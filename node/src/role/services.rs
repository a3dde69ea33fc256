//! What roles stand on: the database, and the stages with their stores and models.

use std::sync::Arc;

use anyhow::{Context, Result, bail};
use parkhang_actors::runner::CpuPool;
use parkhang_actors::stage::{StageRegistry, StageServices};
use parkhang_actors::state::{EmbeddedPostgres, PostgresStore};
use parkhang_actors::storage::{DelayedStore, MeteredStore, StoreDelay};
use secrecy::ExposeSecret;
use tracing::warn;

use crate::config::Loaded;
use crate::networks::{self, cores};
use crate::storage;

/// Name of a cluster's database in the private server.
const DATABASE: &str = "parkhang";

/// The cluster's state, and the private server that it may live in: the last process that uses the server takes it along.
#[derive(Debug)]
pub struct Database {
    pub store: PostgresStore,
    _server: Option<EmbeddedPostgres>,
}

pub async fn database(loaded: &Loaded) -> Result<Database> {
    let idle = loaded.config.orchestrator.leadership.idle_in_transaction;
    if let Some(url) = &loaded.secrets.database_url {
        let options = PostgresStore::options_of(url.text.expose_secret())?;
        let store = PostgresStore::connect_within(options, idle)
            .await
            .context("cannot use the database")?;
        return Ok(Database { store, _server: None });
    }
    if !loaded.config.state.embedded {
        bail!(
            "there is no database: set DATABASE_URL or state.database_url_file, or allow a private one by state.embedded"
        );
    }
    let folder = loaded.state_dir()?.join("pg");
    let server = tokio::task::spawn_blocking(move || EmbeddedPostgres::open(Some(folder)))
        .await
        .context("starting the private PostgreSQL")?
        .context("cannot start a private PostgreSQL; with a server of your own, name it in state.database_url_file")?;
    if server.is_new() {
        let (source, folder) = (loaded.source(), server.folder().display());
        warn!("{source}; new private database in {folder}");
    }
    let options = server.create_database(DATABASE).await?;
    Ok(Database {
        store: PostgresStore::connect_within(options, idle).await?,
        _server: Some(server),
    })
}

/// The stages of this node, with their models loaded. `delay` slows their artifact store down, where the configuration allows it.
pub async fn stages(loaded: &Loaded, delay: &StoreDelay) -> Result<StageRegistry> {
    let node = loaded.config.node.clone();
    let models = tokio::task::spawn_blocking(move || networks::load(&node.models, &node.device, cores()))
        .await
        .context("loading the models")??;
    let mut artifacts = storage::artifacts(loaded).await?;
    if loaded.config.chaos.allowed {
        artifacts = Arc::new(DelayedStore::new(artifacts, delay.clone()));
    }
    let services = StageServices {
        pages: storage::page_source(&loaded.config.pages).await?,
        artifacts: Arc::new(MeteredStore::new(artifacts)),
        cpu: CpuPool::new(cores().get(), "cpu").context("cannot start the CPU threads")?,
        models,
        workers: cores().get(),
        manifests: Some(loaded.state_dir()?.join("manifests")),
    };
    Ok(StageRegistry::new(&services)?)
}
