use std::sync::Arc;

use async_trait::async_trait;
use bytes::Bytes;

use super::names::is_image_name;
use super::{PageRef, PageSource, PageSourceError};
use crate::storage::{ArtifactKey, ArtifactStore, InvalidKey, StorageError};
use parkhang_core::domain::{ErrorCategory, VolumeId};

/// Source of volumes in a bucket: the images of a volume lie in the folder `W-I`.
#[derive(Debug, Clone)]
pub struct BucketFolders {
    store: Arc<dyn ArtifactStore>,
}

impl BucketFolders {
    pub fn new(store: Arc<dyn ArtifactStore>) -> Self {
        Self { store }
    }

    fn folder(volume: &VolumeId) -> Result<ArtifactKey, PageSourceError> {
        ArtifactKey::new(volume.to_string()).map_err(|error| no_name(volume, "", &error))
    }
}

fn no_name(volume: &VolumeId, page: &str, error: &InvalidKey) -> PageSourceError {
    unreadable(volume, page, error, ErrorCategory::Input)
}

fn unreadable(
    volume: &VolumeId,
    page: &str,
    error: &dyn std::error::Error,
    category: ErrorCategory,
) -> PageSourceError {
    PageSourceError::Unreadable {
        volume: volume.clone(),
        page: page.to_owned(),
        message: error.to_string(),
        category,
    }
}

#[async_trait]
impl PageSource for BucketFolders {
    async fn pages(&self, volume: &VolumeId) -> Result<Vec<PageRef>, PageSourceError> {
        let folder = Self::folder(volume)?;
        let listed = self.store.list(&folder).await;
        let listed = listed.map_err(|error| unreadable(volume, "the list", &error, error.category()))?;
        // A bucket has no folders but those that hold something.
        if listed.is_empty() {
            return Err(PageSourceError::NoSuchVolume(volume.clone()));
        }
        let below = folder.as_str().len() + 1;
        let images = listed.iter().filter_map(|(key, meta)| {
            let name = key.as_str().get(below..)?;
            (!name.contains('/') && is_image_name(name)).then(|| PageRef {
                name: name.to_owned(),
                size: meta.size,
                version: None,
            })
        });
        Ok(images.collect())
    }

    async fn read(&self, volume: &VolumeId, page: &PageRef) -> Result<Bytes, PageSourceError> {
        let missing = || PageSourceError::NoSuchPage {
            volume: volume.clone(),
            page: page.name.clone(),
        };
        if page.name.contains('/') {
            return Err(missing());
        }
        let key = Self::folder(volume)?
            .join(&page.name)
            .map_err(|error| no_name(volume, &page.name, &error))?;
        self.store.get(&key).await.map_err(|error| match error {
            StorageError::NotFound { .. } => missing(),
            error => unreadable(volume, &page.name, &error, error.category()),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::storage::MemoryArtifacts;

    /// Rows: F26.
    #[tokio::test]
    async fn a_volume_is_a_folder_of_images() {
        let store = Arc::new(MemoryArtifacts::new());
        for name in [
            "W1-I1/b.tif",
            "W1-I1/a.JPG",
            "W1-I1/notes.txt",
            "W1-I1/sub/c.jpg",
            "W1-I10/d.jpg",
        ] {
            store
                .put(&ArtifactKey::new(name).unwrap(), name.into())
                .await
                .unwrap();
        }
        let source = BucketFolders::new(store);
        let volume = VolumeId::new("W1", "I1").unwrap();
        let pages = source.pages(&volume).await.unwrap();
        let names: Vec<&str> = pages.iter().map(|page| page.name.as_str()).collect();
        assert_eq!(names, ["a.JPG", "b.tif"]);
        assert_eq!(source.read(&volume, &pages[1]).await.unwrap(), "W1-I1/b.tif");

        let elsewhere = PageRef {
            name: "../W1-I10/d.jpg".to_owned(),
            ..pages[0].clone()
        };
        let error = source.read(&volume, &elsewhere).await.unwrap_err();
        assert!(matches!(error, PageSourceError::NoSuchPage { .. }), "{error}");
        let absent = VolumeId::new("W1", "I2").unwrap();
        let error = source.pages(&absent).await.unwrap_err();
        assert_eq!(error, PageSourceError::NoSuchVolume(absent));
    }
}
