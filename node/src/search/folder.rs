//! Search in an output folder of `node ocr`.

use std::collections::{BTreeSet, HashMap};
use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::{Context, Result};
use clap::Args;
use parkhang_actors::search::{WantedVolume, update_index};
use parkhang_actors::stage::StageTable;
use parkhang_core::domain::StageName;
use parkhang_search::{IndexFolder, SearchError};
use parkhang_store::artifact::VolumeLayout;
use parkhang_store::storage::{ArtifactStore, StorageError};
use sha2::{Digest, Sha256};

use super::{Found, Hit, QueryModels, Question, ask};
use crate::export::Results;
use crate::terminal::{shown, shown_json};

/// Folder of the index, in the output folder.
const INDEX: &str = ".search";

/// Arguments of `node search --out`.
#[derive(Debug, Args)]
pub struct SearchFolderArgs {
    #[command(flatten)]
    question: Question,
    /// Output folder of `node ocr`.
    #[arg(long, value_name = "OUT")]
    out: PathBuf,
    /// Folder of the models that embed the query; by default where `node models install` puts them.
    #[arg(long, value_name = "DIR")]
    models_dir: Option<PathBuf>,
    /// Print the answer as JSON.
    #[arg(long)]
    json: bool,
}

/// Searches the folder, whose index is brought up to date first.
pub async fn run(arguments: SearchFolderArgs) -> Result<ExitCode> {
    arguments.question.check().map_err(anyhow::Error::msg)?;
    let results = Results::of_folder(&arguments.out).await?;
    let volumes = results.volumes(&[])?;
    let known: BTreeSet<String> = volumes.iter().map(|stored| stored.volume.to_string()).collect();
    let stages = StageTable::built_in().names();
    let mut wanted = Vec::new();
    for stored in volumes {
        if let Some(version) = version(results.store(), &stored.layout, &stages).await? {
            wanted.push(WantedVolume {
                volume: stored.volume,
                version,
                layout: stored.layout,
                // Whoever has run the stages one by one has an index of what was there before, or none.
                is_indexed: false,
                corrected: HashMap::new(),
            });
        }
    }
    results.require_text(wanted.len())?;
    let folder = IndexFolder::new(arguments.out.join(INDEX));
    let count = wanted.len();
    let updated = update_index(results.store(), &stages, &folder, wanted, &known, || ()).await;
    let mut troubles = match updated {
        // Another search is at it, and this one goes by what there is.
        Err(SearchError::Locked(_)) => Vec::new(),
        Err(error) => return Err(error).context("the index cannot be made"),
        Ok(update) => update.trouble().into_iter().collect(),
    };
    let snapshot = folder.snapshot()?;
    let (indexed, refused) = (snapshot.volumes().len(), snapshot.refused().len());
    let (models, models_dir) = (QueryModels::default(), arguments.models_dir.as_deref());
    let asked = ask(&arguments.question, vec![snapshot], &models, models_dir, None).await?;
    troubles.extend(asked.trouble);
    let pages = asked.found;
    let found = Found {
        total: pages.total,
        hits: pages.hits.into_iter().map(|hit| Hit::of("", hit)).collect(),
        volumes: indexed,
        behind: count.saturating_sub(indexed + refused),
        is_updating: false,
        troubles,
    };
    if arguments.json {
        println!("{}", shown_json(&serde_json::to_string_pretty(&found)?));
    } else {
        println!("{}", shown(&found.text()));
    }
    Ok(ExitCode::SUCCESS)
}

/// Version of a volume's text: the digest of the tables that it is made of; `None` if the volume has not been read yet.
async fn version(
    store: &dyn ArtifactStore,
    layout: &VolumeLayout,
    stages: &[StageName],
) -> Result<Option<String>> {
    let texts = [layout.words(), layout.clean_results(), layout.ocr_results()];
    let others = [
        layout.page_text(),
        layout.line_detection(),
        layout.blocks(),
        layout.line_blocks(),
        layout.chunks(),
        layout.vectors(),
    ];
    let errors = stages.iter().map(|stage| layout.errors(stage));
    let (mut hash, mut is_read) = (Sha256::new(), false);
    for (key, is_text) in texts
        .into_iter()
        .map(|key| (key, true))
        .chain(others.into_iter().chain(errors).map(|key| (key, false)))
    {
        match store.get(&key).await {
            Ok(table) => {
                is_read |= is_text;
                hash.update(key.as_str());
                hash.update(&table);
            }
            Err(StorageError::NotFound { .. }) => {}
            Err(error) => return Err(error.into()),
        }
    }
    Ok(is_read.then(|| hex::encode(hash.finalize())))
}
