//! Answers of services, kept beside the table that is made of them.

use std::io::{Error, Read, Write};

use bytes::Bytes;
use flate2::Compression;
use flate2::read::GzDecoder;
use flate2::write::GzEncoder;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::Digest;

/// Largest answer, in bytes once it is unpacked.
const LARGEST: u64 = 256 << 20;

/// Answer of a service about a page.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct KeptAnswer {
    /// Digest of what was asked: the picture, and the settings of the service.
    pub request: Digest,
    /// Name of the service.
    pub service: String,
    /// Reason for which the answer is no text of the page, if it is none.
    pub error: Option<String>,
    /// The answer as it came.
    pub answer: Value,
}

impl KeptAnswer {
    /// The answer as a file.
    ///
    /// # Errors
    ///
    /// [`Error`] if it cannot be encoded.
    pub fn pack(&self) -> Result<Bytes, Error> {
        let mut packed = GzEncoder::new(Vec::new(), Compression::fast());
        packed.write_all(&serde_json::to_vec(self)?)?;
        packed.finish().map(Bytes::from)
    }

    /// Reads the answer of a file.
    ///
    /// # Errors
    ///
    /// [`Error`] if the file is damaged, or too large.
    pub fn unpack(packed: &[u8]) -> Result<Self, Error> {
        let mut text = Vec::new();
        GzDecoder::new(packed).take(LARGEST).read_to_end(&mut text)?;
        Ok(serde_json::from_slice(&text)?)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_answer_is_found_as_it_was_kept() {
        let kept = KeptAnswer {
            request: Digest::of(b"picture"),
            service: "vision".to_owned(),
            error: None,
            answer: serde_json::json!({"text": "བོད", "n": 0.1}),
        };
        let packed = kept.pack().unwrap();
        assert_eq!(KeptAnswer::unpack(&packed).unwrap(), kept);
        assert!(KeptAnswer::unpack(&packed[..20]).is_err() && KeptAnswer::unpack(b"").is_err());
    }
}
