use std::sync::Arc;

use async_trait::async_trait;

use super::names::is_image_name;
use super::pdf::{OpenPdf, OpenPdfs};
use super::{PageRef, PageSource, PageSourceError, Scan};
use crate::storage::{ArtifactKey, ArtifactStore, InvalidKey, ObjectMeta, StorageError};
use parkhang_core::domain::{ErrorCategory, VolumeId};

/// Source of volumes in a bucket: the images of a volume lie in the folder `W-I`, or the volume is the PDF `W-I.pdf`.
#[derive(Debug, Clone)]
pub struct BucketFolders {
    store: Arc<dyn ArtifactStore>,
    pdfs: OpenPdfs,
}

impl BucketFolders {
    pub fn new(store: Arc<dyn ArtifactStore>) -> Self {
        Self {
            store,
            pdfs: OpenPdfs::default(),
        }
    }

    fn folder(volume: &VolumeId) -> Result<ArtifactKey, PageSourceError> {
        ArtifactKey::new(volume.to_string()).map_err(|error| no_name(volume, "", &error))
    }
}

impl BucketFolders {
    /// Objects of a volume that is a folder; none for one that is a PDF, as a bucket has no folders but those that hold something.
    async fn listed(&self, volume: &VolumeId) -> Result<Vec<(ArtifactKey, ObjectMeta)>, PageSourceError> {
        let listed = self.store.list(&Self::folder(volume)?).await;
        listed.map_err(|error| unreadable(volume, "the list", &error, error.category()))
    }

    /// Opens the PDF of a volume anew.
    async fn pdf(&self, volume: &VolumeId) -> Result<OpenPdf, PageSourceError> {
        let (name, key) = pdf_key(volume)?;
        let bytes = self.store.get(&key).await.map_err(|error| match error {
            StorageError::NotFound { .. } => PageSourceError::NoSuchVolume(volume.clone()),
            error => unreadable(volume, &name, &error, error.category()),
        })?;
        self.pdfs.open(volume, &name, bytes).await
    }
}

/// Name of the PDF of a volume, and its key.
fn pdf_key(volume: &VolumeId) -> Result<(String, ArtifactKey), PageSourceError> {
    let name = format!("{volume}.pdf");
    let key = ArtifactKey::new(name.clone()).map_err(|error| no_name(volume, &name, &error))?;
    Ok((name, key))
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
        let listed = self.listed(volume).await?;
        if listed.is_empty() {
            return Ok(self.pdf(volume).await?.pages());
        }
        let below = Self::folder(volume)?.as_str().len() + 1;
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

    async fn is_pdf(&self, volume: &VolumeId) -> Result<bool, PageSourceError> {
        if !self.listed(volume).await?.is_empty() {
            return Ok(false);
        }
        let (name, key) = pdf_key(volume)?;
        match self.store.head(&key).await {
            Ok(Some(_)) => Ok(true),
            Ok(None) => Err(PageSourceError::NoSuchVolume(volume.clone())),
            Err(error) => Err(unreadable(volume, &name, &error, error.category())),
        }
    }

    async fn read(&self, volume: &VolumeId, page: &PageRef) -> Result<Scan, PageSourceError> {
        let missing = || PageSourceError::NoSuchPage {
            volume: volume.clone(),
            page: page.name.clone(),
        };
        if page.name.contains('/') {
            return Err(missing());
        }
        if !is_image_name(&page.name) {
            let open = self.pdfs.find(&format!("{volume}.pdf"), page.version.as_deref());
            let pdf = match open {
                Some(open) => open,
                None => self.pdf(volume).await?,
            };
            return pdf.page(&page.name).ok_or_else(missing);
        }
        let key = Self::folder(volume)?
            .join(&page.name)
            .map_err(|error| no_name(volume, &page.name, &error))?;
        let bytes = self.store.get(&key).await.map_err(|error| match error {
            StorageError::NotFound { .. } => missing(),
            error => unreadable(volume, &page.name, &error, error.category()),
        });
        bytes.map(Scan::Image)
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
            "W1-I3.pdf",
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
        let scan = source.read(&volume, &pages[1]).await.unwrap();
        assert_eq!(scan.image().unwrap(), "W1-I1/b.tif");

        let elsewhere = PageRef {
            name: "../W1-I10/d.jpg".to_owned(),
            ..pages[0].clone()
        };
        let error = source.read(&volume, &elsewhere).await.unwrap_err();
        assert!(matches!(error, PageSourceError::NoSuchPage { .. }), "{error}");
        assert!(!source.is_pdf(&volume).await.unwrap());
        assert!(source.is_pdf(&VolumeId::new("W1", "I3").unwrap()).await.unwrap());
        let absent = VolumeId::new("W1", "I2").unwrap();
        let error = source.is_pdf(&absent).await.unwrap_err();
        assert_eq!(error, PageSourceError::NoSuchVolume(absent.clone()));
        let error = source.pages(&absent).await.unwrap_err();
        assert_eq!(error, PageSourceError::NoSuchVolume(absent));
    }
}
