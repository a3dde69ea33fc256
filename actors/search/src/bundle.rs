//! The index of one volume as one artifact: its files in a row, after a line of JSON that names them.

use std::path::Path;

use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};
use tantivy::directory::{Directory, RamDirectory};
use tantivy::index::SegmentId;
use tantivy::{Index, IndexMeta, TantivyError};

use crate::error::SearchError;
use crate::vectors::{self, Vectors};

/// Version of the form of bundles and of the index in them. One of another version is made anew from the tables of its volume.
pub(crate) const FORMAT: u32 = 1;
/// Largest header, in bytes; it names a dozen files.
const LARGEST_HEADER: usize = 16 << 10;
/// Name of the one segment in a bundle. The engine draws names by lot, and the same text is to give the same bytes.
const SEGMENT: &str = "00000000-0000-4000-8000-000000000001";
const META: &str = "meta.json";

/// First line of a bundle.
#[derive(Debug, Serialize, Deserialize)]
struct Header {
    format: u32,
    volume: String,
    /// SHA-256 of all that follows the header.
    sha256: String,
    /// Names and lengths of the files, in the order of their bytes.
    files: Vec<(String, usize)>,
}

/// Packs an index of one segment, and the vectors of its chunks; `directory` is the one that it was written to.
///
/// # Errors
///
/// If the index cannot be read.
pub(crate) fn pack(
    index: &Index,
    directory: &RamDirectory,
    volume: &str,
    vectors: Vec<u8>,
) -> Result<Vec<u8>, SearchError> {
    let metas = index.load_metas()?;
    let id = SegmentId::from_uuid_string(SEGMENT).map_err(|_| damaged(volume, "the name of its segment"))?;
    let mut files: Vec<(String, Vec<u8>)> = Vec::new();
    for path in metas.list_segment_files() {
        // A segment without deletions has no file of them.
        if !directory.exists(&path).map_err(TantivyError::from)? {
            continue;
        }
        let bytes = directory.atomic_read(&path).map_err(TantivyError::from)?;
        let name = path.to_string_lossy();
        let ending = name.split_once('.').map_or("", |(_, ending)| ending);
        files.push((format!("{}.{ending}", id.uuid_string()), bytes));
    }
    files.sort();
    let renamed = |segment: &tantivy::SegmentMeta| index.new_segment_meta(id, segment.max_doc());
    let segments = metas.segments.iter().map(renamed).collect();
    let meta = IndexMeta { segments, ..metas };
    let meta = serde_json::to_vec(&meta).map_err(|_| damaged(volume, "its description"))?;
    files.push((META.to_owned(), meta));
    files.push((vectors::FILE.to_owned(), vectors));
    let names = files
        .iter()
        .map(|(name, bytes)| (name.clone(), bytes.len()))
        .collect();
    let body: Vec<u8> = files.into_iter().flat_map(|(_, bytes)| bytes).collect();
    let header = Header {
        format: FORMAT,
        volume: volume.to_owned(),
        sha256: digest(&body),
        files: names,
    };
    let mut packed = serde_json::to_vec(&header).map_err(|_| damaged(volume, "its header"))?;
    packed.push(b'\n');
    packed.extend(body);
    Ok(packed)
}

/// Opens a packed index in memory.
///
/// # Errors
///
/// [`SearchError::DamagedBundle`] if it is of another volume or version, cut off, or its checksums are wrong.
pub(crate) fn unpack(packed: &[u8], volume: &str) -> Result<(Index, Option<Vectors>), SearchError> {
    let damaged = |reason| damaged(volume, reason);
    let end = packed
        .iter()
        .take(LARGEST_HEADER)
        .position(|byte| *byte == b'\n')
        .ok_or_else(|| damaged("it has no header"))?;
    let (header, rest) = packed.split_at(end);
    let header: Header = serde_json::from_slice(header).map_err(|_| damaged("its header cannot be read"))?;
    if header.format != FORMAT {
        return Err(damaged("it is of another version of this program"));
    }
    if header.volume != volume {
        return Err(damaged("it is of another volume"));
    }
    let mut rest = rest.get(1..).unwrap_or_default();
    if digest(rest) != header.sha256 {
        return Err(damaged("its checksum is wrong"));
    }
    let directory = RamDirectory::create();
    for (name, length) in header.files {
        let (bytes, after) = rest
            .split_at_checked(length)
            .ok_or_else(|| damaged("it is cut off"))?;
        directory
            .atomic_write(Path::new(&name), bytes)
            .map_err(|_| damaged("it does not fit into memory"))?;
        rest = after;
    }
    let vectors = Vectors::open(&directory);
    Ok((Index::open(directory)?, vectors))
}

fn digest(bytes: &[u8]) -> String {
    hex::encode(Sha256::digest(bytes))
}

fn damaged(volume: &str, reason: &'static str) -> SearchError {
    SearchError::DamagedBundle {
        volume: volume.to_owned(),
        reason,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::volume::{PageText, VolumeText, index_volume};

    fn packed() -> Vec<u8> {
        let page = PageText {
            number: 1,
            lines: vec!["ཀ་ཁ་".to_owned(), "one line".to_owned()],
            ..PageText::default()
        };
        let text = VolumeText {
            volume: "W1-I1".to_owned(),
            pages: vec![page],
            ..VolumeText::default()
        };
        index_volume(&text).unwrap()
    }

    #[test]
    fn the_same_text_gives_the_same_bytes() {
        assert_eq!(packed(), packed());
        assert_eq!(
            unpack(&packed(), "W1-I1")
                .unwrap()
                .0
                .load_metas()
                .unwrap()
                .segments[0]
                .max_doc(),
            1
        );
    }

    #[test]
    fn what_is_no_bundle_of_the_volume_is_refused() {
        let whole = packed();
        assert!(
            matches!(unpack(&whole, "W1-I2"), Err(SearchError::DamagedBundle { reason, .. }) if reason.contains("another volume"))
        );
        for length in [0, 10, whole.len() / 2, whole.len() - 1] {
            assert!(unpack(&whole[..length], "W1-I1").is_err(), "{length}");
        }
        let mut changed = whole.clone();
        let in_files = whole.iter().position(|byte| *byte == b'\n').unwrap() + 30;
        changed[in_files] ^= 1;
        assert!(unpack(&changed, "W1-I1").is_err());
    }
}
