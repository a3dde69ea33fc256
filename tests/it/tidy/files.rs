//! Rules about files and manifests.

use super::source::PACKAGES;
use super::{report, root, tracked};

/// Folders of crates in the order in which they may depend on each other.
const LAYERS: [&str; 4] = ["models", "actors", "node", "tests"];

/// Crates that those of a layer do without.
const KEPT_OUT: [(&str, &[&str]); 3] = [
    ("models", &["tokio", "sqlx", "ractor"]),
    ("actors", &["burn", "clap", "anyhow"]),
    ("node", &["sqlx", "burn"]),
];

#[test]
fn no_file_is_longer_than_500_lines() {
    let long = tracked()
        .into_iter()
        .filter(|path| path.ends_with(".rs") || path.ends_with(".py"))
        .filter_map(|path| {
            let lines = std::fs::read_to_string(root().join(&path))
                .unwrap()
                .lines()
                .count();
            (lines > 500).then(|| format!("{path}: {lines} lines"))
        });
    report("one idea a file, 500 lines at most", long.collect());
}

/// Rows: 181, 210.
#[test]
fn dependencies_go_one_way() {
    let layer = |folder: &str| {
        let first = folder.split('/').next();
        let found = LAYERS.iter().position(|layer| Some(*layer) == first);
        found.unwrap_or_else(|| panic!("{folder} belongs to no layer"))
    };
    let mut broken = Vec::new();
    for package in PACKAGES.iter() {
        let own = layer(&package.folder());
        let shipped = package.dependencies.iter();
        for dependency in shipped.filter(|dependency| dependency.kind.is_none()) {
            let name = &dependency.name;
            let mut members = PACKAGES.iter();
            let above = members
                .find(|member| member.name == *name)
                .is_some_and(|member| layer(&member.folder()) > own);
            let kept_out = KEPT_OUT.iter().filter(|(folder, _)| *folder == LAYERS[own]);
            let mut kept_out = kept_out.flat_map(|(_, names)| names.iter());
            if above || kept_out.any(|kept_out| kept_out == name) {
                broken.push(format!("{} depends on {name}", package.name));
            }
        }
    }
    report("models ← actors ← node", broken);
}

#[test]
fn no_file_names_a_path_of_one_machine() {
    let machine_paths = [
        concat!("/wo", "rk/"),
        concat!("/ro", "ot/"),
        concat!("/fa", "rm/"),
    ];
    let mut broken = Vec::new();
    for path in tracked() {
        let Ok(text) = std::fs::read_to_string(root().join(&path)) else {
            continue;
        };
        for (index, line) in text.lines().enumerate() {
            if machine_paths.iter().any(|needle| line.contains(needle)) {
                broken.push(format!("{path}:{}", index + 1));
            }
        }
    }
    report("no path of one machine in the repository", broken);
}
