use super::built;
use crate::storage::{ArtifactKey, InvalidKey};
use parkhang_core::domain::{ArchiveReading, VolumeId};

/// Characters of a version in keys.
const VERSION: usize = 6;

/// Keys of the files that one of the archive's own programs writes about a volume, below a root that its readers know.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ArchiveLayout {
    pub folder: ArtifactKey,
    pub table: ArtifactKey,
    /// File beside the table: the answers as they came, or the errors.
    pub beside: ArtifactKey,
}

impl ArchiveLayout {
    /// Files of its program for Google Vision.
    ///
    /// # Errors
    ///
    /// [`InvalidKey`] if the version is no part of a key.
    pub fn vision(volume: &VolumeId, version: &str) -> Result<Self, InvalidKey> {
        Self::new(ArchiveReading::Vision, volume, version, "-gv.jsonl.zst")
    }

    /// Files of its program for a language model.
    ///
    /// # Errors
    ///
    /// [`InvalidKey`] if the version is no part of a key.
    pub fn chat(volume: &VolumeId, version: &str) -> Result<Self, InvalidKey> {
        Self::new(ArchiveReading::Chat, volume, version, "-errors.jsonl.gz")
    }

    /// Folder of all versions of a volume as a program has read it.
    pub fn versions(reading: ArchiveReading, volume: &VolumeId) -> ArtifactKey {
        let (root, w, i) = (reading.as_str(), volume.w_id(), volume.i_id());
        built(ArtifactKey::new(format!("{root}/{w}/{i}")))
    }

    /// True for the key of a table of texts.
    pub fn is_table(reading: ArchiveReading, key: &ArtifactKey) -> bool {
        key.as_str().ends_with(table_ending(reading))
    }

    /// The part of a version that stands in keys: its first characters, before any dash.
    pub fn version_of(version: &str) -> String {
        let first = version.trim_matches('"').split('-').next().unwrap_or_default();
        first.chars().take(VERSION).collect()
    }

    fn new(
        reading: ArchiveReading,
        volume: &VolumeId,
        version: &str,
        beside: &str,
    ) -> Result<Self, InvalidKey> {
        let (w, i) = (volume.w_id(), volume.i_id());
        let folder = Self::versions(reading, volume).join(version)?;
        let name = |ending: &str| folder.join(&format!("{w}-{i}-{version}{ending}"));
        Ok(Self {
            table: name(table_ending(reading))?,
            beside: name(beside)?,
            folder,
        })
    }
}

fn table_ending(reading: ArchiveReading) -> &'static str {
    match reading {
        ArchiveReading::Vision => "-gv.parquet",
        ArchiveReading::Chat => ".parquet",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The keys that `ocr-output-evaluation` reads, and those of the archive's runs.
    ///
    /// Rows: 84.
    #[test]
    fn keys_are_those_of_the_archive() {
        let volume = VolumeId::new("W3NLM91297", "I2KG218758").unwrap();
        let version = ArchiveLayout::version_of("0a957337f0f6dd45-12");
        let vision = ArchiveLayout::vision(&volume, &version).unwrap();
        let folder = "W3NLM91297/I2KG218758/0a9573/W3NLM91297-I2KG218758-0a9573";
        assert_eq!(vision.table.as_str(), format!("gv/{folder}-gv.parquet"));
        assert_eq!(vision.beside.as_str(), format!("gv/{folder}-gv.jsonl.zst"));
        let chat = ArchiveLayout::chat(&volume, &version).unwrap();
        assert_eq!(chat.table.as_str(), format!("ocr_qwen_v1/{folder}.parquet"));
        assert_eq!(
            chat.beside.as_str(),
            format!("ocr_qwen_v1/{folder}-errors.jsonl.gz")
        );
        assert_eq!(ArchiveLayout::version_of("\"ab-3\""), "ab");
        assert!(ArchiveLayout::chat(&volume, "").is_err() && ArchiveLayout::chat(&volume, "..").is_err());
    }
}
