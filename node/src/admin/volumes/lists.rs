//! Finding and reading lists of images.

use std::ffi::OsStr;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};
use parkhang_core::domain::VolumeId;
use parkhang_store::pages::{BdrcArchive, PageSourceError, VolumeManifest, VolumeVersion, volume_of_folder};

/// Name of a volume's list, without extension, in the archive and in copies of it.
const LIST: &str = "dimensions";

/// Place of a volume's list.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ListPlace {
    pub volume: VolumeId,
    /// File of the list; `None` for the list in the archive.
    pub file: Option<PathBuf>,
}

/// Result of reading a list.
#[derive(Debug)]
pub enum Reading {
    /// The version is known already.
    Unchanged,
    Read(VolumeManifest),
}

/// Reason for which a list was left out.
#[derive(Debug)]
pub struct Unread {
    pub reason: &'static str,
    pub sample: String,
}

impl ListPlace {
    pub const fn in_archive(volume: VolumeId) -> Self {
        Self { volume, file: None }
    }

    /// Reads the list unless its version still is `known`.
    pub async fn read(&self, archive: Option<&BdrcArchive>, known: Option<&str>) -> Result<Reading, Unread> {
        match (&self.file, archive, known) {
            (Some(path), ..) => self.read_file(path, known).await,
            (None, Some(archive), Some(known)) => {
                let changed = archive
                    .manifest_if_changed(&self.volume, known)
                    .await
                    .map_err(unread)?;
                Ok(changed.map_or(Reading::Unchanged, Reading::Read))
            }
            (None, Some(archive), None) => archive
                .manifest(&self.volume)
                .await
                .map(Reading::Read)
                .map_err(unread),
            (None, None, _) => Err(unread(PageSourceError::NoSuchVolume(self.volume.clone()))),
        }
    }

    async fn read_file(&self, path: &Path, known: Option<&str>) -> Result<Reading, Unread> {
        let unread = |error: &dyn std::fmt::Display| Unread {
            reason: "with a list that cannot be read",
            sample: format!("{}: {error}", path.display()),
        };
        let bytes = tokio::fs::read(path).await.map_err(|error| unread(&error))?;
        let manifest = VolumeManifest::of_bytes(&bytes).map_err(|error| unread(&error))?;
        Ok(match known {
            // A file has no ETag of its own, so its content is read and hashed before it can be compared.
            Some(known) if VolumeVersion::from_etag(known) == manifest.version() => Reading::Unchanged,
            _ => Reading::Read(manifest),
        })
    }
}

fn unread(error: PageSourceError) -> Unread {
    match error {
        PageSourceError::NoSuchVolume(volume) => Unread {
            reason: "not in the archive",
            sample: volume.to_string(),
        },
        error => Unread {
            reason: "with a list that cannot be read",
            sample: error.to_string(),
        },
    }
}

/// Returns the lists at a path: a file, or all below a folder, sorted. A single file with any name is taken for the list of `volume`
/// if that is given.
///
/// # Errors
///
/// If the path cannot be read, or neither `volume` nor the name of a single file tells whose list it is.
pub fn find(path: &Path, volume: Option<&VolumeId>) -> Result<Vec<ListPlace>> {
    let meta = std::fs::metadata(path).with_context(|| format!("cannot read {}", path.display()))?;
    if !meta.is_dir() {
        let Some(volume) = volume.cloned().or_else(|| volume_of(path)) else {
            bail!(
                "the name of {} does not tell whose list it is: name the volume with --volume",
                path.display()
            );
        };
        let file = Some(path.to_owned());
        return Ok(vec![ListPlace { volume, file }]);
    }
    let (mut places, mut folders) = (Vec::new(), vec![path.to_owned()]);
    while let Some(folder) = folders.pop() {
        let entries = std::fs::read_dir(&folder);
        for entry in entries.with_context(|| format!("cannot read {}", folder.display()))? {
            let entry = entry.with_context(|| format!("cannot read {}", folder.display()))?;
            // The type is that of the entry itself, so links to folders are not followed and cannot form an
            // endless walk.
            if entry.file_type().is_ok_and(|kind| kind.is_dir()) {
                folders.push(entry.path());
            } else if let Some(volume) = volume_of(&entry.path()) {
                let file = Some(entry.path());
                places.push(ListPlace { volume, file });
            }
        }
    }
    // Folders list their entries in any order; sorting makes two imports of the same tree do the same.
    places.sort_by(|a, b| a.volume.cmp(&b.volume).then_with(|| a.file.cmp(&b.file)));
    Ok(places)
}

/// Returns the volume of a list by its name: `dimensions.json` in the volume's folder, or `W-I.json`, either with or without `.gz`.
fn volume_of(path: &Path) -> Option<VolumeId> {
    let name = path.file_name()?.to_str()?;
    let stem = name.strip_suffix(".gz").unwrap_or(name).strip_suffix(".json")?;
    if stem != LIST {
        return volume_of_folder(stem);
    }
    let folder = path.parent()?;
    let own = folder.file_name()?.to_str()?;
    volume_of_folder(own).or_else(|| {
        let collection = folder.parent()?.file_name().and_then(OsStr::to_str)?;
        volume_of_folder(&format!("{collection}-{own}"))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_says_whose_list_it_is() {
        for (path, volume) in [
            (
                "Works/60/W22084/images/W22084-0886/dimensions.json",
                Some("W22084-I0886"),
            ),
            ("W1-I1KG2/dimensions.json.gz", Some("W1-I1KG2")),
            ("W1/I1/dimensions.json", Some("W1-I1")),
            ("lists/W22084-I0886.json", Some("W22084-I0886")),
            ("lists/W22084-I0886.json.gz", Some("W22084-I0886")),
            ("lists/W22084-I0886.txt", None),
            ("lists/other.json", None),
        ] {
            let found = volume_of(Path::new(path)).map(|volume| volume.to_string());
            assert_eq!(found.as_deref(), volume, "{path}");
        }
    }

    /// Rows: 111, F24.
    #[tokio::test]
    async fn lists_of_a_folder_are_found_and_read_unless_they_are_known() {
        let folder = tempfile::tempdir().unwrap();
        let at = |name: &str| folder.path().join(name);
        std::fs::create_dir_all(at("a/W1-I2")).unwrap();
        std::fs::write(at("a/W1-I2/dimensions.json"), "[{\"filename\":\"1.tif\"}]").unwrap();
        std::fs::write(at("a/W1-I2/1.tif"), "scan").unwrap();
        std::fs::write(at("W1-I1.json"), "{}").unwrap();
        let places = find(folder.path(), None).unwrap();
        let names: Vec<String> = places.iter().map(|place| place.volume.to_string()).collect();
        assert_eq!(names, ["W1-I1", "W1-I2"]);
        let unread = places[0].read(None, None).await.unwrap_err();
        assert!(
            unread.sample.contains("W1-I1.json: not a list of images"),
            "{unread:?}"
        );
        let Reading::Read(manifest) = places[1].read(None, Some("00")).await.unwrap() else {
            panic!("it is another one");
        };
        assert_eq!(manifest.version().short().len(), 6);
        let again = places[1].read(None, Some(&manifest.etag)).await.unwrap();
        assert!(matches!(again, Reading::Unchanged));

        let file = at("a/W1-I2/1.tif");
        assert!(find(&file, None).is_err());
        let volume: VolumeId = "W9-I9".parse().unwrap();
        assert_eq!(find(&file, Some(&volume)).unwrap()[0].volume, volume);
        assert!(find(&at("nowhere"), None).is_err());
    }
}
