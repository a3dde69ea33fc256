//! The list of an index's parts, which says what of them counts.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use crate::bundle::FORMAT;
use crate::compaction::PartSize;
use crate::vectors::ModelHash;

/// Version of a volume's index: whatever its owner tells versions apart by.
pub type Version = String;

/// Volume that cannot be indexed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Refused {
    pub version: Version,
    pub reason: String,
}

/// List of the parts.
#[derive(Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct PartList {
    pub format: u32,
    /// Number of the next part.
    pub next: u64,
    pub parts: Vec<Part>,
    /// Volumes that cannot be indexed.
    #[serde(default)]
    pub refused: BTreeMap<String, Refused>,
}

/// Part in the list.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct Part {
    pub number: u64,
    pub documents: u64,
    /// Volumes that count, with their versions and numbers of documents.
    pub volumes: BTreeMap<String, (Version, u64)>,
    /// Volumes that are in the part and do not count, with their numbers of documents.
    pub replaced: BTreeMap<String, u64>,
    /// Model of the vectors of its chunks.
    pub model: Option<ModelHash>,
}

impl Part {
    pub(crate) fn folder(&self, index: &Path) -> PathBuf {
        index.join(format!("part-{:06}", self.number))
    }

    pub(crate) fn replaced(&self) -> BTreeSet<String> {
        self.replaced.keys().cloned().collect()
    }

    pub(crate) fn size(&self) -> PartSize {
        PartSize {
            documents: self.documents,
            replaced: self.replaced.values().sum(),
            model: self.model,
        }
    }
}

impl PartList {
    pub(crate) fn volumes(&self) -> BTreeMap<String, Version> {
        let volumes = self.parts.iter().flat_map(|part| &part.volumes);
        volumes
            .map(|(volume, (version, _))| (volume.clone(), version.clone()))
            .collect()
    }

    pub(crate) const fn new() -> Self {
        Self {
            format: FORMAT,
            next: 1,
            parts: Vec::new(),
            refused: BTreeMap::new(),
        }
    }
}
