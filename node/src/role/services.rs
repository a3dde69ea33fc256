//! What roles stand on: the database, the artifact store, the scans.

use std::sync::Arc;

use anyhow::{Context, Result};
use parkhang_actors::pages::{LibraryFolder, PageSource};
use parkhang_actors::runner::CpuPool;
use parkhang_actors::stage::{StageRegistry, StageServices};
use parkhang_actors::state::{EmbeddedPostgres, PostgresStore};
use parkhang_actors::storage::{ArtifactKey, ArtifactStore, LocalStore, S3Options, S3Store};
use secrecy::ExposeSecret;

use crate::config::{Loaded, StorageKind};
use crate::networks::{self, cores};

/// Name of a cluster's database in the private server.
const DATABASE: &str = "parkhang";

/// The cluster's state, and the private server that it may live in: the last process that uses the server takes it along.
#[derive(Debug)]
pub struct Database {
    pub store: PostgresStore,
    _server: Option<EmbeddedPostgres>,
}

pub async fn database(loaded: &Loaded) -> Result<Database> {
    if let Some(url) = &loaded.secrets.database_url {
        let store = PostgresStore::connect(url.text.expose_secret())
            .await
            .context("cannot use the database")?;
        return Ok(Database { store, _server: None });
    }
    let folder = loaded.state_dir()?.join("pg");
    let server = tokio::task::spawn_blocking(move || EmbeddedPostgres::open(Some(folder)))
        .await
        .context("starting the private PostgreSQL")?
        .context("cannot start a private PostgreSQL; with a server of your own, name it in state.database_url_file")?;
    let options = server.create_database(DATABASE).await?;
    Ok(Database {
        store: PostgresStore::connect_with(options).await?,
        _server: Some(server),
    })
}

async fn artifacts(loaded: &Loaded) -> Result<Arc<dyn ArtifactStore>> {
    let storage = &loaded.config.storage;
    Ok(match storage.kind {
        StorageKind::Local => {
            let folder = match &storage.folder {
                Some(folder) => folder.clone(),
                None => loaded.state_dir()?.join("artifacts"),
            };
            Arc::new(LocalStore::open(&folder).await?)
        }
        StorageKind::S3 => {
            let bucket = storage
                .s3
                .bucket
                .clone()
                .context("storage.s3.bucket is not set")?;
            let mut options = S3Options::new(bucket);
            if let Some(prefix) = &storage.s3.prefix {
                options = options.with_prefix(ArtifactKey::new(prefix.clone()).context("storage.s3.prefix")?);
            }
            if let Some(endpoint) = &storage.s3.endpoint {
                options = options.with_endpoint(endpoint.clone());
            }
            options.region = Some(storage.s3.region.clone());
            options.path_style |= storage.s3.path_style;
            Arc::new(S3Store::open(options).await?)
        }
    })
}

pub fn scans(loaded: &Loaded) -> Result<Arc<dyn PageSource>> {
    let folder = loaded.config.pages.folder.clone();
    let folder = folder.context("pages.folder is not set: it holds the scans, a folder for each volume")?;
    Ok(Arc::new(LibraryFolder::new(folder)))
}

/// The stages of this node, with their models loaded.
pub async fn stages(loaded: &Loaded) -> Result<StageRegistry> {
    let device = loaded.config.node.device.clone();
    let models = tokio::task::spawn_blocking(move || networks::load(&[], &device, cores()))
        .await
        .context("loading the models")??;
    let services = StageServices {
        pages: scans(loaded)?,
        artifacts: artifacts(loaded).await?,
        cpu: CpuPool::new(cores().get(), "cpu").context("cannot start the CPU threads")?,
        models,
        workers: cores().get(),
        manifests: Some(loaded.state_dir()?.join("manifests")),
    };
    Ok(StageRegistry::new(&services)?)
}
