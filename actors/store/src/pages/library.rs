use std::path::PathBuf;
use std::sync::{Arc, PoisonError, RwLock};

use async_trait::async_trait;

use super::{FolderSource, FoundVolume, PageRef, PageSource, PageSourceError, Scan, discover_volumes};
use parkhang_core::domain::{ErrorCategory, VolumeId};

/// Source of all volumes below one folder, also of those that are put there while the program runs.
#[derive(Debug)]
pub struct LibraryFolder {
    root: PathBuf,
    known: RwLock<Arc<FolderSource>>,
}

impl LibraryFolder {
    /// Source in a folder, which is searched when a volume is asked for that is not known yet.
    pub fn new(root: PathBuf) -> Self {
        Self {
            root,
            known: RwLock::new(Arc::new(FolderSource::new([]))),
        }
    }

    fn known(&self) -> Arc<FolderSource> {
        self.known.read().unwrap_or_else(PoisonError::into_inner).clone()
    }

    async fn look_again(&self, wanted: &VolumeId) -> Result<Arc<FolderSource>, PageSourceError> {
        let unreadable = |message: String| PageSourceError::Unreadable {
            volume: wanted.clone(),
            page: self.root.display().to_string(),
            message,
            // Of a file system that is not mounted any more, an empty folder is left.
            category: ErrorCategory::Network,
        };
        let root = self.root.clone();
        let found: Vec<FoundVolume> =
            tokio::task::spawn_blocking(move || discover_volumes(&[root], None, None))
                .await
                .map_err(|error| unreadable(error.to_string()))?
                .map_err(|error| unreadable(error.to_string()))?;
        let source = Arc::new(FolderSource::new(found));
        *self.known.write().unwrap_or_else(PoisonError::into_inner) = source.clone();
        Ok(source)
    }
}

#[async_trait]
impl PageSource for LibraryFolder {
    async fn pages(&self, volume: &VolumeId) -> Result<Vec<PageRef>, PageSourceError> {
        match self.known().pages(volume).await {
            Err(PageSourceError::NoSuchVolume(_)) => self.look_again(volume).await?.pages(volume).await,
            pages => pages,
        }
    }

    async fn is_pdf(&self, volume: &VolumeId) -> Result<bool, PageSourceError> {
        match self.known().is_pdf(volume).await {
            Err(PageSourceError::NoSuchVolume(_)) => self.look_again(volume).await?.is_pdf(volume).await,
            is_pdf => is_pdf,
        }
    }

    async fn read(&self, volume: &VolumeId, page: &PageRef) -> Result<Scan, PageSourceError> {
        match self.known().read(volume, page).await {
            Err(PageSourceError::NoSuchVolume(_)) => self.look_again(volume).await?.read(volume, page).await,
            bytes => bytes,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn volumes_that_come_later_are_found() {
        let folder = tempfile::tempdir().unwrap();
        let add = |volume: &str| {
            let volume = folder.path().join(volume);
            std::fs::create_dir(&volume).unwrap();
            std::fs::write(volume.join("1.jpg"), b"scan").unwrap();
        };
        let id = |name: &str| VolumeId::new("W1", name).unwrap();
        add("W1-I1");
        let library = LibraryFolder::new(folder.path().to_owned());
        assert_eq!(library.pages(&id("I1")).await.unwrap().len(), 1);
        let missing = library.pages(&id("I2")).await;
        assert_eq!(missing, Err(PageSourceError::NoSuchVolume(id("I2"))));

        add("W1-I2");
        let file = library.root.join("W1-I3.pdf");
        std::fs::write(file, b"no PDF yet").unwrap();
        assert!(library.is_pdf(&id("I3")).await.unwrap());
        assert!(!library.is_pdf(&id("I2")).await.unwrap());
        let missing = library.is_pdf(&id("I4")).await;
        assert_eq!(missing, Err(PageSourceError::NoSuchVolume(id("I4"))));

        let pages = library.pages(&id("I2")).await.unwrap();
        let scan = library.read(&id("I2"), &pages[0]).await.unwrap();
        assert_eq!(scan.image().unwrap(), "scan");
    }
}
