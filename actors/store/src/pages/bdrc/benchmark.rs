use std::sync::Arc;

use async_trait::async_trait;
use md5::{Digest, Md5};

use super::manifest::has_image_ending;
use super::{PageRef, PageSource, PageSourceError, Scan};
use crate::storage::{ArtifactKey, ArtifactStore, StorageError};
use parkhang_core::domain::{ErrorCategory, InvalidName, VolumeId};

/// Name of the source in lists of volumes.
pub(super) const BENCHMARK: &str = "ocr_benchmark";

/// Volume of BDRC's benchmark by its name in BDRC's database and outputs: `ocr_benchmark:{w_id}-{i_id}-{version}`.
///
/// # Errors
///
/// [`InvalidName`] if a part is not safe in a name.
pub(super) fn benchmark_volume(w_id: &str, i_id: &str, version: &str) -> Result<VolumeId, InvalidName> {
    VolumeId::new(format!("{BENCHMARK}:{w_id}"), format!("{i_id}-{version}"))
}

/// Collection, image group and version of a volume of the benchmark.
fn parts(volume: &VolumeId) -> Option<(&str, &str, &str)> {
    let w_id = volume.w_id().strip_prefix(BENCHMARK)?.strip_prefix(':')?;
    let (i_id, version) = volume.i_id().split_once('-')?;
    Some((w_id, i_id, version))
}

/// Source of an archive, and beside it of BDRC's benchmark: a folder of images for each volume and version of it, without lists.
#[derive(Debug)]
pub struct WithBenchmark {
    archive: Arc<dyn PageSource>,
    benchmark: Arc<dyn ArtifactStore>,
}

impl WithBenchmark {
    pub fn new(archive: Arc<dyn PageSource>, benchmark: Arc<dyn ArtifactStore>) -> Self {
        Self { archive, benchmark }
    }
}

fn folder(volume: &VolumeId) -> Option<String> {
    let (w_id, i_id, version) = parts(volume)?;
    Some(format!("{BENCHMARK}/images/{w_id}/{i_id}/{version}"))
}

/// Version of the pages of a volume of the benchmark: images are changed only under another version of the volume, so that its
/// name is enough.
fn version(volume: &VolumeId) -> Option<String> {
    let (w_id, i_id, version) = parts(volume)?;
    let name = format!("{BENCHMARK}|{w_id}|{i_id}|{version}");
    Some(hex::encode(Md5::digest(name)))
}

fn key(volume: &VolumeId, path: String) -> Result<ArtifactKey, PageSourceError> {
    ArtifactKey::new(path.as_str()).map_err(|error| PageSourceError::Unreadable {
        volume: volume.clone(),
        page: path,
        message: error.to_string(),
        category: ErrorCategory::Input,
    })
}

#[async_trait]
impl PageSource for WithBenchmark {
    async fn pages(&self, volume: &VolumeId) -> Result<Vec<PageRef>, PageSourceError> {
        let Some(folder) = folder(volume) else {
            return self.archive.pages(volume).await;
        };
        let folder = key(volume, folder)?;
        let listed = self.benchmark.list(&folder).await;
        let listed = listed.map_err(|error| PageSourceError::Unreadable {
            volume: volume.clone(),
            page: folder.to_string(),
            message: error.to_string(),
            category: error.category(),
        })?;
        let version = version(volume);
        let below = folder.as_str().len() + 1;
        let pages = listed.iter().filter_map(|(key, meta)| {
            let name = key.as_str().get(below..)?;
            (!name.contains('/') && has_image_ending(name)).then(|| PageRef {
                name: name.to_owned(),
                size: meta.size,
                version: version.clone(),
            })
        });
        let pages: Vec<PageRef> = pages.collect();
        match pages.is_empty() {
            true => Err(PageSourceError::NoSuchVolume(volume.clone())),
            false => Ok(pages),
        }
    }

    async fn read(&self, volume: &VolumeId, page: &PageRef) -> Result<Scan, PageSourceError> {
        let Some(folder) = folder(volume) else {
            return self.archive.read(volume, page).await;
        };
        let missing = || PageSourceError::NoSuchPage {
            volume: volume.clone(),
            page: page.name.clone(),
        };
        if page.name.contains('/') {
            return Err(missing());
        }
        let key = key(volume, format!("{folder}/{}", page.name))?;
        let bytes = self.benchmark.get(&key).await.map_err(|error| match error {
            StorageError::NotFound { .. } => missing(),
            error => PageSourceError::Unreadable {
                volume: volume.clone(),
                page: page.name.clone(),
                message: error.to_string(),
                category: error.category(),
            },
        });
        bytes.map(Scan::Image)
    }
}

#[cfg(test)]
mod tests {
    use super::super::BdrcArchive;
    use super::super::tests::cases;
    use super::*;
    use crate::storage::MemoryArtifacts;

    /// Rows: F26.
    #[test]
    fn volumes_of_the_benchmark_are_named_and_versioned_as_bdrc_does() {
        let mut checked = 0;
        for case in cases("artifacts.json") {
            let (resolved, given) = (&case["resolved"], &case["volume"]);
            if resolved["source"] != BENCHMARK {
                continue;
            }
            let text = |field: &str| given[field].as_str().unwrap();
            let volume = benchmark_volume(text("w_id"), text("i_id"), text("i_version")).unwrap();
            assert_eq!(volume.to_string(), case["basename"].as_str().unwrap());
            assert_eq!(
                format!("{}/", folder(&volume).unwrap()),
                resolved["image_prefix"].as_str().unwrap()
            );
            assert_eq!(
                version(&volume).unwrap(),
                resolved["forced_etag_hex"].as_str().unwrap()
            );
            checked += 1;
        }
        assert!(checked >= 2, "{checked}");
    }

    #[tokio::test]
    async fn a_volume_is_read_where_its_name_says_it_is() {
        let store = Arc::new(MemoryArtifacts::new());
        for name in ["b.jpg", "a.png", "sub/c.jpg", "d.txt", "E.TIF"] {
            let key = ArtifactKey::new(format!("ocr_benchmark/images/W1/I1/202603/{name}"));
            store.put(&key.unwrap(), name.into()).await.unwrap();
        }
        let archive = Arc::new(BdrcArchive::new(store.clone()));
        let source = WithBenchmark::new(archive, store);
        let volume = benchmark_volume("W1", "I1", "202603").unwrap();
        let pages = source.pages(&volume).await.unwrap();
        let names: Vec<&str> = pages.iter().map(|page| page.name.as_str()).collect();
        assert_eq!(names, ["E.TIF", "a.png", "b.jpg"]);
        assert_eq!(
            pages[0].version.as_deref(),
            Some("308a04aeae66418d97efeaae1d892ebe")
        );
        assert_eq!(
            source.read(&volume, &pages[1]).await.unwrap().image().unwrap(),
            "a.png"
        );
        let elsewhere = PageRef {
            name: "sub/c.jpg".to_owned(),
            ..pages[0].clone()
        };
        let error = source.read(&volume, &elsewhere).await.unwrap_err();
        assert!(matches!(error, PageSourceError::NoSuchPage { .. }), "{error}");
        for absent in [
            benchmark_volume("W1", "I1", "1").unwrap(),
            "W1-I1".parse().unwrap(),
        ] {
            let error = source.pages(&absent).await.unwrap_err();
            assert_eq!(error, PageSourceError::NoSuchVolume(absent));
        }
    }
}
