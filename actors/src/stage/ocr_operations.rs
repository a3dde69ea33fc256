//! Answers of Google's operations, which an external stage has had read the pages of a volume: taken over as answers that are paid for.
//!
//! The files of answers are read one after the other and kept page by page where the stage looks for answers anyway. Pages whose response
//! is an error, and pages without one, are left out: they are asked for again alone, as any page without an answer.

use std::collections::{BTreeSet, HashMap};

use bytes::Bytes;
use futures::StreamExt;
use futures::stream;
use parkhang_answers::vision::{operation_responses, responses_in};
use serde_json::Value;
use tracing::{info, warn};

use super::ocr::PageLines;
use super::page_stage::{PlannedPage, VolumeRun};
use crate::engines::{Engine, asked_about, request_about};
use crate::runner::off_the_clock;
use parkhang_core::domain::StageError;
use parkhang_store::artifact::{Digest, ImageName, KeptAnswer, VolumeLayout};
use parkhang_store::storage::{ArtifactKey, ArtifactStore, StorageError};

/// Answers that are read, or written, at once.
const AT_ONCE: usize = 16;

/// Page of a volume as an operation knows it.
struct AskedPage {
    name: ImageName,
    /// Key of its picture.
    picture: String,
    /// Digest of what it is made of.
    made_of: Digest,
}

/// Takes over the answers of the operations that were asked about just these pages, if there are any.
pub(super) async fn take_over(
    run: &VolumeRun,
    engine: &Engine,
    planned: &[PlannedPage<PageLines>],
) -> Result<(), StageError> {
    if !engine.has_places() || run.config().force {
        return Ok(());
    }
    let pages = planned.iter().filter(|page| !page.input.picture.is_empty());
    let pages: Vec<AskedPage> = pages
        .map(|page| AskedPage {
            name: page.name.clone(),
            picture: page.input.picture.clone(),
            made_of: page.input_hash,
        })
        .collect();
    let taken = off_the_clock(keep_answers(run.store.as_ref(), &run.layout, engine, pages)).await;
    let taken = taken.map_err(|error| run.storage_error(&error))?;
    if taken > 0 {
        let service = engine.model().name.as_str();
        info!(volume = %run.volume(), service, taken, "answers of operations are taken over");
    }
    Ok(())
}

async fn keep_answers(
    store: &dyn ArtifactStore,
    layout: &VolumeLayout,
    engine: &Engine,
    pages: Vec<AskedPage>,
) -> Result<usize, StorageError> {
    let reader = engine.model().digest;
    let asked = pages.iter().map(|page| (page.name.as_str(), page.made_of));
    let files = store.list(&layout.operation(asked_about(reader, asked))).await?;
    if files.is_empty() {
        return Ok(0);
    }
    let mut missing = without_answer(store, layout, reader, pages).await?;
    let stage = super::ocr::STAGE.name();
    let mut taken = 0;
    for (file, _) in files {
        let name = file.as_str().rsplit('/').next().unwrap_or_default();
        if responses_in(name).is_none() || missing.is_empty() {
            continue;
        }
        let answers = answers_of(store, &file, engine, &mut missing).await?;
        taken += answers.len();
        let mut writes = stream::iter(answers.into_iter().map(|(page, packed)| {
            let key = layout.answer(&stage, &page);
            async move { store.put(&key, packed).await }
        }))
        .buffer_unordered(AT_ONCE);
        while let Some(written) = writes.next().await {
            written?;
        }
    }
    Ok(taken)
}

/// Answers of a file about pages that miss one, packed; these pages miss none then.
async fn answers_of(
    store: &dyn ArtifactStore,
    file: &ArtifactKey,
    engine: &Engine,
    missing: &mut HashMap<String, AskedPage>,
) -> Result<Vec<(ImageName, Bytes)>, StorageError> {
    let found: Result<Value, _> = serde_json::from_slice(&store.get(file).await?);
    let responses = found
        .map_err(|error| error.to_string())
        .and_then(operation_responses);
    let responses = match responses {
        Ok(responses) => responses,
        Err(error) => {
            warn!(%file, error, "ignoring damaged answers; their pages are asked for again");
            return Ok(Vec::new());
        }
    };
    let mut answers = Vec::new();
    for (uri, response) in responses {
        let picture = missing.keys().find(|picture| is_of(&uri, picture)).cloned();
        let (Some(picture), Ok(answer)) = (picture, response) else {
            continue;
        };
        let Some(page) = missing.remove(&picture) else {
            continue;
        };
        let kept = KeptAnswer {
            request: request_about(engine.model().digest, page.made_of),
            service: engine.model().name.clone(),
            error: None,
            answer,
        };
        match kept.pack() {
            Ok(packed) => answers.push((page.name, packed)),
            Err(error) => {
                warn!(page = page.name.as_str(), %error, "an answer cannot be kept; the page is asked for again")
            }
        }
    }
    Ok(answers)
}

/// True for the URI of a picture, which has bucket and prefix in front of its key.
fn is_of(uri: &str, picture: &str) -> bool {
    uri.strip_suffix(picture)
        .is_some_and(|place| place.ends_with('/'))
}

/// Pages that have no answer to the same question, by their pictures.
async fn without_answer(
    store: &dyn ArtifactStore,
    layout: &VolumeLayout,
    reader: Digest,
    pages: Vec<AskedPage>,
) -> Result<HashMap<String, AskedPage>, StorageError> {
    let stage = super::ocr::STAGE.name();
    let there = store.list(&layout.answers(&stage)).await?;
    let there: BTreeSet<ArtifactKey> = there.into_iter().map(|(key, _)| key).collect();
    let looks = pages.into_iter().map(|page| {
        let key = layout.answer(&stage, &page.name);
        let is_there = there.contains(&key);
        async move {
            if !is_there {
                return Ok((page, false));
            }
            let kept = KeptAnswer::unpack(&store.get(&key).await?);
            let is_kept = kept.is_ok_and(|kept| kept.request == request_about(reader, page.made_of));
            Ok::<_, StorageError>((page, is_kept))
        }
    });
    let mut looks = stream::iter(looks).buffer_unordered(AT_ONCE);
    let mut missing = HashMap::new();
    while let Some(looked) = looks.next().await {
        let (page, is_kept) = looked?;
        if !is_kept {
            missing.insert(page.picture.clone(), page);
        }
    }
    Ok(missing)
}
