use bytes::Bytes;
use sha2::{Digest, Sha256};

use super::super::VersionedObject;

const HASH_BYTES: usize = 32;
const LENGTH_BYTES: usize = 2;

/// Header of a copy, before the bytes of its object: the SHA-256 of all that follows, the length of the version (two bytes,
/// little endian), the version. `None` for a version that is too long to be kept.
pub(super) fn header(object: &VersionedObject) -> Option<Vec<u8>> {
    let length = u16::try_from(object.version.len()).ok()?.to_le_bytes();
    let mut hash = Sha256::new();
    hash.update(length);
    hash.update(&object.version);
    hash.update(&object.bytes);
    let mut header = hash.finalize().to_vec();
    header.extend_from_slice(&length);
    header.extend_from_slice(object.version.as_bytes());
    Some(header)
}

/// Object of a copy; `None` if a byte of it is not as it was written.
pub(super) fn open(file: Vec<u8>) -> Option<VersionedObject> {
    let (hash, rest) = file.split_at_checked(HASH_BYTES)?;
    if Sha256::digest(rest).as_slice() != hash {
        return None;
    }
    let (length, rest) = rest.split_first_chunk::<LENGTH_BYTES>()?;
    let length = usize::from(u16::from_le_bytes(*length));
    let version = rest.get(..length)?;
    let version = std::str::from_utf8(version).ok()?.to_owned();
    let start = HASH_BYTES + LENGTH_BYTES + length;
    Some(VersionedObject {
        bytes: Bytes::from(file).slice(start..),
        version,
    })
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn a_copy_is_read_as_written_or_not_at_all(
            bytes in prop::collection::vec(any::<u8>(), 0..300), version in "[a-f0-9-]{0,40}",
            at in any::<prop::sample::Index>(), flip in 1_u8..,
        ) {
            let object = VersionedObject { bytes: Bytes::from(bytes), version };
            let file = [&header(&object).unwrap()[..], &object.bytes].concat();
            prop_assert_eq!(open(file.clone()), Some(object));
            prop_assert_eq!(open(file[..at.index(file.len())].to_vec()), None);
            let mut damaged = file;
            let index = at.index(damaged.len());
            damaged[index] ^= flip;
            prop_assert_eq!(open(damaged), None);
        }
    }
}
