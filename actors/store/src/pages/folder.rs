use std::collections::{BTreeMap, HashMap};
use std::path::{Path, PathBuf};

use async_trait::async_trait;

use super::names::{is_image_name, is_pdf_name, volume_id};
use super::pdf::{OpenPdf, OpenPdfs, max_bytes, too_long};
use super::{MAX_SCAN, PageRef, PageSource, PageSourceError, Scan};
use crate::storage;
use parkhang_core::domain::{ErrorCategory, InvalidName, VolumeId};

/// Number of entries of a folder that are tried until one can be opened.
const NEIGHBOURS: usize = 16;

/// Kinds of places that are a volume.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum VolumeKind {
    /// Folder of images.
    Folder,
    /// PDF file, whose pages are those of the volume.
    Pdf,
    /// Image file, the only page of its volume.
    Image,
}

impl VolumeKind {
    /// Returns what a path is, by its name and by what lies there; `None` for a file of another kind, and for nothing.
    pub fn of(path: &Path) -> Option<Self> {
        if path.is_dir() {
            return Some(Self::Folder);
        }
        let name = path.file_name()?.to_string_lossy();
        if !path.is_file() {
            None
        } else if is_pdf_name(&name) {
            Some(Self::Pdf)
        } else {
            is_image_name(&name).then_some(Self::Image)
        }
    }
}

/// Volume with its place on the disk.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FoundVolume {
    pub volume: VolumeId,
    pub place: PathBuf,
    pub kind: VolumeKind,
}

/// Reason for which a path cannot be taken as volumes.
#[derive(Debug, thiserror::Error)]
pub enum DiscoverError {
    #[error("{} does not exist", .0.display())]
    Missing(PathBuf),
    #[error("{} is neither an image (jpg, png, tif, webp, bmp, pnm) nor a PDF", .0.display())]
    UnknownFile(PathBuf),
    #[error("{} holds no page images (jpg, png, tif, webp, bmp, pnm) and no PDFs, nor folders of them", .0.display())]
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

/// Finds the volumes below `roots`: a folder of images is one volume, a folder of such folders is one volume each; a PDF is a volume, also
/// one that lies in a folder, and an image file that is named itself. Without explicit ids, `W-I` or the name of the folder or of the file
/// without its ending gives the volume id, its parent the W id. Volumes come in the order of `roots`, then by name.
///
/// # Errors
///
/// [`DiscoverError`] for a path that is no such folder or file, or gives no volume id.
pub fn discover_volumes(
    roots: &[PathBuf],
    w_id: Option<&str>,
    i_id: Option<&str>,
) -> Result<Vec<FoundVolume>, DiscoverError> {
    let mut found: Vec<FoundVolume> = Vec::new();
    let mut places: HashMap<VolumeId, usize> = HashMap::new();
    for root in roots {
        for (place, kind) in volume_places(root)? {
            let named = match kind {
                VolumeKind::Folder => place.clone(),
                VolumeKind::Pdf | VolumeKind::Image => place.with_extension(""),
            };
            let volume = volume_id(&named, w_id, i_id)?;
            if let Some(first) = places.get(&volume).and_then(|place| found.get(*place)) {
                // A folder that is named twice, or once itself and once by its parent, is one volume.
                if first.place == place {
                    continue;
                }
                return Err(DiscoverError::Ambiguous {
                    volume,
                    first: first.place.clone(),
                    second: place,
                });
            }
            places.insert(volume.clone(), found.len());
            found.push(FoundVolume { volume, place, kind });
        }
    }
    Ok(found)
}

/// Folders of images inside the volumes' own folders. They belong to no volume, which is worth a warning.
pub fn folders_left_out(volumes: &[FoundVolume]) -> Vec<PathBuf> {
    let mut left_out: Vec<PathBuf> = volumes
        .iter()
        .filter_map(|found| std::fs::read_dir(&found.place).ok())
        .flatten()
        .filter_map(|entry| Some(entry.ok()?.path()))
        .filter(|path| path.is_dir() && has_images(path).unwrap_or(false))
        .collect();
    left_out.sort();
    left_out
}

fn volume_places(root: &Path) -> Result<Vec<(PathBuf, VolumeKind)>, DiscoverError> {
    let io = |source| DiscoverError::Io {
        path: root.to_owned(),
        source,
    };
    if !root.exists() {
        return Err(DiscoverError::Missing(root.to_owned()));
    }
    let kind = VolumeKind::of(root).ok_or_else(|| DiscoverError::UnknownFile(root.to_owned()))?;
    // One path for one place, however it was named, by which a repeated one is known.
    let root = root.canonicalize().map_err(io)?;
    if kind != VolumeKind::Folder {
        return Ok(vec![(root, kind)]);
    }
    let mut places = pdfs_in(&root)?;
    if has_images(&root)? {
        places.insert(0, (root, VolumeKind::Folder));
        return Ok(places);
    }
    for entry in std::fs::read_dir(&root).map_err(io)? {
        let path = entry.map_err(io)?.path();
        if !path.is_dir() {
            continue;
        }
        places.extend(pdfs_in(&path)?);
        if has_images(&path)? {
            places.push((path, VolumeKind::Folder));
        }
    }
    places.sort();
    if places.is_empty() {
        Err(DiscoverError::NoImages(root))
    } else {
        Ok(places)
    }
}

/// The PDFs in a folder, by name.
fn pdfs_in(folder: &Path) -> Result<Vec<(PathBuf, VolumeKind)>, DiscoverError> {
    let io = |source| DiscoverError::Io {
        path: folder.to_owned(),
        source,
    };
    let mut pdfs = Vec::new();
    for entry in std::fs::read_dir(folder).map_err(io)? {
        let path = entry.map_err(io)?.path();
        if VolumeKind::of(&path) == Some(VolumeKind::Pdf) {
            pdfs.push((path, VolumeKind::Pdf));
        }
    }
    pdfs.sort();
    Ok(pdfs)
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

/// Source of volumes in local folders and files.
#[derive(Debug, Clone, Default)]
pub struct FolderSource {
    places: BTreeMap<VolumeId, (PathBuf, VolumeKind)>,
    pdfs: OpenPdfs,
}

impl FolderSource {
    pub fn new(volumes: impl IntoIterator<Item = FoundVolume>) -> Self {
        Self {
            places: volumes
                .into_iter()
                .map(|found| (found.volume, (found.place, found.kind)))
                .collect(),
            pdfs: OpenPdfs::default(),
        }
    }

    fn place(&self, volume: &VolumeId) -> Result<(&Path, VolumeKind), PageSourceError> {
        let unknown = || PageSourceError::NoSuchVolume(volume.clone());
        let (place, kind) = self.places.get(&volume.document()).ok_or_else(unknown)?;
        // Only a document has parts.
        if *kind != VolumeKind::Pdf && volume.pages().is_some() {
            return Err(unknown());
        }
        Ok((place, *kind))
    }

    /// Opens a PDF anew. One that is too long is not read.
    async fn pdf(&self, volume: &VolumeId, place: &Path) -> Result<OpenPdf, PageSourceError> {
        let name = place.to_string_lossy();
        let failed = |error: std::io::Error| unreadable(volume, &name, place, &error);
        let read = read_within(place, max_bytes()).await.map_err(failed)?;
        let bytes = read.map_err(|length| too_long(volume, &name, length))?;
        self.pdfs.open(volume, &name, bytes.into()).await
    }
}

#[async_trait]
impl PageSource for FolderSource {
    async fn pages(&self, volume: &VolumeId) -> Result<Vec<PageRef>, PageSourceError> {
        let (place, kind) = self.place(volume)?;
        let failed = |error: std::io::Error| unreadable(volume, "", place, &error);
        match kind {
            VolumeKind::Pdf => return Ok(self.pdf(volume, place).await?.pages(volume)),
            VolumeKind::Image => {
                let size = tokio::fs::metadata(place).await.map_err(failed)?.len();
                let name = place
                    .file_name()
                    .unwrap_or_default()
                    .to_string_lossy()
                    .into_owned();
                let version = None;
                return Ok(vec![PageRef { name, size, version }]);
            }
            VolumeKind::Folder => {}
        }
        let mut entries = tokio::fs::read_dir(place).await.map_err(failed)?;
        let mut pages = Vec::new();
        let mut is_empty = true;
        while let Some(entry) = entries.next_entry().await.map_err(failed)? {
            is_empty = false;
            let Ok(name) = entry.file_name().into_string() else {
                continue;
            };
            let metadata = match tokio::fs::metadata(entry.path()).await {
                Ok(metadata) => metadata,
                // Removed since the folder was read, or a link to nothing.
                Err(error) if error.kind() == std::io::ErrorKind::NotFound => continue,
                Err(error) => return Err(failed(error)),
            };
            if metadata.is_file() && is_image_name(&name) {
                pages.push(PageRef {
                    name,
                    size: metadata.len(),
                    version: None,
                });
            }
        }
        // It held images when it was found.
        if is_empty {
            return Err(failed(std::io::Error::other(
                "the folder is empty: is it mounted?",
            )));
        }
        pages.sort_by(|a, b| a.name.cmp(&b.name));
        Ok(pages)
    }

    async fn is_pdf(&self, volume: &VolumeId) -> Result<bool, PageSourceError> {
        Ok(self.place(volume)?.1 == VolumeKind::Pdf)
    }

    async fn read(&self, volume: &VolumeId, page: &PageRef) -> Result<Scan, PageSourceError> {
        let missing = || PageSourceError::NoSuchPage {
            volume: volume.clone(),
            page: page.name.clone(),
        };
        // A listed name is one path segment; anything else did not come from `pages`.
        if Path::new(&page.name).file_name() != Some(page.name.as_ref()) {
            return Err(missing());
        }
        let (place, kind) = self.place(volume)?;
        let file = match kind {
            VolumeKind::Folder => place.join(&page.name),
            VolumeKind::Image if place.file_name() == Some(page.name.as_ref()) => place.to_owned(),
            VolumeKind::Image => return Err(missing()),
            VolumeKind::Pdf => {
                let open = self.pdfs.find(&place.to_string_lossy(), page.version.as_deref());
                let pdf = match open {
                    Some(open) => open,
                    None => self.pdf(volume, place).await?,
                };
                return pdf.page(&page.name).ok_or_else(missing);
            }
        };
        match read_within(&file, MAX_SCAN).await {
            Ok(Ok(bytes)) => Ok(Scan::Image(bytes.into())),
            Ok(Err(size)) => Err(page.too_large(volume, size)),
            Err(error) if error.kind() == std::io::ErrorKind::NotFound && has_neighbour(&file) => {
                Err(missing())
            }
            Err(error) => Err(unreadable(volume, &page.name, &file, &error)),
        }
    }
}

/// Reads a file as [`storage::read_within`] does, off the async threads.
async fn read_within(file: &Path, limit: u64) -> std::io::Result<Result<Vec<u8>, u64>> {
    let path = file.to_owned();
    let read = move || {
        let file = std::fs::File::open(path)?;
        let length = file.metadata()?.len();
        storage::read_within(file, length, limit)
    };
    // Fails when the process is shutting down.
    let read = tokio::task::spawn_blocking(read).await;
    read.map_err(std::io::Error::other)?
}

fn unreadable(volume: &VolumeId, page: &str, place: &Path, error: &std::io::Error) -> PageSourceError {
    PageSourceError::Unreadable {
        volume: volume.clone(),
        page: page.to_owned(),
        message: error.to_string(),
        category: category(place, error),
    }
}

/// Category of an error of the file system at `place`: what lies in the file or the folder itself stays as it is, while anything else, such
/// as a stale handle of a network file system, may pass and is waited out like an outage, as it is for artifacts.
fn category(place: &Path, error: &std::io::Error) -> ErrorCategory {
    use std::io::ErrorKind::{
        InvalidData, InvalidFilename, InvalidInput, IsADirectory, NotADirectory, NotFound, PermissionDenied,
    };
    match error.kind() {
        IsADirectory | NotADirectory | InvalidData | InvalidInput | InvalidFilename => ErrorCategory::Input,
        // The same is met where the file system is not mounted any more, or does not know who asks: then by all that lies there.
        NotFound | PermissionDenied if has_neighbour(place) => ErrorCategory::Input,
        _ => ErrorCategory::Network,
    }
}

/// True if something else that lies beside `place` can be opened.
fn has_neighbour(place: &Path) -> bool {
    let beside = place.parent().and_then(|folder| std::fs::read_dir(folder).ok());
    let others = beside.into_iter().flatten().flatten().map(|entry| entry.path());
    others
        .filter(|other| other != place)
        .take(NEIGHBOURS)
        .any(|other| std::fs::File::open(other).is_ok())
}

#[cfg(test)]
mod tests;
