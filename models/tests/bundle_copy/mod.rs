//! Copies of the bundles of the repository, to be changed.

use std::fs;
use std::path::Path;

use parkhang_models::weights::Bundle;
use tempfile::TempDir;

/// Copies a bundle, named by its folder in this crate.
pub(crate) fn copy_of(bundle: &str) -> TempDir {
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join(bundle);
    let copy = tempfile::tempdir().unwrap();
    for entry in fs::read_dir(source).unwrap() {
        let entry = entry.unwrap();
        fs::copy(entry.path(), copy.path().join(entry.file_name())).unwrap();
    }
    copy
}

/// Replaces a part of the description, which has to be there.
pub(crate) fn edit(bundle: &TempDir, from: &str, to: &str) {
    let path = bundle.path().join(Bundle::DESCRIPTION);
    let description = fs::read_to_string(&path).unwrap();
    assert!(description.contains(from), "{from}");
    fs::write(path, description.replace(from, to)).unwrap();
}
