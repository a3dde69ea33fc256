//! Names of files and folders: the files that are scans, and the volume that a folder is.

use std::path::Path;

use sha2::{Digest, Sha256};

use parkhang_core::domain::{InvalidName, VolumeId};

/// Endings of files that are taken for page scans. The format of a file is decided by its content.
const IMAGE_EXTENSIONS: [&str; 11] = [
    "jpg", "jpeg", "png", "tif", "tiff", "webp", "bmp", "pbm", "pgm", "ppm", "pnm",
];

/// Longest id, in characters.
const ID_LENGTH: usize = 96;
/// Number of hexadecimal digits that tell apart names of which the same is left.
const HASH_LENGTH: usize = 8;

/// True for the file name of a page scan: a known ending, a stem before it, not hidden.
pub(super) fn is_image_name(name: &str) -> bool {
    match name.rsplit_once('.') {
        Some((stem, extension)) => {
            !stem.is_empty()
                && !name.starts_with('.')
                && IMAGE_EXTENSIONS
                    .iter()
                    .any(|known| extension.eq_ignore_ascii_case(known))
        }
        None => false,
    }
}

/// True for the file name of a PDF, not hidden.
pub(super) fn is_pdf_name(name: &str) -> bool {
    name.rsplit_once('.').is_some_and(|(stem, extension)| {
        !stem.is_empty() && !name.starts_with('.') && extension.eq_ignore_ascii_case("pdf")
    })
}

/// Volume that a folder, or a file without its ending, is by its name `W-I`, or by its parent's name and its own.
pub(super) fn volume_id(
    folder: &Path,
    w_id: Option<&str>,
    i_id: Option<&str>,
) -> Result<VolumeId, InvalidName> {
    let name = |path: Option<&Path>| {
        path.and_then(Path::file_name)
            .map(|name| name.to_string_lossy().into_owned())
            .unwrap_or_default()
    };
    let own = name(Some(folder));
    let (from_name, own_part) = match own.split_once('-') {
        Some((w, i)) if !w.is_empty() && !i.is_empty() => (Some(w.to_owned()), i.to_owned()),
        _ => (None, own.clone()),
    };
    let w = match (w_id, from_name) {
        (Some(w), _) => w.to_owned(),
        (None, Some(w)) => as_id(&w),
        (None, None) => as_id(&name(folder.parent())),
    };
    let i = i_id.map(str::to_owned).unwrap_or_else(|| as_id(&own_part));
    VolumeId::new(w, i)
}

/// Id made of a folder name. If it differs from the name, a hash of the name follows, so that names which differ only in
/// characters that an id cannot hold have different ids, and each has the same one in every run.
fn as_id(name: &str) -> String {
    let plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '.' | '_');
    let fits = !name.is_empty() && name.len() <= ID_LENGTH && !name.starts_with('.');
    if fits && name.chars().all(plain) {
        return name.to_owned();
    }
    let hash = hex::encode(Sha256::digest(name));
    let words: Vec<&str> = name
        .split(|c: char| !plain(c))
        .map(|word| word.trim_matches('.'))
        .filter(|word| !word.is_empty())
        .collect();
    let mut id: String = words.join("_");
    // The characters that are kept are ASCII, so every byte ends one.
    id.truncate(ID_LENGTH - HASH_LENGTH - 1);
    format!("{id}_{}", &hash[..HASH_LENGTH])
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use proptest::prelude::*;

    use super::*;

    fn id(path: &str) -> String {
        volume_id(Path::new(path), None, None).unwrap().to_string()
    }

    #[test]
    fn ids_come_from_folder_names() {
        assert_eq!(id("/scans/W22084-I0886"), "W22084-I0886");
        assert_eq!(id("/scans/W22084/I0886"), "W22084-I0886");
        assert_eq!(id("/my scans/vol 1"), "my_scans_28923f27-vol_1_2f135417");
        let explicit = volume_id(Path::new("/a/b"), Some("W1"), Some("I2")).unwrap();
        assert_eq!(explicit.to_string(), "W1-I2");
    }

    #[test]
    fn names_of_another_script_stay_apart() {
        let names = ["བཀའ་འགྱུར།", "བསྟན་འགྱུར།", "vol 1", "vol_1", "vol  1", ".vol_1"];
        let ids: HashSet<String> = names.iter().map(|name| id(&format!("/scans/{name}"))).collect();
        assert_eq!(ids.len(), names.len(), "{ids:?}");
        assert_eq!(id("/scans/བཀའ་འགྱུར།"), id("/scans/བཀའ་འགྱུར།"));
    }

    proptest! {
        #[test]
        fn every_folder_name_makes_an_id(parent in "[^/]{0,200}", name in "[^/]{0,200}") {
            let id = VolumeId::new(as_id(&parent), as_id(&name));
            prop_assert!(id.is_ok(), "{:?}", id);
        }

        #[test]
        fn ids_are_the_same_for_the_same_name_only(one in "[^/]{1,12}", other in "[^/]{1,12}") {
            prop_assert_eq!(as_id(&one) == as_id(&other), one == other);
        }
    }
}
