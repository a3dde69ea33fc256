use md5::{Digest, Md5};

use parkhang_core::domain::VolumeId;

/// Folder of a volume's images. Works are spread over 256 prefixes by the MD5 of their id; image groups of the old
/// numbering, an `I` and four digits, are named without the `I`.
pub(super) fn image_folder(volume: &VolumeId) -> String {
    let (work, group) = (volume.w_id(), volume.i_id());
    let name = match group.strip_prefix('I') {
        Some(number) if is_old_number(number) => number,
        _ => group,
    };
    format!("{}/{work}-{name}", collection_folder(work))
}

/// Folder of a work's volumes.
pub(super) fn collection_folder(w_id: &str) -> String {
    let spread = Md5::digest(w_id)[0];
    format!("Works/{spread:02x}/{w_id}/images")
}

/// Volume whose images lie in a folder of this name, `{w_id}-{i_id}` or, of the old numbering, without the `I`.
pub fn volume_of_folder(name: &str) -> Option<VolumeId> {
    let volume: VolumeId = name.parse().ok()?;
    if is_old_number(volume.i_id()) {
        return VolumeId::new(volume.w_id(), format!("I{}", volume.i_id())).ok();
    }
    Some(volume)
}

fn is_old_number(name: &str) -> bool {
    name.len() == 4 && name.bytes().all(|byte| byte.is_ascii_digit())
}
