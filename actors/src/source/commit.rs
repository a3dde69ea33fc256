//! Changes that are committed together and fail apart.

use chrono::{DateTime, Utc};
use parkhang_state::{Change, Outcome, StateError, StateStore};

/// Failures in a row after which the store is taken to be away, and is not asked for the others.
const FAILURES: usize = 2;

/// Commits the changes in one transaction, and each by itself where that fails: a change that the store cannot take would otherwise
/// fail all those that came with it, each time they are tried. Returns what became of each, in their order.
pub(super) async fn commit_apart(
    store: &dyn StateStore,
    changes: &[Change],
    now: DateTime<Utc>,
) -> Vec<Result<Outcome, StateError>> {
    if changes.is_empty() {
        return Vec::new();
    }
    let error = match store.commit(changes, now).await {
        Ok(outcomes) => return outcomes.into_iter().map(Ok).collect(),
        Err(error) if changes.len() == 1 => return vec![Err(error)],
        Err(error) => error,
    };
    let mut results = Vec::new();
    let mut failures = 0;
    for change in changes {
        let result = if failures < FAILURES {
            let outcome = store.commit(std::slice::from_ref(change), now).await;
            outcome.and_then(|outcomes| outcomes.into_iter().next().ok_or_else(no_outcome))
        } else {
            Err(StateError::Unavailable(format!("not tried, after: {error}")))
        };
        failures = if result.is_ok() { 0 } else { failures + 1 };
        results.push(result);
    }
    results
}

fn no_outcome() -> StateError {
    StateError::Corrupt("a commit of one change has no outcome".to_owned())
}
