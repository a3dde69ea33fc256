use md5::{Digest, Md5};

use crate::domain::VolumeId;

/// The folder of a volume's images. Works are spread over 256 prefixes by the MD5 of their id; image groups of the old
/// numbering, an `I` and four digits, are named without the `I`.
pub(super) fn image_folder(volume: &VolumeId) -> String {
    let (work, group) = (volume.w_id(), volume.i_id());
    let spread = Md5::digest(work)[0];
    let name = match group.strip_prefix('I') {
        Some(number) if number.len() == 4 && number.bytes().all(|b| b.is_ascii_digit()) => number,
        _ => group,
    };
    format!("Works/{spread:02x}/{work}/images/{work}-{name}")
}
