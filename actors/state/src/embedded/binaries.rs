//! Search for the server's programs.

use std::fs;
use std::path::{Path, PathBuf};

use super::EmbeddedError;

/// Folder below which Debian installs each major version.
const DEBIAN: &str = "/usr/lib/postgresql";

/// Folder with the server's programs.
#[derive(Debug)]
pub(super) struct Binaries(PathBuf);

impl Binaries {
    /// Finds the programs: in `$PG_BIN`; else, of Debian's side-by-side versions, those of the one that made `data`, or of the
    /// highest for a new folder.
    pub(super) fn find(data: &Path) -> Result<Self, EmbeddedError> {
        if let Some(folder) = std::env::var_os("PG_BIN").filter(|folder| !folder.is_empty()) {
            let folder = PathBuf::from(folder);
            return if is_complete(&folder) {
                Ok(Self(folder))
            } else {
                Err(EmbeddedError::NoBinaries {
                    searched: format!("PG_BIN ({})", folder.display()),
                })
            };
        }
        let made_by = fs::read_to_string(data.join("PG_VERSION"))
            .ok()
            .map(|text| text.trim().to_owned());
        choose(installed(Path::new(DEBIAN)), made_by.as_deref(), data)
    }

    /// Path of one program.
    pub(super) fn program(&self, name: &str) -> PathBuf {
        self.0.join(name)
    }
}

/// Returns true if the folder holds all programs that a server needs.
fn is_complete(folder: &Path) -> bool {
    ["postgres", "initdb", "pg_ctl"]
        .iter()
        .all(|program| folder.join(program).is_file())
}

/// Major versions below `root` and their program folders, in no order.
fn installed(root: &Path) -> Vec<(u32, PathBuf)> {
    let Ok(entries) = fs::read_dir(root) else {
        return Vec::new();
    };
    entries
        .flatten()
        .filter_map(|entry| {
            let version = entry.file_name().to_str()?.parse().ok()?;
            let folder = entry.path().join("bin");
            is_complete(&folder).then_some((version, folder))
        })
        .collect()
}

/// Chooses the version that made the data, or the highest where there are no data.
fn choose(
    installed: Vec<(u32, PathBuf)>,
    made_by: Option<&str>,
    data: &Path,
) -> Result<Binaries, EmbeddedError> {
    if installed.is_empty() {
        return Err(EmbeddedError::NoBinaries {
            searched: format!("{DEBIAN}/*/bin"),
        });
    }
    // Postgres opens no data of another major version, so a newer one beside it is no substitute.
    match made_by {
        None => installed.into_iter().max(),
        Some(version) => installed
            .into_iter()
            .find(|(installed, _)| installed.to_string() == version),
    }
    .map(|(_, folder)| Binaries(folder))
    .ok_or_else(|| EmbeddedError::WrongVersion {
        data: data.to_owned(),
        version: made_by.unwrap_or_default().to_owned(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn versions() -> Vec<(u32, PathBuf)> {
        vec![(9, "/9".into()), (17, "/17".into()), (15, "/15".into())]
    }

    #[test]
    fn a_new_folder_takes_the_highest_version_by_number() {
        let chosen = choose(versions(), None, Path::new("/d")).unwrap();
        assert_eq!(chosen.0, Path::new("/17"));
    }

    #[test]
    fn data_keep_the_version_that_made_them() {
        let chosen = choose(versions(), Some("15"), Path::new("/d")).unwrap();
        assert_eq!(chosen.0, Path::new("/15"));
        let missing = choose(versions(), Some("16"), Path::new("/d")).unwrap_err();
        assert!(missing.to_string().contains("postgresql-16"), "{missing}");
    }

    #[test]
    fn an_empty_system_is_told_what_to_do() {
        let error = choose(vec![], None, Path::new("/d")).unwrap_err().to_string();
        for remedy in ["install the postgresql package", "PG_BIN", "DATABASE_URL"] {
            assert!(error.contains(remedy), "{error}");
        }
    }
}
