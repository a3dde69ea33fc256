use std::collections::{BTreeMap, HashMap};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use async_trait::async_trait;
use bytes::Bytes;
use parkhang_pdf::{Document, Limits};
use sha2::{Digest, Sha256};

use super::names::{is_image_name, volume_id};
use super::{PageRef, PageSource, PageSourceError, PdfPage, Scan};
use parkhang_core::domain::{ErrorCategory, InvalidName, VolumeId};

/// Volume that lies in one folder of images.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct VolumeFolder {
    pub volume: VolumeId,
    pub folder: PathBuf,
}

/// Reason for which a path cannot be taken as volumes.
#[derive(Debug, thiserror::Error)]
pub enum DiscoverError {
    #[error("{} does not exist", .0.display())]
    Missing(PathBuf),
    #[error("{} is a file: name the folder that holds the page images", .0.display())]
    NotAFolder(PathBuf),
    #[error("{} holds no page images (jpg, png, tif, webp, bmp, pnm), nor folders of them", .0.display())]
    NoImages(PathBuf),
    #[error("both {} and {} would be volume {volume}: name one of them with --w-id and --i-id", .first.display(), .second.display())]
    Ambiguous {
        volume: VolumeId,
        first: PathBuf,
        second: PathBuf,
    },
    #[error(transparent)]
    Name(#[from] InvalidName),
    #[error("{}: {source}", .path.display())]
    Io { path: PathBuf, source: std::io::Error },
}

/// Finds the volumes below `roots`: a folder of images is one volume, a folder of such folders is one volume each. Without
/// explicit ids, `W-I` or the folder's name gives the volume id, its parent the W id. Volumes come in the order of `roots`,
/// then by name.
///
/// # Errors
///
/// [`DiscoverError`] for a path that is no folder, holds no images, or gives no volume id.
pub fn discover_volumes(
    roots: &[PathBuf],
    w_id: Option<&str>,
    i_id: Option<&str>,
) -> Result<Vec<VolumeFolder>, DiscoverError> {
    let mut found: Vec<VolumeFolder> = Vec::new();
    let mut places: HashMap<VolumeId, usize> = HashMap::new();
    for root in roots {
        for folder in volume_folders(root)? {
            let named = if is_pdf(&folder) {
                folder.with_extension("")
            } else {
                folder.clone()
            };
            let volume = volume_id(&named, w_id, i_id)?;
            if let Some(first) = places.get(&volume).and_then(|place| found.get(*place)) {
                // A folder that is named twice, or once itself and once by its parent, is one volume.
                if first.folder == folder {
                    continue;
                }
                return Err(DiscoverError::Ambiguous {
                    volume,
                    first: first.folder.clone(),
                    second: folder,
                });
            }
            places.insert(volume.clone(), found.len());
            found.push(VolumeFolder { volume, folder });
        }
    }
    Ok(found)
}

/// Folders of images inside the volumes' own folders. They belong to no volume, which is worth a warning.
pub fn folders_left_out(volumes: &[VolumeFolder]) -> Vec<PathBuf> {
    let mut left_out: Vec<PathBuf> = volumes
        .iter()
        .filter_map(|found| std::fs::read_dir(&found.folder).ok())
        .flatten()
        .filter_map(|entry| Some(entry.ok()?.path()))
        .filter(|path| path.is_dir() && has_images(path).unwrap_or(false))
        .collect();
    left_out.sort();
    left_out
}

fn volume_folders(root: &Path) -> Result<Vec<PathBuf>, DiscoverError> {
    let io = |source| DiscoverError::Io {
        path: root.to_owned(),
        source,
    };
    if !root.exists() {
        return Err(DiscoverError::Missing(root.to_owned()));
    }
    // One path for one folder, however it was named, by which a repeated one is known.
    let root = root.canonicalize().map_err(io)?;
    if !root.is_dir() {
        if is_pdf(&root) {
            return Ok(vec![root]);
        }
        return Err(DiscoverError::NotAFolder(root.clone()));
    }
    let is_volume = has_images(&root)?;
    let mut folders: Vec<PathBuf> = is_volume.then(|| root.clone()).into_iter().collect();
    for entry in std::fs::read_dir(&root).map_err(io)? {
        let path = entry.map_err(io)?.path();
        if is_pdf(&path) || !is_volume && path.is_dir() && has_images(&path)? {
            folders.push(path);
        }
    }
    folders.sort();
    if folders.is_empty() {
        Err(DiscoverError::NoImages(root))
    } else {
        Ok(folders)
    }
}

fn is_pdf(path: &Path) -> bool {
    let extension = path.extension();
    path.is_file() && extension.is_some_and(|extension| extension.eq_ignore_ascii_case("pdf"))
}

fn has_images(folder: &Path) -> Result<bool, DiscoverError> {
    let io = |source| DiscoverError::Io {
        path: folder.to_owned(),
        source,
    };
    for entry in std::fs::read_dir(folder).map_err(io)? {
        let entry = entry.map_err(io)?;
        if is_image_name(&entry.file_name().to_string_lossy()) && entry.path().is_file() {
            return Ok(true);
        }
    }
    Ok(false)
}

/// Source of volumes in local folders.
#[derive(Debug, Clone, Default)]
pub struct FolderSource {
    folders: BTreeMap<VolumeId, PathBuf>,
    open: Arc<tokio::sync::Mutex<Option<(PathBuf, Document, String)>>>,
}

impl FolderSource {
    pub fn new(volumes: impl IntoIterator<Item = VolumeFolder>) -> Self {
        Self {
            folders: volumes
                .into_iter()
                .map(|found| (found.volume, found.folder))
                .collect(),
            open: Arc::default(),
        }
    }

    /// The PDF of a volume, which stays open until another one is asked for, and the hash of its file.
    async fn document(&self, volume: &VolumeId, path: &Path) -> Result<(Document, String), PageSourceError> {
        let mut open = self.open.lock().await;
        if let Some((of, document, version)) = &*open
            && of == path
        {
            return Ok((document.clone(), version.clone()));
        }
        let bytes = tokio::fs::read(path)
            .await
            .map_err(|error| unreadable(volume, "", &error))?;
        let bytes = Bytes::from(bytes);
        let opening = tokio::task::spawn_blocking(move || {
            let version = hex::encode(Sha256::digest(&bytes));
            Document::open(bytes, None, &Limits::default()).map(|document| (document, version))
        });
        let failed = |message: String| PageSourceError::Unreadable {
            volume: volume.clone(),
            page: path
                .file_name()
                .unwrap_or_default()
                .to_string_lossy()
                .into_owned(),
            message,
            category: ErrorCategory::Input,
        };
        let opened = opening.await.map_err(|error| failed(error.to_string()))?;
        let (document, version) = opened.map_err(|error| failed(error.to_string()))?;
        *open = Some((path.to_owned(), document.clone(), version.clone()));
        Ok((document, version))
    }

    fn folder(&self, volume: &VolumeId) -> Result<&PathBuf, PageSourceError> {
        self.folders
            .get(volume)
            .ok_or_else(|| PageSourceError::NoSuchVolume(volume.clone()))
    }
}

#[async_trait]
impl PageSource for FolderSource {
    async fn pages(&self, volume: &VolumeId) -> Result<Vec<PageRef>, PageSourceError> {
        let folder = self.folder(volume)?;
        if is_pdf(folder) {
            let (document, version) = self.document(volume, folder).await?;
            let page = |number| PageRef {
                name: format!("page_{number}"),
                size: 0,
                version: Some(version.clone()),
            };
            return Ok((1..=document.page_count()).map(page).collect());
        }
        let failed = |error: std::io::Error| unreadable(volume, "", &error);
        let mut entries = tokio::fs::read_dir(folder).await.map_err(failed)?;
        let mut pages = Vec::new();
        while let Some(entry) = entries.next_entry().await.map_err(failed)? {
            let Ok(name) = entry.file_name().into_string() else {
                continue;
            };
            let metadata = tokio::fs::metadata(entry.path()).await.map_err(failed)?;
            if metadata.is_file() && is_image_name(&name) {
                pages.push(PageRef {
                    name,
                    size: metadata.len(),
                    version: None,
                });
            }
        }
        pages.sort_by(|a, b| a.name.cmp(&b.name));
        Ok(pages)
    }

    async fn scan(&self, volume: &VolumeId, page: &PageRef) -> Result<Scan, PageSourceError> {
        let folder = self.folder(volume)?;
        if !is_pdf(folder) {
            return self.read(volume, page).await.map(Scan::Image);
        }
        let (document, _) = self.document(volume, folder).await?;
        let number = page
            .name
            .strip_prefix("page_")
            .and_then(|number| number.parse::<u32>().ok());
        match number {
            Some(number) if (1..=document.page_count()).contains(&number) => Ok(Scan::Pdf(PdfPage {
                document,
                index: number - 1,
            })),
            _ => Err(PageSourceError::NoSuchPage {
                volume: volume.clone(),
                page: page.name.clone(),
            }),
        }
    }

    async fn read(&self, volume: &VolumeId, page: &PageRef) -> Result<Bytes, PageSourceError> {
        // A listed name is one path segment; anything else did not come from `pages`.
        if Path::new(&page.name).file_name() != Some(page.name.as_ref()) {
            return Err(PageSourceError::NoSuchPage {
                volume: volume.clone(),
                page: page.name.clone(),
            });
        }
        match tokio::fs::read(self.folder(volume)?.join(&page.name)).await {
            Ok(bytes) => Ok(bytes.into()),
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => Err(PageSourceError::NoSuchPage {
                volume: volume.clone(),
                page: page.name.clone(),
            }),
            Err(error) => Err(unreadable(volume, &page.name, &error)),
        }
    }
}

fn unreadable(volume: &VolumeId, page: &str, error: &std::io::Error) -> PageSourceError {
    PageSourceError::Unreadable {
        volume: volume.clone(),
        page: page.to_owned(),
        message: error.to_string(),
        category: category(error),
    }
}

/// Category of an error of the file system: what lies in the file or the folder itself stays as it is, while anything else, such as a
/// stale handle of a network file system, may pass and is waited out like an outage, as it is for artifacts.
fn category(error: &std::io::Error) -> ErrorCategory {
    use std::io::ErrorKind::{
        InvalidData, InvalidFilename, InvalidInput, IsADirectory, NotADirectory, NotFound, PermissionDenied,
    };
    match error.kind() {
        NotFound | PermissionDenied | IsADirectory | NotADirectory | InvalidData | InvalidInput
        | InvalidFilename => ErrorCategory::Input,
        _ => ErrorCategory::Network,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn touch(path: PathBuf) {
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, b"x").unwrap();
    }

    #[test]
    fn images_below_a_volume_are_told_of() {
        let root = tempfile::tempdir().unwrap();
        for name in ["W1-I1/a.jpg", "W1-I1/more/b.jpg", "W1-I1/notes/x.txt"] {
            touch(root.path().join(name));
        }
        let volumes = discover_volumes(&[root.path().to_owned()], None, None).unwrap();
        let left_out = folders_left_out(&volumes);
        assert_eq!(left_out.len(), 1);
        assert!(left_out[0].ends_with("W1-I1/more"));
    }

    #[tokio::test]
    async fn folders_of_folders_are_volumes_and_junk_is_not_a_page() {
        let root = tempfile::tempdir().unwrap();
        for name in [
            "W1-I1/b.jpg",
            "W1-I1/a.TIF",
            "W1-I1/.jpg",
            "W1-I1/dimensions.json",
            "W1-I2/a.png",
            "notes/x.txt",
        ] {
            touch(root.path().join(name));
        }
        let volumes = discover_volumes(&[root.path().to_owned()], None, None).unwrap();
        assert_eq!(
            volumes.iter().map(|v| v.volume.to_string()).collect::<Vec<_>>(),
            ["W1-I1", "W1-I2"]
        );
        let source = FolderSource::new(volumes);
        let pages = source.pages(&"W1-I1".parse().unwrap()).await.unwrap();
        assert_eq!(
            pages.iter().map(|p| p.name.as_str()).collect::<Vec<_>>(),
            ["a.TIF", "b.jpg"]
        );
    }

    #[tokio::test]
    async fn a_page_name_cannot_leave_the_volume() {
        let root = tempfile::tempdir().unwrap();
        touch(root.path().join("v/a.jpg"));
        touch(root.path().join("secret.jpg"));
        let source =
            FolderSource::new(discover_volumes(&[root.path().join("v")], Some("W"), Some("I")).unwrap());
        let page = PageRef {
            name: "../secret.jpg".into(),
            size: 1,
            version: None,
        };
        let error = source.read(&"W-I".parse().unwrap(), &page).await.unwrap_err();
        assert!(matches!(error, PageSourceError::NoSuchPage { .. }));
    }

    #[tokio::test]
    async fn an_error_that_may_pass_is_not_blamed_on_the_page() {
        let volume: VolumeId = "W-I".parse().unwrap();
        let of = |kind: std::io::ErrorKind| unreadable(&volume, "a.jpg", &kind.into()).category();
        for kind in [
            std::io::ErrorKind::StaleNetworkFileHandle,
            std::io::ErrorKind::TimedOut,
            std::io::ErrorKind::Interrupted,
        ] {
            assert_eq!(of(kind), ErrorCategory::Network, "{kind}");
        }
        // EIO, which has no kind of its own.
        let broken = std::io::Error::from_raw_os_error(5);
        assert_eq!(
            unreadable(&volume, "a.jpg", &broken).category(),
            ErrorCategory::Network
        );
        assert_eq!(of(std::io::ErrorKind::PermissionDenied), ErrorCategory::Input);

        let root = tempfile::tempdir().unwrap();
        touch(root.path().join("v/a.jpg"));
        std::fs::create_dir(root.path().join("v/b.jpg")).unwrap();
        let source =
            FolderSource::new(discover_volumes(&[root.path().join("v")], Some("W"), Some("I")).unwrap());
        let folder = PageRef {
            name: "b.jpg".into(),
            size: 1,
            version: None,
        };
        let error = source.read(&volume, &folder).await.unwrap_err();
        assert_eq!(error.category(), ErrorCategory::Input);
    }

    #[test]
    fn two_folders_for_one_volume_are_refused() {
        let root = tempfile::tempdir().unwrap();
        touch(root.path().join("a/W1-I1/p.jpg"));
        touch(root.path().join("b/W1-I1/p.jpg"));
        let roots = [root.path().join("a"), root.path().join("b")];
        assert!(matches!(
            discover_volumes(&roots, None, None),
            Err(DiscoverError::Ambiguous { .. })
        ));
    }
}
