//! Stages of a node, with their stores and models.

use parkhang_actors::telemetry::MeteredStore;
use std::convert::Infallible;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use anyhow::{Context, Result};
use parkhang_actors::runner::CpuPool;
use parkhang_actors::stage::{
    ManifestFolder, ModelKind, ModelSet, StageDefinition, StageRegistry, StageServices, StageTable,
};
use parkhang_core::domain::StageName;
use parkhang_store::storage::{DelayedStore, StoreDelay};
use tracing::{info, warn};

use super::worker::slots;
use crate::config::{Loaded, ServiceKind};
use crate::engines;
use crate::networks::{self, ModelChoice, cores};
use crate::storage;

/// Interval at which old manifests are removed.
const LOOK_FOR_OLD_MANIFESTS: Duration = Duration::from_secs(6 * 3600);

/// Opens the stages of this node and loads their models. `delay` slows down their artifact store, if the configuration allows faults.
///
/// # Errors
///
/// If a model, the scans or the artifact store cannot be opened.
pub async fn stages(loaded: &Loaded, delay: &StoreDelay) -> Result<StageRegistry> {
    let wanted = wanted(loaded)?;
    let kinds = wanted.iter().flat_map(|stage| stage.models.kinds());
    let choice = ModelChoice {
        kinds: kinds.copied().collect(),
        bundles: loaded.config.node.models.clone(),
        folder: loaded.config.models.dir.clone(),
    };
    let device = loaded.config.node.device.clone();
    // Loading reads whole models and blocks, so it must not hold a thread of the runtime.
    let models = tokio::task::spawn_blocking(move || networks::load(&choice, &device, cores()))
        .await
        .context("loading the models")??;
    let models = ModelSet {
        engines: engines::open(loaded)?,
        ..models
    };
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
    let wanted: Vec<StageName> = wanted.iter().map(StageDefinition::name).collect();
    Ok(StageRegistry::restricted(&services, |stage| {
        wanted.contains(stage)
    })?)
}

/// Stages that this node runs: those that it names, or all, of the hardware that it has slots for. One that nobody has named is left
/// out if the models for it are not here, or the services.
///
/// # Errors
///
/// If the models of a named stage are not where they should be.
fn wanted(loaded: &Loaded) -> Result<Vec<StageDefinition>> {
    let (named, slots) = (&loaded.config.node.stages, slots(loaded));
    let has_slots = |stage: &StageDefinition| slots.get(&stage.hardware).is_some_and(|slots| *slots > 0);
    let runs = |stage: &StageDefinition| named.is_empty() || named.contains(&stage.name());
    let table = StageTable::built_in();
    let mut wanted: Vec<StageDefinition> = table.stages().to_vec();
    let services = &loaded.config.service;
    let asks_services = !named.is_empty()
        || services
            .values()
            .any(|service| service.kind == ServiceKind::OpenAi);
    let is_possible =
        |stage: &StageDefinition| asks_services || !stage.models.kinds().contains(&ModelKind::Service);
    wanted.retain(|stage| runs(stage) && has_slots(stage) && is_possible(stage));
    let folder = loaded.config.models.dir.as_deref();
    type Find = fn(Option<&Path>) -> Result<PathBuf>;
    let found: [(ModelKind, Find); 4] = [
        (ModelKind::Print, networks::print_folder),
        (ModelKind::Layout, networks::layout_folder),
        (ModelKind::Tokenizer, networks::tokenizer_file),
        (ModelKind::Embeddings, networks::embeddings_folder),
    ];
    for (kind, find) in found {
        let needs = |stage: &StageDefinition| stage.models.kinds().contains(&kind);
        if !wanted.iter().any(needs) {
            continue;
        }
        match find(folder) {
            // A folder of an older version has the models for print alone.
            Err(error) if named.is_empty() && (folder.is_none() || kind != ModelKind::Print) => {
                let left_out = wanted.iter().filter(|stage| needs(stage)).map(|stage| stage.name);
                let left_out: Vec<&str> = left_out.collect();
                info!(stages = left_out.join(", "), reason = %error, "stages that this node does not run");
                wanted.retain(|stage| !needs(stage));
            }
            Err(error) => return Err(error),
            Ok(_) => {}
        }
    }
    Ok(wanted)
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
