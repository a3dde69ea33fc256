//! Fingerprints, by which two runs of a stage are the same run: hashes of the input, the configuration and the models.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};
use serde_json::Value;
use sha2::{Digest as _, Sha256};

/// Version of the fingerprints themselves, so that a change to the way they are made invalidates the old ones.
const VERSION: &[u8] = b"parkhang fingerprint 1";

/// SHA-256, written `sha256:` and 64 hexadecimal digits.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct Digest([u8; 32]);

#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0:?} is not a digest: sha256: and 64 hexadecimal digits are expected")]
pub struct InvalidDigest(pub String);

impl Digest {
    /// Digest of bytes.
    pub fn of(bytes: &[u8]) -> Self {
        Self(Sha256::digest(bytes).into())
    }

    /// Digest of a list, which depends on the places where one part ends and the next begins.
    pub fn of_parts<P: AsRef<[u8]>>(parts: impl IntoIterator<Item = P>) -> Self {
        let mut hasher = Sha256::new();
        for part in parts {
            let part = part.as_ref();
            hasher.update((part.len() as u64).to_le_bytes());
            hasher.update(part);
        }
        Self(hasher.finalize().into())
    }

    /// Digest as 64 hexadecimal digits, without the prefix.
    pub fn to_hex(self) -> String {
        hex::encode(self.0)
    }
}

impl AsRef<[u8]> for Digest {
    fn as_ref(&self) -> &[u8] {
        &self.0
    }
}

impl fmt::Display for Digest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "sha256:{}", self.to_hex())
    }
}

impl fmt::Debug for Digest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl FromStr for Digest {
    type Err = InvalidDigest;

    fn from_str(text: &str) -> Result<Self, InvalidDigest> {
        let mut bytes = [0; 32];
        let digits = text.strip_prefix("sha256:").unwrap_or_default();
        match hex::decode_to_slice(digits, &mut bytes) {
            Ok(()) => Ok(Self(bytes)),
            Err(_) => Err(InvalidDigest(text.to_owned())),
        }
    }
}

impl TryFrom<String> for Digest {
    type Error = InvalidDigest;

    fn try_from(text: String) -> Result<Self, InvalidDigest> {
        text.parse()
    }
}

impl From<Digest> for String {
    fn from(digest: Digest) -> Self {
        digest.to_string()
    }
}

/// Hash of a configuration: of its JSON with the keys of every object sorted, so that neither the order of fields nor that of
/// insertion counts. Only the settings that the stage's output depends on should be hashed.
///
/// # Errors
///
/// If `config` has no JSON form, such as a map whose keys are not strings.
pub fn cfg_hash(config: &impl Serialize) -> Result<Digest, serde_json::Error> {
    let mut canonical = String::new();
    write_canonical(&serde_json::to_value(config)?, &mut canonical);
    Ok(Digest::of(canonical.as_bytes()))
}

fn write_canonical(value: &Value, out: &mut String) {
    match value {
        Value::Object(fields) => {
            let mut sorted: Vec<_> = fields.iter().collect();
            sorted.sort_by_key(|(key, _)| *key);
            out.push('{');
            for (key, value) in sorted {
                out.push_str(&Value::from(key.as_str()).to_string());
                out.push(':');
                write_canonical(value, out);
                out.push(',');
            }
            out.push('}');
        }
        Value::Array(items) => {
            out.push('[');
            for item in items {
                write_canonical(item, out);
                out.push(',');
            }
            out.push(']');
        }
        scalar => out.push_str(&scalar.to_string()),
    }
}

/// Identifier of a stage's output by everything that it was made from: equal fingerprints promise equal output.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Fingerprint(Digest);

impl Fingerprint {
    /// Hash for the next stage, whose input is the output that this identifies.
    pub const fn digest(self) -> Digest {
        self.0
    }

    /// Fingerprint of a stage's output. `stage_version` grows whenever the stage's code makes something else of the same input.
    /// The order of `models` counts.
    pub fn of(stage: &str, stage_version: u32, config: Digest, input: Digest, models: &[Digest]) -> Self {
        let version = stage_version.to_le_bytes();
        let mut parts: Vec<&[u8]> = vec![
            VERSION,
            stage.as_bytes(),
            &version,
            config.as_ref(),
            input.as_ref(),
        ];
        parts.extend(models.iter().map(AsRef::as_ref));
        Self(Digest::of_parts(parts))
    }
}

impl fmt::Display for Fingerprint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(&self.0, f)
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn digests_are_sha256() {
        let empty = "sha256:e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855";
        assert_eq!(Digest::of(b"").to_string(), empty);
        assert_eq!(empty.parse(), Ok(Digest::of(b"")));
        for wrong in ["", "sha256:", "sha256:e3", &empty[7..], &empty.replace('e', "g")] {
            assert!(wrong.parse::<Digest>().is_err(), "{wrong}");
        }
    }

    #[test]
    fn the_boundaries_of_parts_count() {
        assert_ne!(Digest::of_parts(["ab", "c"]), Digest::of_parts(["a", "bc"]));
        assert_ne!(Digest::of_parts([""; 1]), Digest::of_parts([""; 2]));
    }

    #[test]
    fn field_order_does_not_count_and_values_do() {
        let hash = |text: &str| {
            let value: Value = serde_json::from_str(text).unwrap();
            cfg_hash(&value).unwrap()
        };
        assert_eq!(
            hash(r#"{"a":1,"b":{"c":[1,2],"d":null}}"#),
            hash(r#"{"b":{"d":null,"c":[1,2]},"a":1}"#)
        );
        assert_ne!(
            cfg_hash(&json!([1, 2])).unwrap(),
            cfg_hash(&json!([2, 1])).unwrap()
        );
        assert_ne!(
            cfg_hash(&json!([[1], 2])).unwrap(),
            cfg_hash(&json!([1, [2]])).unwrap()
        );
        assert_ne!(
            cfg_hash(&json!({"a": 1})).unwrap(),
            cfg_hash(&json!({"a": "1"})).unwrap()
        );
    }

    #[test]
    fn everything_named_in_a_fingerprint_changes_it() {
        let (a, b) = (Digest::of(b"a"), Digest::of(b"b"));
        let all = [
            Fingerprint::of("ocr", 1, a, a, &[a]),
            Fingerprint::of("oc", 1, a, a, &[a]),
            Fingerprint::of("ocr", 2, a, a, &[a]),
            Fingerprint::of("ocr", 1, b, a, &[a]),
            Fingerprint::of("ocr", 1, a, b, &[a]),
            Fingerprint::of("ocr", 1, a, a, &[b]),
            Fingerprint::of("ocr", 1, a, a, &[]),
        ];
        for (i, one) in all.iter().enumerate() {
            assert!(!all[..i].contains(one), "{i}");
        }
    }
}
