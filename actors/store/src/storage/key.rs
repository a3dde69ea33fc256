use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

use super::InvalidKey;

/// Longest key that S3 takes, in bytes.
const MAX_KEY_BYTES: usize = 1024;
/// Longest file name that Linux file systems take, in bytes.
const MAX_SEGMENT_BYTES: usize = 255;

/// Name of an object: `/`-separated segments, relative, safe both as a file path and as an S3 key.
///
/// No segment is empty or starts with a dot (hidden names belong to the store), and no character is a control character
/// or a backslash.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct ArtifactKey(String);

impl ArtifactKey {
    /// Accepts a text of such segments.
    ///
    /// # Errors
    ///
    /// [`InvalidKey`] for any other text.
    pub fn new(key: impl Into<String>) -> Result<Self, InvalidKey> {
        let key = key.into();
        match defect(&key) {
            None => Ok(Self(key)),
            Some(reason) => Err(InvalidKey { key, reason }),
        }
    }

    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// Key of `relative` (one segment or several) inside the folder that this key names.
    ///
    /// # Errors
    ///
    /// [`InvalidKey`] if the result is no key.
    pub fn join(&self, relative: &str) -> Result<Self, InvalidKey> {
        Self::new(format!("{}/{relative}", self.0))
    }

    /// Folder that holds this key; `None` at the top.
    pub fn parent(&self) -> Option<Self> {
        self.0.rsplit_once('/').map(|(parent, _)| Self(parent.to_owned()))
    }

    /// True if this key lies below the folder `prefix`, at any depth.
    pub fn is_under(&self, prefix: &Self) -> bool {
        self.0
            .strip_prefix(prefix.as_str())
            .is_some_and(|rest| rest.starts_with('/'))
    }
}

fn defect(key: &str) -> Option<&'static str> {
    if key.len() > MAX_KEY_BYTES {
        return Some("it is longer than 1024 bytes");
    }
    if key.contains(|c: char| c.is_control() || c == '\\') {
        return Some("it holds a control character or a backslash");
    }
    key.split('/').find_map(|segment| match segment {
        "" => Some("a segment is empty"),
        s if s.starts_with('.') => Some("a segment starts with a dot"),
        s if s.len() > MAX_SEGMENT_BYTES => Some("a segment is longer than 255 bytes"),
        _ => None,
    })
}

impl fmt::Display for ArtifactKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl FromStr for ArtifactKey {
    type Err = InvalidKey;

    fn from_str(key: &str) -> Result<Self, InvalidKey> {
        Self::new(key)
    }
}

impl TryFrom<String> for ArtifactKey {
    type Error = InvalidKey;

    fn try_from(key: String) -> Result<Self, InvalidKey> {
        Self::new(key)
    }
}

impl From<ArtifactKey> for String {
    fn from(key: ArtifactKey) -> Self {
        key.0
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn what_could_leave_the_root_or_hide_is_refused() {
        for key in [
            "", "/", "/a", "a/", "a//b", ".", "..", "a/..", "../a", "a/./b", ".hidden", "a\\b", "a\nb", "a\0",
        ] {
            assert!(ArtifactKey::new(key).is_err(), "{key:?}");
        }
        assert!(ArtifactKey::new("x".repeat(256)).is_err());
        assert!(ArtifactKey::new(vec!["x".repeat(200); 6].join("/")).is_err());
        assert!(ArtifactKey::new("jobs/J1/volumes/W1-I1/ocr/ocr_results.parquet").is_ok());
        assert!(ArtifactKey::new("བོད་/a b.jpg").is_ok());
    }

    #[test]
    fn folders_are_whole_segments() {
        let key = |text: &str| ArtifactKey::new(text).unwrap();
        assert!(key("a/b/c").is_under(&key("a/b")));
        assert!(!key("a/bc").is_under(&key("a/b")));
        assert!(!key("a/b").is_under(&key("a/b")));
        assert_eq!(key("a/b").parent(), Some(key("a")));
        assert_eq!(key("a").parent(), None);
        assert!(key("a").join("../b").is_err());
    }

    proptest! {
        #[test]
        fn an_accepted_key_stays_below_the_root(text in "[a./\\\\\u{1}-]{0,12}") {
            if let Ok(key) = ArtifactKey::new(text) {
                let path = std::path::Path::new(key.as_str());
                let plain = |c: std::path::Component<'_>| matches!(c, std::path::Component::Normal(_));
                prop_assert!(path.components().all(plain));
                prop_assert_eq!(path.components().count(), key.as_str().split('/').count());
            }
        }
    }
}
