//! The stages that a node runs, with their stores and models.

use std::sync::Arc;

use anyhow::{Context, Result};
use parkhang_actors::runner::CpuPool;
use parkhang_actors::stage::{StageRegistry, StageServices};
use parkhang_actors::storage::{DelayedStore, MeteredStore, StoreDelay};

use crate::config::Loaded;
use crate::networks::{self, cores};
use crate::storage;

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
