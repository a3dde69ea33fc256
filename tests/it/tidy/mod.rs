//! The rules of ARCHITECTURE.md that a machine can see, checked on what the compiler reads: [`source`] walks the workspace, [`tokens`]
//! and [`paths`] read its files, and every other module holds rules of one kind.

mod comments;
mod files;
mod paths;
mod permissions;
mod rooms;
mod rules;
mod source;
mod sql;
mod test_items;
mod tokens;
mod waits;

use std::path::{Path, PathBuf};
use std::process::Command;

pub(crate) fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .parent()
        .expect("the tests crate lies in the workspace")
        .to_owned()
}

pub(crate) fn tracked() -> Vec<String> {
    let output = Command::new("git")
        .args(["ls-files"])
        .current_dir(root())
        .output()
        .expect("git runs");
    assert!(
        output.status.success(),
        "git ls-files: {}",
        String::from_utf8_lossy(&output.stderr)
    );
    let files: Vec<String> = String::from_utf8(output.stdout)
        .unwrap()
        .lines()
        .map(str::to_owned)
        .collect();
    assert!(
        files.iter().any(|file| file == "Cargo.toml"),
        "git knows no files here"
    );
    files
        .into_iter()
        .filter(|file| root().join(file).is_file())
        .collect()
}

pub(crate) fn report(rule: &str, broken: Vec<String>) {
    assert!(broken.is_empty(), "{rule}:\n  {}", broken.join("\n  "));
}
