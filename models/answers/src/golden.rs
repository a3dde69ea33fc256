//! Vectors made by the archive's own programs (`tests/fixtures/README.md`), and the larger ones of the shared folder where it is there.

use std::path::{Path, PathBuf};

use serde_json::Value;

/// Cases of a fixture of this crate, one a line.
pub(crate) fn fixture(name: &str) -> Vec<Value> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("tests/fixtures")
        .join(name);
    cases(&path)
}

/// Path in the shared folder; `None`, with a message, where the folder is absent.
pub(crate) fn shared(name: &str) -> Option<PathBuf> {
    let found =
        std::env::var_os("PARKHANG_SHARED").map(|shared| Path::new(&shared).join("golden").join(name));
    let found = found.filter(|path| path.exists());
    if found.is_none() {
        eprintln!("SKIPPED: PARKHANG_SHARED has no golden/{name}");
    }
    found
}

pub(crate) fn cases(path: &Path) -> Vec<Value> {
    let text = std::fs::read_to_string(path).unwrap();
    text.lines()
        .map(|line| serde_json::from_str(line).unwrap())
        .collect()
}
