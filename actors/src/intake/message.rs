//! Message that asks for a volume.

use parkhang_core::domain::VolumeId;
use parkhang_queue::{Attribute, Delivery};
use parkhang_store::pages::{VolumeNameError, volume_of_source};
use serde_json::{Map, Value};

/// Source of a message that names none.
const ARCHIVE: &str = "bdrc";

/// Reason why a message asks for no volume.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum MalformedRequest {
    #[error("the message has no {field}, neither as an attribute nor in its body")]
    Missing { field: &'static str },
    #[error("{field} of the body is no text")]
    NoText { field: &'static str },
    #[error("the message names no volume: {0}")]
    Volume(#[from] VolumeNameError),
}

/// Message of `bec queue enqueue`: a volume by its ids, where its images are, and a version where its source keeps several. Each field
/// is a text attribute of the message, or else a member of its body, which is JSON; older senders write the body alone, and some the
/// attributes alone with any body. Members that are not known are passed over.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct VolumeMessage {
    pub w_id: String,
    pub i_id: String,
    /// Name of the source in small letters, "bdrc" for the archive.
    pub source: String,
    pub i_version: Option<String>,
}

impl VolumeMessage {
    /// Reads a message.
    ///
    /// # Errors
    ///
    /// [`MalformedRequest`] if an id is missing, or a member of the body that is needed is no text.
    pub fn read(delivery: &Delivery) -> Result<Self, MalformedRequest> {
        // A body that is no object has no members; with all attributes it need not have any.
        let body: Map<String, Value> = serde_json::from_str(&delivery.body).unwrap_or_default();
        let field = |name: &'static str| match attribute(delivery, name) {
            Some(text) => Ok(Some(text)),
            None => member(&body, name),
        };
        let required = |name| field(name)?.ok_or(MalformedRequest::Missing { field: name });
        let source = field("source")?.map(|source| source.trim().to_lowercase());
        Ok(Self {
            w_id: required("w_id")?,
            i_id: required("i_id")?,
            source: source.unwrap_or_else(|| ARCHIVE.to_owned()),
            i_version: field("i_version")?,
        })
    }

    /// Volume that the message asks for.
    ///
    /// # Errors
    ///
    /// [`MalformedRequest::Volume`] for a source that there is not, a volume of the benchmark without a version, and ids that are none.
    pub fn volume(&self) -> Result<VolumeId, MalformedRequest> {
        let version = self.i_version.as_deref();
        Ok(volume_of_source(
            &self.w_id,
            &self.i_id,
            Some(&self.source),
            version,
        )?)
    }
}

/// Attribute of the message, unless it is empty or binary.
fn attribute(delivery: &Delivery, name: &str) -> Option<String> {
    match delivery.attributes.get(name)? {
        Attribute::Text(text) | Attribute::Number(text) => (!text.is_empty()).then(|| text.clone()),
        Attribute::Binary(_) => None,
    }
}

/// Member of the body, unless it is empty.
fn member(body: &Map<String, Value>, name: &'static str) -> Result<Option<String>, MalformedRequest> {
    match body.get(name) {
        None | Some(Value::Null) => Ok(None),
        Some(Value::String(text)) => Ok((!text.is_empty()).then(|| text.clone())),
        Some(Value::Number(number)) => Ok(Some(number.to_string())),
        Some(Value::Bool(_) | Value::Array(_) | Value::Object(_)) => {
            Err(MalformedRequest::NoText { field: name })
        }
    }
}
