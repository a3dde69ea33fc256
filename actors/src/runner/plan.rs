use std::collections::BTreeSet;

use serde::{Deserialize, Serialize};

use parkhang_core::domain::StageName;
use parkhang_store::artifact::{Digest, Fingerprint};

/// One unit of work of a stage: plain data, never changed once planned. The worker looks up anything else by the id.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct WorkItem {
    /// Stable name within the stage, such as the image name.
    pub item_id: String,
    /// Path or key of what the item reads, for the manifest.
    pub input_path: Option<String>,
    /// Path or key of what the item's result goes to, for the manifest.
    pub output_path: Option<String>,
    /// Hash of the bytes of the input, where the planner knows it.
    pub input_hash: Option<Digest>,
    /// Expected cost in any unit that the items of a plan share.
    pub cost_hint: f64,
    /// Everything that the result depends on: input, configuration, models.
    pub fingerprint: Option<Fingerprint>,
}

impl WorkItem {
    /// An item that has a name and nothing else; set what applies.
    pub fn new(item_id: impl Into<String>) -> Self {
        Self {
            item_id: item_id.into(),
            input_path: None,
            output_path: None,
            input_hash: None,
            cost_hint: 0.0,
            fingerprint: None,
        }
    }
}

/// The items of one run of a stage, in discovery order, no two with one id.
#[derive(Debug, Clone, PartialEq)]
pub struct StagePlan {
    stage: StageName,
    items: Vec<WorkItem>,
}

/// Two items of a plan have one id.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("the plan of {stage} holds item {item_id} twice")]
pub struct InvalidPlan {
    pub stage: StageName,
    pub item_id: String,
}

impl StagePlan {
    /// Makes a plan of the items.
    ///
    /// # Errors
    ///
    /// When two items have one id.
    pub fn new(stage: StageName, items: Vec<WorkItem>) -> Result<Self, InvalidPlan> {
        let mut ids = BTreeSet::new();
        if let Some(repeated) = items.iter().find(|item| !ids.insert(item.item_id.as_str())) {
            return Err(InvalidPlan {
                stage,
                item_id: repeated.item_id.clone(),
            });
        }
        Ok(Self { stage, items })
    }

    pub fn stage(&self) -> &StageName {
        &self.stage
    }

    pub fn items(&self) -> &[WorkItem] {
        &self.items
    }

    pub fn into_items(self) -> Vec<WorkItem> {
        self.items
    }
}
