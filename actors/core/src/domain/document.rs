//! Places of documents.

use std::fmt;

use serde::{Deserialize, Serialize};

use super::InvalidName;

/// Key of a PDF in the bucket of the scans, where the pages of a volume come from a file that is not named after it.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct DocumentKey(String);

/// Largest length in bytes, which is S3's.
const MAX_LENGTH: usize = 1024;

impl DocumentKey {
    /// Accepts a key.
    ///
    /// # Errors
    ///
    /// [`InvalidName`] for a key that is empty, longer than S3 allows, or holds control characters.
    pub fn new(key: impl Into<String>) -> Result<Self, InvalidName> {
        let key = key.into();
        if key.is_empty() || key.len() > MAX_LENGTH || key.chars().any(char::is_control) {
            return Err(InvalidName {
                kind: "key of a document",
                rule: "1 to 1024 bytes without control characters",
                name: key,
            });
        }
        Ok(Self(key))
    }

    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for DocumentKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl TryFrom<String> for DocumentKey {
    type Error = InvalidName;

    fn try_from(key: String) -> Result<Self, InvalidName> {
        Self::new(key)
    }
}

impl From<DocumentKey> for String {
    fn from(key: DocumentKey) -> Self {
        key.0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_is_what_s3_takes() {
        assert_eq!(
            DocumentKey::new("hkex/2024/報告.pdf").unwrap().as_str(),
            "hkex/2024/報告.pdf"
        );
        for wrong in [String::new(), "k".repeat(1025), "a\0b".to_owned()] {
            assert!(DocumentKey::new(wrong).is_err());
        }
        assert!(serde_json::from_str::<DocumentKey>("\"\"").is_err());
    }
}
