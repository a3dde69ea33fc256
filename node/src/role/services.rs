//! Stages of a node, with their stores and models.

use parkhang_actors::telemetry::MeteredStore;
use std::convert::Infallible;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use anyhow::{Context, Result};
use parkhang_actors::runner::CpuPool;
use parkhang_actors::stage::{ManifestFolder, StageRegistry, StageServices, StageTable};
use parkhang_core::domain::StageName;
use parkhang_store::storage::{DelayedStore, StoreDelay};
use tracing::warn;

use crate::config::Loaded;
use crate::networks::{self, cores};
use crate::storage;

/// Interval at which old manifests are removed.
const LOOK_FOR_OLD_MANIFESTS: Duration = Duration::from_secs(6 * 3600);

/// Opens the stages of this node and loads their models. `delay` slows down their artifact store, if the configuration allows faults.
///
/// # Errors
///
/// If a model, the scans or the artifact store cannot be opened.
pub async fn stages(loaded: &Loaded, delay: &StoreDelay) -> Result<StageRegistry> {
    let node = loaded.config.node.clone();
    // Loading reads whole models and blocks, so it must not hold a thread of the runtime.
    let models = tokio::task::spawn_blocking(move || networks::load(&node.models, &node.device, cores()))
        .await
        .context("loading the models")??;
    // The delay lies below the metering, so that an injected fault shows in the metrics as a slow store would.
    let mut artifacts = storage::artifacts(loaded).await?;
    if loaded.config.chaos.allowed {
        artifacts = Arc::new(DelayedStore::new(artifacts, delay.clone()));
    }
    let services = StageServices {
        stages: StageTable::built_in(),
        pages: storage::page_source(&loaded.config.pages).await?,
        artifacts: Arc::new(MeteredStore::new(artifacts)),
        // As many threads as cores: codecs and geometry wait for nothing.
        cpu: CpuPool::new(cores().get(), "cpu").context("cannot start the CPU threads")?,
        models,
        workers: cores().get(),
        manifests: Some(manifests(loaded)?),
    };
    let stages = &loaded.config.node.stages;
    let runs = |stage: &StageName| stages.is_empty() || stages.contains(stage);
    Ok(StageRegistry::restricted(&services, runs)?)
}

/// Returns the folder of this node's manifests, which record what happened to each page.
pub fn manifests(loaded: &Loaded) -> Result<ManifestFolder> {
    Ok(ManifestFolder::new(loaded.state_dir()?.join("manifests")))
}

/// Removes manifests of jobs that nothing was added to for `keep`, for ever. Those of a deleted job are removed at once by a command,
/// if the node is there.
pub async fn remove_old_manifests(folder: &ManifestFolder, keep: Duration) -> Infallible {
    // Zero means that manifests are kept for good.
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
