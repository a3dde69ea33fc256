//! Identifiers of volumes.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

use super::PageSet;

/// Error for a name that cannot be used as an identifier or a path segment.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{name:?} is not a valid {kind}: use {rule}")]
pub struct InvalidName {
    pub kind: &'static str,
    /// Description of the names that are accepted.
    pub rule: &'static str,
    pub name: String,
}

/// Image group of a collection, written `{w_id}-{i_id}`. Both parts are safe as path segments; `w_id` holds no
/// hyphen, so the written form can be read back.
///
/// A volume may be some pages of a document, which is a volume itself: `HKEX-11805134@3-12_15` are pages of `HKEX-11805134`. `i_id`
/// ends with the pages then.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct VolumeId {
    w_id: String,
    i_id: String,
}

/// Largest length of a part, in bytes. BDRC's longest id has 30 characters; folder names of other libraries are longer.
const MAX_LENGTH: usize = 96;
/// Sign between a document and the pages of it that a volume is.
const PAGES: char = '@';

impl VolumeId {
    /// Accepts the two parts of a name.
    ///
    /// # Errors
    ///
    /// [`InvalidName`] if one of them is not safe as a path segment, or `w_id` holds a hyphen.
    pub fn new(w_id: impl Into<String>, i_id: impl Into<String>) -> Result<Self, InvalidName> {
        let (w_id, i_id) = (w_id.into(), i_id.into());
        let plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '.' | '_' | ':');
        let sized = |name: &str| !name.is_empty() && name.len() <= MAX_LENGTH && !name.starts_with('.');
        if !sized(&w_id) || !w_id.chars().all(plain) {
            return Err(InvalidName {
                kind: "W id",
                rule: "letters, digits, '.', '_' and ':', not starting with '.'",
                name: w_id,
            });
        }
        let (document, pages) = split(&i_id);
        if !sized(document) || !document.chars().all(|c| plain(c) || c == '-') {
            return Err(InvalidName {
                kind: "I id",
                rule: "letters, digits, '.', '_', ':' and '-', not starting with '.'",
                name: i_id,
            });
        }
        if let Some(pages) = pages {
            pages.parse::<PageSet>()?;
        }
        Ok(Self { w_id, i_id })
    }

    /// Accepts the two parts of the name of a whole document.
    ///
    /// # Errors
    ///
    /// [`InvalidName`] as for [`new`](Self::new), and for a part of a document: a part of a part would be two names of the same pages.
    pub fn whole(w_id: impl Into<String>, i_id: impl Into<String>) -> Result<Self, InvalidName> {
        let document = Self::new(w_id, i_id)?;
        if document.pages().is_none() {
            return Ok(document);
        }
        Err(InvalidName {
            kind: "document",
            rule: "the id of a whole document",
            name: document.to_string(),
        })
    }

    /// Volume of some pages of this document, or of the document that this volume is pages of.
    pub fn part(&self, pages: &PageSet) -> Self {
        let (document, _) = split(&self.i_id);
        Self {
            w_id: self.w_id.clone(),
            i_id: format!("{document}{PAGES}{pages}"),
        }
    }

    /// The whole document; the volume itself unless it is a part.
    pub fn document(&self) -> Self {
        let (document, _) = split(&self.i_id);
        Self {
            w_id: self.w_id.clone(),
            i_id: document.to_owned(),
        }
    }

    /// Pages of the document that the volume is; `None` if it is all of them.
    pub fn pages(&self) -> Option<PageSet> {
        let (_, pages) = split(&self.i_id);
        // It was read when the volume was named.
        pages.and_then(|pages| pages.parse().ok())
    }

    /// Collection id, `W...`.
    pub fn w_id(&self) -> &str {
        &self.w_id
    }

    /// Image group id, `I...`, with the pages of a part.
    pub fn i_id(&self) -> &str {
        &self.i_id
    }
}

/// Document and pages of an image group id.
fn split(i_id: &str) -> (&str, Option<&str>) {
    match i_id.split_once(PAGES) {
        Some((document, pages)) => (document, Some(pages)),
        None => (i_id, None),
    }
}

impl fmt::Display for VolumeId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}-{}", self.w_id, self.i_id)
    }
}

impl FromStr for VolumeId {
    type Err = InvalidName;

    fn from_str(text: &str) -> Result<Self, InvalidName> {
        match text.split_once('-') {
            Some((w_id, i_id)) => Self::new(w_id, i_id),
            None => Err(InvalidName {
                kind: "volume id",
                rule: "W-I, such as W22084-I0886, of letters, digits, '.', '_' and ':'",
                name: text.to_owned(),
            }),
        }
    }
}

impl TryFrom<String> for VolumeId {
    type Error = InvalidName;

    fn try_from(text: String) -> Result<Self, InvalidName> {
        text.parse()
    }
}

impl From<VolumeId> for String {
    fn from(volume: VolumeId) -> Self {
        volume.to_string()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn written_form_reads_back() {
        let volume = VolumeId::new("W22084", "I0886-2").unwrap();
        assert_eq!(volume.to_string().parse::<VolumeId>().unwrap(), volume);
    }

    #[test]
    fn a_part_is_named_by_its_document_and_its_pages() {
        let document = VolumeId::new("HKEX", "11805134").unwrap();
        let pages = PageSet::of([15, 3, 4, 5]).unwrap();
        let part = document.part(&pages);
        assert_eq!(part.to_string(), "HKEX-11805134@3-5_15");
        assert_eq!(part.to_string().parse::<VolumeId>().unwrap(), part);
        assert_eq!(
            (part.document(), part.pages()),
            (document.clone(), Some(pages.clone()))
        );
        assert_eq!(part.part(&pages), part);
        assert_eq!((document.document(), document.pages()), (document.clone(), None));
        for refused in [
            "HKEX-11805134@",
            "HKEX-@3",
            "HKEX-11805134@5_3",
            "HKEX-11805134@3@4",
            "HK@3-1",
        ] {
            assert!(refused.parse::<VolumeId>().is_err(), "{refused}");
        }
    }

    #[test]
    fn path_tricks_are_refused() {
        for (w, i) in [
            ("..", "I1"),
            ("W/1", "I1"),
            ("W1", "../x"),
            ("", "I1"),
            ("W-1", "I1"),
            ("W1", "a\\b"),
            ("W1", ""),
        ] {
            assert!(VolumeId::new(w, i).is_err(), "{w:?} {i:?}");
        }
    }
}
