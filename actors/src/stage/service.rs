//! Services that stages ask about pages: the one that a job names, the failures of one, and answers that are kept.
//!
//! An answer is kept beside the table before anything is made of it, so that it is paid for once: whoever does the page again finds it
//! there, unless the picture or the settings of the service are others.

use serde_json::Value;
use tracing::warn;

use super::page_stage::VolumeRun;
use crate::engines::{Engine, EngineError};
use crate::runner::off_the_clock;
use crate::telemetry::at_step;
use parkhang_core::domain::{ErrorCategory, JobConfig, PageStep, StageError, StageName, Usage};
use parkhang_store::artifact::{Digest, ImageName, KeptAnswer, ModelRef};
use parkhang_store::storage::{ArtifactKey, StorageError};

/// The service that a job names for a stage in the place of its own model, if it names one.
///
/// # Errors
///
/// When the job names two, or what is neither a service nor the model.
pub(super) fn named<'s, S>(
    services: &'s [S],
    engine: impl Fn(&S) -> &Engine,
    own: &ModelRef,
    config: &JobConfig,
    stage: &StageName,
) -> Result<Option<&'s S>, String> {
    let mut chosen = None;
    for name in config.models.of(stage) {
        match services.iter().find(|one| engine(one).model().name == name) {
            Some(_) if chosen.is_some() => {
                return Err("the job names two services for the stage".to_owned());
            }
            Some(found) => chosen = Some(found),
            None if name == own.name => {}
            None => {
                return Err(format!(
                    "the node knows no service of the kind openai named {name}, and no such model"
                ));
            }
        }
    }
    Ok(chosen)
}

/// The error for a page. A service that is away ends the run, and is not charged to a page.
pub(super) fn failed(run: &VolumeRun, error: EngineError) -> StageError {
    match error {
        EngineError::Away { category, .. } => run.service_away(category, error),
        EngineError::Page { category, .. } => run.error(category, error),
    }
}

/// The answer to a request about a page: the one that an earlier run has kept of any of these, which ask the same, else what comes of
/// `ask`, which is then paid for and kept as that of the first.
///
/// # Errors
///
/// When there is no answer, or none that could be kept.
pub(super) async fn answer(
    run: &VolumeRun,
    engine: &Engine,
    page: &ImageName,
    requests: &[Digest],
    ask: impl Future<Output = (Result<Value, EngineError>, Usage)> + Send,
) -> Result<Value, StageError> {
    let key = run.layout.answer(&run.stage, page);
    if let Some(answer) = kept(run, &key, requests).await? {
        return Ok(answer);
    }
    let service = engine.model().name.as_str();
    at_step(PageStep::Asking);
    off_the_clock(run.may_spend(service)).await?;
    let (answer, usage) = off_the_clock(ask).await;
    let account = &run.context.account;
    let charge = account.charge(service, usage, engine.prices(), &run.halt);
    let kept = async {
        let kept = match requests.first() {
            Some(request) => keep(run, &key, *request, engine, &answer).await,
            None => Ok(()),
        };
        at_step(PageStep::Asking);
        kept
    };
    let (kept, ()) = tokio::join!(kept, off_the_clock(charge));
    kept?;
    answer.map_err(|error| failed(run, error))
}

/// The answer that an earlier run has kept, if it is one to any of these requests.
async fn kept(run: &VolumeRun, key: &ArtifactKey, requests: &[Digest]) -> Result<Option<Value>, StageError> {
    if run.config().force {
        return Ok(None);
    }
    let packed = match off_the_clock(run.store.get(key)).await {
        Ok(packed) => packed,
        Err(StorageError::NotFound { .. }) => return Ok(None),
        Err(error) => return Err(run.storage_error(&error)),
    };
    let kept = match KeptAnswer::unpack(&packed) {
        Ok(kept) => kept,
        Err(error) => {
            warn!(%key, %error, "ignoring a damaged answer; the service is asked again");
            return Ok(None);
        }
    };
    let is_good = requests.contains(&kept.request) && kept.error.is_none();
    Ok(is_good.then_some(kept.answer))
}

/// Keeps an answer, also one that is no text of the page.
async fn keep(
    run: &VolumeRun,
    key: &ArtifactKey,
    request: Digest,
    engine: &Engine,
    answer: &Result<Value, EngineError>,
) -> Result<(), StageError> {
    let (answer, error) = match answer {
        Ok(answer) => (answer, None),
        Err(
            error @ EngineError::Page {
                answer: Some(answer), ..
            },
        ) => (&**answer, Some(error.to_string())),
        // Nothing came that was paid for.
        Err(_) => return Ok(()),
    };
    let kept = KeptAnswer {
        request,
        service: engine.model().name.clone(),
        error,
        answer: answer.clone(),
    };
    let packed = kept
        .pack()
        .map_err(|error| run.error(ErrorCategory::Runtime, error))?;
    at_step(PageStep::Storing);
    off_the_clock(run.store.put(key, packed))
        .await
        .map_err(|error| run.storage_error(&error))
}
