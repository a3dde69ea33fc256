//! A question asked of indexes.

use std::path::Path;

use anyhow::Result;
use parkhang_search::{Found, Snapshot, search};
use tokio::sync::OwnedSemaphorePermit;
use tokio_util::sync::CancellationToken;

use super::{QueryModels, Question};

/// Answer of the indexes, and what keeps it from being a better one.
#[derive(Debug, Default)]
pub struct Asked {
    pub found: Found,
    pub trouble: Option<String>,
}

/// Asks a question of indexes. `folder` has the models that embed it, where the configuration names one. The turn ends with the search, also
/// where nobody waits for it any more: until it notices, it takes a core.
///
/// # Errors
///
/// If an index cannot be read, or the models are missing of a question that is about meaning alone.
pub async fn ask(
    question: &Question,
    indexes: Vec<Snapshot>,
    models: &QueryModels,
    folder: Option<&Path>,
    turn: Option<OwnedSemaphorePermit>,
) -> Result<Asked> {
    let mut request = question.request();
    let mut trouble = None;
    if let Some(text) = question.meaning() {
        match models.vectors(text, &indexes, folder).await {
            Ok(None) if question.needs_meaning() => {
                trouble = Some(
                    "nothing that is searched has chunks, which the pipeline documents makes".to_owned(),
                );
            }
            Ok(Some(vectors)) => {
                let has_unknown = |index: &Snapshot| index.has_vectors_of_others(&vectors.model);
                if !vectors.dense.is_empty() && indexes.iter().any(has_unknown) {
                    trouble = Some(
                        "chunks that another model has embedded are found by words and terms alone"
                            .to_owned(),
                    );
                }
                request.vectors = Some(vectors);
            }
            Ok(None) => {}
            Err(error) if question.needs_meaning() => return Err(error),
            // Whoever has not installed them finds words all the same.
            Err(error) => trouble = Some(format!("pages are found by words alone: {error:#}")),
        }
    }
    // Whoever asked may have gone before the answer is there.
    let gone = CancellationToken::new();
    let _waiting = gone.clone().drop_guard();
    let found = tokio::task::spawn_blocking(move || {
        let _turn = turn;
        let indexes: Vec<&Snapshot> = indexes.iter().collect();
        search(&indexes, &request, &|| gone.is_cancelled())
    });
    Ok(Asked {
        found: found.await??,
        trouble,
    })
}
