//! The stages that a node runs, with their stores and models.

use parkhang_actors::telemetry::MeteredStore;
use std::convert::Infallible;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use anyhow::{Context, Result};
use parkhang_actors::runner::CpuPool;
use parkhang_actors::stage::{ManifestFolder, StageRegistry, StageServices, StageTable};
use parkhang_store::storage::{DelayedStore, StoreDelay};
use tracing::warn;

use crate::config::Loaded;
use crate::networks::{self, cores};
use crate::storage;

/// Between two looks.
const LOOK_FOR_OLD_MANIFESTS: Duration = Duration::from_secs(6 * 3600);

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
        stages: StageTable::built_in(),
        pages: storage::page_source(&loaded.config.pages).await?,
        artifacts: Arc::new(MeteredStore::new(artifacts)),
        cpu: CpuPool::new(cores().get(), "cpu").context("cannot start the CPU threads")?,
        models,
        workers: cores().get(),
        manifests: Some(manifests(loaded)?),
    };
    Ok(StageRegistry::new(&services)?)
}

/// Where this node records what happened to each page.
pub fn manifests(loaded: &Loaded) -> Result<ManifestFolder> {
    Ok(ManifestFolder::new(loaded.state_dir()?.join("manifests")))
}

/// For ever: removes the records of jobs that have had their time. Those of jobs that are deleted go at once, where the node is there.
pub async fn remove_old_manifests(folder: &ManifestFolder, keep: Duration) -> Infallible {
    if keep.is_zero() {
        return std::future::pending().await;
    }
    loop {
        if let Some(then) = SystemTime::now().checked_sub(keep)
            && let Err(error) = folder.forget_before(then).await
        {
            warn!(%error, "cannot remove old manifests");
        }
        tokio::time::sleep(LOOK_FOR_OLD_MANIFESTS).await;
    }
}
