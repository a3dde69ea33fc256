use std::collections::{BTreeMap, BTreeSet};

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use crate::artifact::{Digest, Fingerprint};
use crate::domain::StageName;

/// One unit of work of a stage: plain data, never changed once planned.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct WorkItem {
    /// Stable name within the stage, such as the image name.
    pub item_id: String,
    /// What the item reads: name → path or key.
    pub inputs: BTreeMap<String, String>,
    /// What the item writes: name → path or key.
    pub outputs: BTreeMap<String, String>,
    pub cfg_hash: Digest,
    /// Hash of the bytes of the inputs, where the planner knows it.
    pub input_hash: Option<Digest>,
    /// Expected cost in any unit that the items of a plan share.
    pub cost_hint: f64,
    /// Small facts that the worker or the hooks need.
    pub metadata: Map<String, Value>,
    pub fingerprint: Option<Fingerprint>,
}

impl WorkItem {
    /// An item without inputs, outputs or cost; set what applies.
    pub fn new(item_id: impl Into<String>, cfg_hash: Digest) -> Self {
        Self {
            item_id: item_id.into(),
            inputs: BTreeMap::new(),
            outputs: BTreeMap::new(),
            cfg_hash,
            input_hash: None,
            cost_hint: 0.0,
            metadata: Map::new(),
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

#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("the plan of {stage} holds item {item_id} twice")]
pub struct InvalidPlan {
    pub stage: StageName,
    pub item_id: String,
}

impl StagePlan {
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
