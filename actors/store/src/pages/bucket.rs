use std::sync::Arc;

use async_trait::async_trait;

use super::names::is_image_name;
use super::pdf::{OpenPdf, OpenPdfs, max_bytes, too_long};
use super::{MAX_SCAN, PageRef, PageSource, PageSourceError, Scan};
use crate::storage::{ArtifactKey, ArtifactStore, InvalidKey, ObjectMeta, StorageError};
use parkhang_core::domain::{DocumentKey, ErrorCategory, VolumeId};

/// Source of volumes in a bucket: the images of a volume lie in the folder `W-I`, or the volume is the PDF `W-I.pdf`, or pages of it.
#[derive(Debug, Clone)]
pub struct BucketFolders {
    pdfs: BucketPdfs,
}

impl BucketFolders {
    pub fn new(store: Arc<dyn ArtifactStore>) -> Self {
        let open = OpenPdfs::default();
        Self {
            pdfs: BucketPdfs { store, open },
        }
    }

    fn folder(volume: &VolumeId) -> Result<ArtifactKey, PageSourceError> {
        ArtifactKey::new(volume.to_string()).map_err(|error| no_name(volume, "", &error))
    }

    /// Objects of a volume that is a folder; none for one that is a PDF, as a bucket has no folders but those that hold something.
    async fn listed(&self, volume: &VolumeId) -> Result<Vec<(ArtifactKey, ObjectMeta)>, PageSourceError> {
        let listed = self.pdfs.store.list(&Self::folder(volume)?).await;
        listed.map_err(|error| unreadable(volume, "the list", &error, error.category()))
    }
}

/// Key of the PDF that is named after a volume or after the document that it is a part of.
fn key_of(volume: &VolumeId) -> String {
    format!("{}.pdf", volume.document())
}

/// PDFs in a bucket.
#[derive(Debug, Clone)]
struct BucketPdfs {
    store: Arc<dyn ArtifactStore>,
    open: OpenPdfs,
}

impl BucketPdfs {
    /// Opens the PDF of a volume anew. One that is too long is not fetched.
    async fn open(
        &self,
        volume: &VolumeId,
        name: &str,
        missing: impl FnOnce() -> PageSourceError + Send,
    ) -> Result<OpenPdf, PageSourceError> {
        let key = ArtifactKey::new(name).map_err(|error| no_name(volume, name, &error))?;
        let read = self.store.get_within(&key, max_bytes()).await;
        let bytes = read.map_err(|error| match error {
            StorageError::NotFound { .. } => missing(),
            StorageError::TooLarge { size, .. } => too_long(volume, name, size),
            error => unreadable(volume, name, &error, error.category()),
        })?;
        self.open.open(volume, name, bytes).await
    }

    /// A page of a volume, which was listed as one of the PDF's.
    async fn read(
        &self,
        volume: &VolumeId,
        name: &str,
        page: &PageRef,
        missing: impl FnOnce() -> PageSourceError + Send,
    ) -> Result<Scan, PageSourceError> {
        let pdf = match self.open.find(name, page.version.as_deref()) {
            Some(open) => open,
            None => self.open(volume, name, missing).await?,
        };
        pdf.page(&page.name).ok_or_else(|| no_page(volume, page))
    }
}

/// Source of the volumes that are pages of one PDF in a bucket.
#[derive(Debug)]
struct BucketDocument {
    pdfs: BucketPdfs,
    key: DocumentKey,
}

impl BucketDocument {
    fn missing(&self, volume: &VolumeId) -> PageSourceError {
        PageSourceError::NoSuchDocument {
            volume: volume.clone(),
            place: self.key.clone(),
        }
    }
}

#[async_trait]
impl PageSource for BucketDocument {
    async fn pages(&self, volume: &VolumeId) -> Result<Vec<PageRef>, PageSourceError> {
        let opened = self.pdfs.open(volume, self.key.as_str(), || self.missing(volume));
        Ok(opened.await?.pages(volume))
    }

    async fn read(&self, volume: &VolumeId, page: &PageRef) -> Result<Scan, PageSourceError> {
        let missing = || self.missing(volume);
        self.pdfs.read(volume, self.key.as_str(), page, missing).await
    }
}

fn no_page(volume: &VolumeId, page: &PageRef) -> PageSourceError {
    PageSourceError::NoSuchPage {
        volume: volume.clone(),
        page: page.name.clone(),
    }
}

/// Name of the PDF of a volume, and its key.
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
            let missing = || PageSourceError::NoSuchVolume(volume.clone());
            let opened = self.pdfs.open(volume, &key_of(volume), missing).await?;
            return Ok(opened.pages(volume));
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
        let name = key_of(volume);
        let key = ArtifactKey::new(name.clone()).map_err(|error| no_name(volume, &name, &error))?;
        match self.pdfs.store.head(&key).await {
            Ok(Some(_)) => Ok(true),
            Ok(None) => Err(PageSourceError::NoSuchVolume(volume.clone())),
            Err(error) => Err(unreadable(volume, &name, &error, error.category())),
        }
    }

    async fn read(&self, volume: &VolumeId, page: &PageRef) -> Result<Scan, PageSourceError> {
        if page.name.contains('/') {
            return Err(no_page(volume, page));
        }
        if !is_image_name(&page.name) {
            let missing = || PageSourceError::NoSuchVolume(volume.clone());
            return self.pdfs.read(volume, &key_of(volume), page, missing).await;
        }
        let key = Self::folder(volume)?
            .join(&page.name)
            .map_err(|error| no_name(volume, &page.name, &error))?;
        let read = self.pdfs.store.get_within(&key, MAX_SCAN).await;
        let bytes = read.map_err(|error| match error {
            StorageError::NotFound { .. } => no_page(volume, page),
            StorageError::TooLarge { size, .. } => page.too_large(volume, size),
            error => unreadable(volume, &page.name, &error, error.category()),
        });
        bytes.map(Scan::Image)
    }

    fn document(&self, place: &DocumentKey) -> Option<Arc<dyn PageSource>> {
        Some(Arc::new(BucketDocument {
            pdfs: self.pdfs.clone(),
            key: place.clone(),
        }))
    }
}

#[cfg(test)]
mod tests {
    use super::super::pdf::testing::pdf;
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

    /// Rows: 151.
    #[tokio::test]
    async fn pages_of_a_pdf_are_a_volume_wherever_the_pdf_lies() {
        let store = Arc::new(MemoryArtifacts::new());
        for key in ["HKEX-1.pdf", "hkex/2026/a b.pdf"] {
            let key = ArtifactKey::new(key).unwrap();
            store.put(&key, pdf(4).into()).await.unwrap();
        }
        let folders = BucketFolders::new(store.clone());
        let named =
            |pages: &[PageRef]| -> Vec<String> { pages.iter().map(|page| page.name.clone()).collect() };
        let by_name: VolumeId = "HKEX-1@2-3".parse().unwrap();
        let pages = folders.pages(&by_name).await.unwrap();
        assert_eq!(named(&pages), ["page_2", "page_3"]);
        assert!(matches!(
            folders.read(&by_name, &pages[0]).await,
            Ok(Scan::Pdf(page)) if page.index == 1
        ));

        let by_key: VolumeId = "HKEX-2@4_9".parse().unwrap();
        let place = DocumentKey::new("hkex/2026/a b.pdf").unwrap();
        let document = folders.document(&place).unwrap();
        let pages = document.pages(&by_key).await.unwrap();
        assert_eq!(named(&pages), ["page_4", "page_9"]);
        assert!(document.read(&by_key, &pages[0]).await.is_ok());
        let beyond = document.read(&by_key, &pages[1]).await.unwrap_err();
        assert!(matches!(beyond, PageSourceError::NoSuchPage { .. }), "{beyond}");

        let key = ArtifactKey::new("hkex/long.pdf").unwrap();
        let length = max_bytes() + 1;
        store.put(&key, vec![0; length as usize].into()).await.unwrap();
        let long = folders.document(&DocumentKey::new("hkex/long.pdf").unwrap());
        let error = long.unwrap().pages(&by_key).await.unwrap_err();
        assert_eq!(error, too_long(&by_key, "hkex/long.pdf", length));

        let gone = folders.document(&DocumentKey::new("gone.pdf").unwrap()).unwrap();
        let error = gone.pages(&by_key).await.unwrap_err();
        assert_eq!(error.category(), ErrorCategory::Input);
        assert!(error.to_string().contains("gone.pdf"), "{error}");
    }
}
