//! Context of the bodies of submits.

use parkhang_core::domain::{EntityStage, StageName};
use serde_json::{Map, Value, json};

/// Endings of the columns of a stage.
const BOOKKEEPING: [&str; 7] = [
    "status",
    "job_id",
    "result",
    "error",
    "retry_count",
    "started_at",
    "completed_at",
];

/// Makes the context of a row: its own columns as `row`, what its stages have found so far as `results`.
pub(super) fn context(
    entity: &str,
    stage: &StageName,
    stages: &[EntityStage],
    id: &str,
    row: &Value,
    webhook_url: Option<&str>,
) -> Value {
    let mut own = row.as_object().cloned().unwrap_or_default();
    let mut results = Map::new();
    for stage in stages {
        for ending in BOOKKEEPING {
            let value = own.remove(&format!("{}_{ending}", stage.name));
            if ending == "result"
                && let Some(result) = value.filter(|result| !result.is_null())
            {
                results.insert(stage.name.to_string(), result);
            }
        }
    }
    json!({
        "entity": entity,
        "stage": stage.as_str(),
        "id": id,
        "row": own,
        "results": results,
        "webhook_url": webhook_url,
    })
}

#[cfg(test)]
mod tests {
    use parkhang_core::domain::StageLimits;
    use parkhang_core::domain::testing::stage;

    use super::*;

    #[test]
    fn the_context_has_the_row_and_what_was_found_so_far() {
        let named = |name: &str| EntityStage {
            name: stage(name),
            next: None,
            limits: StageLimits::default(),
        };
        let stages = [named("scrape"), named("intel")];
        let row = json!({
            "id": 7, "email": "a@b.example",
            "scrape_status": "completed", "scrape_result": {"pages": 3}, "scrape_job_id": "j",
            "intel_status": "started", "intel_result": null, "intel_retry_count": 0,
        });
        assert_eq!(
            context("leads", &stage("intel"), &stages, "7", &row, None),
            json!({
                "entity": "leads", "stage": "intel", "id": "7", "webhook_url": null,
                "row": {"id": 7, "email": "a@b.example"},
                "results": {"scrape": {"pages": 3}},
            })
        );
    }
}
