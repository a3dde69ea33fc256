//! Levels of the tables whose rows services work on.

use super::catalogue::ENTITY_ROWS;
use parkhang_core::domain::StageName;

/// Sets the numbers of rows of an entity at a stage, by status.
pub fn entity_rows(entity: &str, stage: &StageName, rows: [(&'static str, u64); 5]) {
    for (status, rows) in rows {
        let rows = usize::try_from(rows).unwrap_or(usize::MAX);
        ENTITY_ROWS.set(rows, [entity, stage.as_str(), status]);
    }
}
