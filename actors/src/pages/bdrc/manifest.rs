use std::collections::HashSet;
use std::io::{self, Read};

use flate2::read::MultiGzDecoder;
use serde_json::{Map, Value};

use super::PageRef;

const IMAGE_EXTENSIONS: [&str; 5] = ["jpg", "jpeg", "png", "tif", "tiff"];
/// No list unpacks to more; the longest volumes have some ten thousand images of about a hundred bytes each.
const MAX_BYTES: u64 = 64 << 20;

/// Why the list of a volume's images cannot be read.
#[derive(Debug, thiserror::Error)]
pub enum ManifestError {
    #[error("not gzipped: {0}")]
    Gzip(#[source] io::Error),
    #[error("unpacks to more than 64 MiB")]
    TooLong,
    #[error("not a list of images: {0}")]
    Json(#[source] serde_json::Error),
    #[error("the file name of entry {entry} is {name}")]
    FileName { entry: usize, name: Value },
}

/// The pages of a `dimensions.json`, in its order. Entries that name no image of the folder itself are left out: lists
/// hold their own name, files of sub-folders and other junk. A name that comes again is the same page.
pub(super) fn read_manifest(gzipped: &[u8]) -> Result<Vec<PageRef>, ManifestError> {
    let mut json = Vec::new();
    MultiGzDecoder::new(gzipped)
        .take(MAX_BYTES + 1)
        .read_to_end(&mut json)
        .map_err(ManifestError::Gzip)?;
    if json.len() as u64 > MAX_BYTES {
        return Err(ManifestError::TooLong);
    }
    let entries: Vec<Map<String, Value>> = serde_json::from_slice(&json).map_err(ManifestError::Json)?;
    let mut pages = Vec::with_capacity(entries.len());
    let mut seen = HashSet::new();
    for (entry, mut fields) in entries.into_iter().enumerate() {
        match fields.remove("filename") {
            Some(Value::String(name)) if is_page(&name) && seen.insert(name.clone()) => {
                let size = fields.get("size").and_then(Value::as_u64).unwrap_or(0);
                pages.push(PageRef {
                    name,
                    size,
                    version: None,
                });
            }
            // The list may be cut short or of another kind: better no volume than one with a page less.
            Some(name @ (Value::Number(_) | Value::Bool(_))) => {
                return Err(ManifestError::FileName { entry, name });
            }
            _ => {}
        }
    }
    Ok(pages)
}

fn is_page(name: &str) -> bool {
    match name.rsplit_once('.') {
        Some((stem, extension)) => {
            let known = |known: &&str| extension.eq_ignore_ascii_case(known);
            !stem.is_empty() && !name.contains('/') && IMAGE_EXTENSIONS.iter().any(known)
        }
        None => false,
    }
}
