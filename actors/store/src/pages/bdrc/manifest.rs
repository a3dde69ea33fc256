use std::borrow::Cow;
use std::collections::HashSet;
use std::fmt;
use std::io::{self, Read};

use flate2::read::MultiGzDecoder;
use serde::Deserializer;
use serde::de::{SeqAccess, Visitor};
use serde_json::{Map, Value};

use parkhang_core::domain::ImageRecord;

const IMAGE_EXTENSIONS: [&str; 5] = ["jpg", "jpeg", "png", "tif", "tiff"];
/// Largest size of an unpacked list, in bytes; the longest volumes have some ten thousand images of about a hundred bytes each.
const MAX_BYTES: u64 = 64 << 20;
const GZIP: [u8; 2] = [0x1f, 0x8b];
const BYTE_ORDER_MARK: &[u8] = b"\xef\xbb\xbf";
/// Number of characters that are kept of a text in a list.
const WORD: usize = 200;

/// Reason for which the list of a volume's images cannot be read.
#[derive(Debug, thiserror::Error)]
pub enum ManifestError {
    #[error("cannot be unpacked: {0}")]
    Gzip(#[source] io::Error),
    #[error("unpacks to more than 64 MiB")]
    TooLong,
    #[error("not a list of images: {0}")]
    Json(#[source] serde_json::Error),
    #[error("the file name of entry {entry} is {name}")]
    FileName { entry: usize, name: Value },
}

/// Content of a `dimensions.json`.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ImageList {
    /// Images in the order of the list, each name once.
    pub images: Vec<ImageRecord>,
    /// Other entries in the order of the list.
    pub junk: Vec<JunkEntry>,
}

/// Entry that names no image of the volume: lists hold their own name, files of sub-folders and other junk.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct JunkEntry {
    /// Index in the list, from 0.
    pub entry: usize,
    pub name: Option<String>,
    pub junk: Junk,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Junk {
    Nameless,
    InSubfolder,
    NoImage,
    /// The name came earlier in the list.
    Repeated,
}

impl fmt::Display for Junk {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Nameless => "no file name",
            Self::InSubfolder => "file of another folder",
            Self::NoImage => "not an image",
            Self::Repeated => "listed twice",
        })
    }
}

impl ImageList {
    /// Reads a list, gzipped or plain, with or without a byte order mark.
    ///
    /// # Errors
    ///
    /// [`ManifestError`] if the bytes are no such list.
    pub fn read(bytes: &[u8]) -> Result<Self, ManifestError> {
        let text = unpacked(bytes)?;
        let mut reader = serde_json::Deserializer::from_slice(&text);
        let entries = reader.deserialize_seq(Entries).map_err(ManifestError::Json)?;
        reader.end().map_err(ManifestError::Json)?;
        entries
    }
}

/// Text of a file that may be gzipped, without a byte order mark.
///
/// # Errors
///
/// [`ManifestError`] if it cannot be unpacked, or unpacks to more than a list may have.
pub fn unpacked(bytes: &[u8]) -> Result<Cow<'_, [u8]>, ManifestError> {
    let without_mark = |bytes: &[u8]| {
        bytes
            .starts_with(BYTE_ORDER_MARK)
            .then_some(BYTE_ORDER_MARK.len())
    };
    if !bytes.starts_with(&GZIP) {
        return Ok(bytes[without_mark(bytes).unwrap_or(0)..].into());
    }
    let mut text = Vec::new();
    MultiGzDecoder::new(bytes)
        // One byte more than is allowed tells a list that is too long from one that just fits.
        .take(MAX_BYTES + 1)
        .read_to_end(&mut text)
        .map_err(ManifestError::Gzip)?;
    if text.len() as u64 > MAX_BYTES {
        return Err(ManifestError::TooLong);
    }
    if let Some(mark) = without_mark(&text) {
        text.drain(..mark);
    }
    Ok(text.into())
}

/// Visitor that takes the entries one by one: a list is many times as large once it is a tree of values.
struct Entries;

impl<'de> Visitor<'de> for Entries {
    type Value = Result<ImageList, ManifestError>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a list of images")
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut entries: A) -> Result<Self::Value, A::Error> {
        let (mut list, mut seen, mut refused) = (ImageList::default(), HashSet::new(), None);
        let mut entry = 0;
        while let Some(mut fields) = entries.next_element::<Map<String, Value>>()? {
            let junk = match fields.remove("filename") {
                Some(Value::String(name)) => match junk(&name, &mut seen) {
                    None => {
                        list.images.push(image(name, &fields));
                        None
                    }
                    Some(junk) => Some((Some(name), junk)),
                },
                // The list may be cut short or of another kind: better no volume than one with a page less.
                Some(name @ (Value::Number(_) | Value::Bool(_))) => {
                    refused.get_or_insert(ManifestError::FileName { entry, name });
                    None
                }
                _ => Some((None, Junk::Nameless)),
            };
            if let Some((name, junk)) = junk {
                list.junk.push(JunkEntry { entry, name, junk });
            }
            entry += 1;
        }
        Ok(refused.map_or(Ok(list), Err))
    }
}

fn junk(name: &str, seen: &mut HashSet<String>) -> Option<Junk> {
    if name.contains('/') {
        return Some(Junk::InSubfolder);
    }
    if name.contains('\0') || !has_image_ending(name) {
        return Some(Junk::NoImage);
    }
    (!seen.insert(name.to_owned())).then_some(Junk::Repeated)
}

pub(super) fn has_image_ending(name: &str) -> bool {
    match name.rsplit_once('.') {
        Some((stem, extension)) => {
            let known = |known: &&str| extension.eq_ignore_ascii_case(known);
            !stem.is_empty() && IMAGE_EXTENSIONS.iter().any(known)
        }
        None => false,
    }
}

fn image(name: String, fields: &Map<String, Value>) -> ImageRecord {
    let side = |key: &str| {
        let side = fields.get(key).and_then(Value::as_u64)?;
        u32::try_from(side).ok().filter(|side| *side > 0)
    };
    let word = |key: &str| match fields.get(key)? {
        // The texts go to Postgres, which refuses the character zero.
        Value::String(word) => Some(word.replace('\0', "").chars().take(WORD).collect()),
        Value::Number(number) => Some(number.to_string()),
        _ => None,
    };
    ImageRecord {
        name,
        width: side("width"),
        height: side("height"),
        mode: word("mode").or_else(|| word("pilmode")),
        format: word("format"),
        compression: word("compression"),
        size: fields.get("size").and_then(Value::as_u64),
        error: word("error"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_image_is_what_its_entry_says() {
        let list = r#"[
            {"filename":"a.tif","width":878,"height":1138,"size":987928374,"pilmode":"1","compression":"group4"},
            {"filename":"b.jpg","width":0,"height":"tall","mode":"RGB","format":"PNG","dpi":[300,300]},
            {"filename":"c.jpg","error":"UnidentifiedImageError"}]"#;
        let list = ImageList::read(list.as_bytes()).unwrap();
        assert_eq!(list.junk, []);
        let word = |word: &str| Some(word.to_owned());
        let named = |name: &str| ImageRecord {
            name: name.to_owned(),
            ..ImageRecord::default()
        };
        let expected = [
            ImageRecord {
                width: Some(878),
                height: Some(1138),
                size: Some(987_928_374),
                mode: word("1"),
                compression: word("group4"),
                ..named("a.tif")
            },
            ImageRecord {
                mode: word("RGB"),
                format: word("PNG"),
                ..named("b.jpg")
            },
            ImageRecord {
                error: word("UnidentifiedImageError"),
                ..named("c.jpg")
            },
        ];
        assert_eq!(list.images, expected);
    }

    #[test]
    fn junk_is_told_with_its_place_and_its_kind() {
        let list = r#"[{"filename":"dimensions.json"},{"filename":"a.tif"},{"filename":"sub/b.tif"},{"filename":"a.tif"},
            {"filename":".jpg"},{"filename":null},{"width":3},{"filename":"a\u0000.tif"}]"#;
        let list = ImageList::read(list.as_bytes()).unwrap();
        assert_eq!(list.images.len(), 1);
        let junk: Vec<(usize, Option<&str>, Junk)> = list
            .junk
            .iter()
            .map(|junk| (junk.entry, junk.name.as_deref(), junk.junk))
            .collect();
        let expected = [
            (0, Some("dimensions.json"), Junk::NoImage),
            (2, Some("sub/b.tif"), Junk::InSubfolder),
            (3, Some("a.tif"), Junk::Repeated),
            (4, Some(".jpg"), Junk::NoImage),
            (5, None, Junk::Nameless),
            (6, None, Junk::Nameless),
            (7, Some("a\0.tif"), Junk::NoImage),
        ];
        assert_eq!(junk, expected);
    }

    #[test]
    fn what_is_no_list_is_refused() {
        for (text, reason) in [
            ("", "not a list of images: EOF"),
            ("{}", "not a list of images: invalid type: map"),
            ("[] []", "not a list of images: trailing characters"),
            ("[[\"a.tif\"]]", "not a list of images: invalid type: sequence"),
            ("[{\"filename\":7}]", "the file name of entry 0 is 7"),
            ("\u{1f}\u{8b}", "not a list of images: expected value"),
        ] {
            let error = ImageList::read(text.as_bytes()).unwrap_err().to_string();
            assert!(error.starts_with(reason), "{text}: {error}");
        }
        let cut = ImageList::read(&GZIP).unwrap_err();
        assert!(matches!(cut, ManifestError::Gzip(_)), "{cut}");
    }
}
