//! Whether the files and folders that a configuration names can be used.

use std::path::Path;

use super::check::Finding;
use super::sections::ClusterConfig;

pub fn findings(config: &ClusterConfig) -> Vec<Finding> {
    let folders = [
        ("node.state_dir", &config.node.state_dir),
        ("storage.folder", &config.storage.folder),
        ("storage.cache.folder", &config.storage.cache.folder),
    ];
    folders
        .into_iter()
        .filter_map(|(key, path)| {
            let message = folder_problem(path.as_deref()?)?;
            Some(Finding { key, message })
        })
        .collect()
}

/// A folder that does not exist yet is made when the node starts.
fn folder_problem(path: &Path) -> Option<String> {
    match std::fs::metadata(path) {
        Ok(found) if !found.is_dir() => Some(format!("{} is not a folder", path.display())),
        Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
            Some(format!("{}: {error}", path.display()))
        }
        _ => None,
    }
}
