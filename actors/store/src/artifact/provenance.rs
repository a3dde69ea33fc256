use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::{Digest, Fingerprint};
use parkhang_core::domain::{Attempt, JobKey, StageName, VolumeId};

/// Origin of an artifact, kept in its Parquet key-value metadata. It holds no time of day, so that the same run makes the
/// same bytes.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Provenance {
    pub job: JobKey,
    pub volume: VolumeId,
    pub stage: StageName,
    pub attempt: Attempt,
    /// Models that took part, in the order of the fingerprint.
    pub models: Vec<ModelRef>,
    pub config_hash: Digest,
    /// Hash of everything that the stage read.
    pub input_hash: Digest,
    /// Version of the program.
    pub build: String,
    pub fingerprint: Fingerprint,
    /// Pages that the table covers, also those without rows, with the fingerprints of their results.
    pub pages: BTreeMap<String, Fingerprint>,
    /// Service that read the pages, if one did.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub service: Option<ServiceRef>,
}

/// Service as it told of itself when a volume was begun. It decides nothing: a service that has a new version has not made its answers wrong.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ServiceRef {
    pub name: String,
    /// Protocol, such as `openai`.
    pub kind: String,
    /// Model that is asked.
    pub model: String,
    /// Models that the server has, where it lists them.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub served_models: Vec<String>,
    /// Version of the server, where it tells.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub version: Option<String>,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ModelRef {
    pub name: String,
    pub digest: Digest,
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;
    use parkhang_core::domain::testing;

    pub(in super::super) fn sample() -> Provenance {
        let digest = Digest::of(b"x");
        let stage = testing::stage("ocr");
        let model = ModelRef {
            name: "first-recogniser".to_owned(),
            digest,
        };
        Provenance {
            job: JobKey::new("J1").unwrap(),
            volume: VolumeId::new("W1", "I1").unwrap(),
            attempt: Attempt(1),
            models: vec![model],
            config_hash: digest,
            input_hash: digest,
            build: "0.1.0".to_owned(),
            fingerprint: Fingerprint::of(stage.as_str(), 1, digest, digest, &[digest]),
            stage,
            pages: BTreeMap::new(),
            service: None,
        }
    }
}
