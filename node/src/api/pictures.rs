//! Pictures of scans, drawn within bounds: anybody who may read can ask for them, and a scan takes up to a gigabyte while it is decoded.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use async_trait::async_trait;
use bytes::Bytes;
use image::GrayImage;
use parkhang_actors::runner::CpuPool;
use parkhang_core::domain::{Generation, JobId, VolumeId};
use parkhang_models::page::decode::DecodeLimits;
use parkhang_store::pages::{PageRef, PageSource, PageSourceError, Scan};
use parkhang_store::storage::ArtifactStore;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio_util::sync::CancellationToken;

use super::answer::Denied;
use super::files::internal;
use crate::export::document::PageDocument;
use crate::export::{PictureError, StoredVolume, View, page_picture};

/// Scans that are decoded and drawn at the same time.
const TURNS: usize = 2;
/// Pixels of decoded pages that are kept, one byte each: whoever looks at a part of a page asks for the next part of it.
const KEPT: usize = 256 << 20;

/// Name of a page. What was made anew has another generation, as the page may have been straightened differently.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PageKey {
    pub job: JobId,
    pub volume: VolumeId,
    pub generation: Generation,
    /// Number from 1.
    pub number: usize,
}

/// Maker of pictures. Clones share its bounds.
#[derive(Debug, Clone)]
pub struct Pictures {
    cpu: CpuPool,
    turns: Arc<Semaphore>,
    kept: Arc<Mutex<Kept>>,
}

/// Decoded pages, the one that was asked for last in front.
#[derive(Debug, Default)]
struct Kept(VecDeque<(PageKey, Bytes)>);

/// Source of one page, whose scan it decodes once. What it gives is the pixels as they are, in the plainest of all formats.
#[derive(Debug)]
struct Decoded {
    scans: Arc<dyn PageSource>,
    pictures: Pictures,
    page: PageKey,
    /// Cancelled once nobody waits for the picture.
    gone: CancellationToken,
}

impl Pictures {
    /// Starts the threads that draw pictures.
    ///
    /// # Errors
    ///
    /// When the system gives no threads.
    pub fn new() -> std::io::Result<Self> {
        Ok(Self {
            cpu: CpuPool::new(TURNS, "pictures")?,
            turns: Arc::new(Semaphore::new(TURNS)),
            kept: Arc::default(),
        })
    }

    /// Returns a JPEG of a page; `None` if its scan cannot be reached or decoded.
    ///
    /// # Errors
    ///
    /// 422 if the view reaches beyond the scan.
    pub async fn of_page(
        &self,
        store: &Arc<dyn ArtifactStore>,
        stored: StoredVolume,
        (key, page): (PageKey, PageDocument),
        view: View,
    ) -> Result<Option<Vec<u8>>, Denied> {
        let gone = CancellationToken::new();
        let _waiting = gone.clone().drop_guard();
        let (pictures, store) = (self.clone(), store.clone());
        let scans = stored.scans.map(|scans| -> Arc<dyn PageSource> {
            Arc::new(Decoded {
                scans,
                pictures,
                page: key,
                gone,
            })
        });
        let stored = StoredVolume { scans, ..stored };
        let drawn = self.in_turn(async move { page_picture(&*store, &stored, &page, view).await });
        match drawn.await? {
            Ok(picture) => Ok(picture.map(|picture| picture.jpeg)),
            // A region outside of the scan is the request's fault, a store that cannot be reached is not.
            Err(PictureError::View(error)) => Err(Denied::invalid(error.to_string())),
            Err(PictureError::Scan(error)) => Err(internal(error)),
        }
    }

    /// Does work when its turn has come. The turn ends with the work, also where nobody waits for it any more: until then it takes memory.
    async fn in_turn<T: Send + 'static>(
        &self,
        work: impl Future<Output = T> + Send + 'static,
    ) -> Result<T, Denied> {
        let turn = self.turn().await;
        let work = tokio::spawn(async move {
            let _turn = turn;
            work.await
        });
        work.await.map_err(internal)
    }

    async fn turn(&self) -> Option<OwnedSemaphorePermit> {
        // Nobody closes the semaphore.
        self.turns.clone().acquire_owned().await.ok()
    }

    fn kept(&self) -> MutexGuard<'_, Kept> {
        // A list of pages cannot be left half changed.
        self.kept.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Kept {
    fn find(&mut self, key: &PageKey) -> Option<Bytes> {
        let place = self.0.iter().position(|(known, _)| known == key)?;
        let found = self.0.remove(place)?;
        let pixels = found.1.clone();
        self.0.push_front(found);
        Some(pixels)
    }

    fn keep(&mut self, key: PageKey, pixels: Bytes) {
        self.0.retain(|(known, _)| *known != key);
        self.0.push_front((key, pixels));
        let mut bytes = 0;
        self.0.retain(|(_, pixels)| {
            bytes += pixels.len();
            bytes <= KEPT
        });
    }
}

#[async_trait]
impl PageSource for Decoded {
    async fn pages(&self, volume: &VolumeId) -> Result<Vec<PageRef>, PageSourceError> {
        self.scans.pages(volume).await
    }

    async fn read(&self, volume: &VolumeId, page: &PageRef) -> Result<Scan, PageSourceError> {
        let known = self.pictures.kept().find(&self.page);
        if let Some(pixels) = known {
            return Ok(Scan::Image(pixels));
        }
        let scan = self.scans.read(volume, page).await?;
        // A page of a PDF is drawn as small as it is wanted.
        if scan.image().is_none() {
            return Ok(scan);
        }
        let gone = self.gone.clone();
        let decoded = self.pictures.cpu.run(move |flag| {
            let is_over = || flag.is_cancelled() || gone.is_cancelled();
            let pixels = scan.pixels(&DecodeLimits::default(), &is_over).ok()?;
            Some(plain(&pixels.page.gray))
        });
        match decoded.await {
            Ok(Some(pixels)) => {
                self.pictures.kept().keep(self.page.clone(), pixels.clone());
                Ok(Scan::Image(pixels))
            }
            // What has no bytes has no picture either.
            Ok(None) => Ok(Scan::Image(Bytes::new())),
            Err(error) => Err(PageSourceError::Unreadable {
                volume: volume.clone(),
                page: page.name.clone(),
                message: error.to_string(),
                category: error.category(),
            }),
        }
    }
}

/// A page as a PGM file: a head, and the pixels as they are.
fn plain(page: &GrayImage) -> Bytes {
    let mut file = format!("P5\n{} {}\n255\n", page.width(), page.height()).into_bytes();
    file.extend_from_slice(page.as_raw());
    file.into()
}

#[cfg(test)]
mod tests {
    use std::io::Cursor;

    use image::{ImageFormat, Luma, load_from_memory};
    use parkhang_core::domain::testing;
    use parkhang_store::pages::{FolderSource, FoundVolume, VolumeKind};
    use parkhang_store::storage::LocalStore;
    use tokio::sync::oneshot;

    use super::*;
    use crate::admin::Library;
    use crate::export::scanned::Scanned;

    fn png(page: &GrayImage) -> Vec<u8> {
        let mut file = Cursor::new(Vec::new());
        page.write_to(&mut file, ImageFormat::Png).unwrap();
        file.into_inner()
    }

    fn view(region: &str, width: &str) -> View {
        View {
            region: region.parse().ok(),
            width: width.parse().ok(),
        }
    }

    #[tokio::test]
    async fn a_page_is_decoded_once_for_all_its_parts() {
        let folder = tempfile::tempdir().unwrap();
        let scans = folder.path().join("W1-I1");
        std::fs::create_dir(&scans).unwrap();
        // White on the left, black on the right.
        let page = GrayImage::from_fn(4000, 1000, |x, _| Luma([if x < 2000 { 255 } else { 0 }]));
        std::fs::write(scans.join("p1.png"), png(&page)).unwrap();
        let (job, task) = (testing::job(), testing::task(1));
        let volume: VolumeId = "W1-I1".parse().unwrap();
        let source = FolderSource::new([FoundVolume {
            volume: volume.clone(),
            place: scans.clone(),
            kind: VolumeKind::Folder,
        }]);
        let stored = StoredVolume {
            volume: volume.clone(),
            layout: Library::layout(&job, &volume),
            scans: Some(Arc::new(source)),
            place: None,
        };
        let store = LocalStore::open(folder.path().join("artifacts")).await.unwrap();
        let store: Arc<dyn ArtifactStore> = Arc::new(store);
        let document = PageDocument {
            image_name: "p1".to_owned(),
            source_name: "p1.png".to_owned(),
            width: 4000,
            height: 1000,
            lines: Vec::new(),
            regions: Vec::new(),
            error: None,
            scanned: Scanned::default(),
        };
        let key = PageKey {
            job: job.id,
            volume,
            generation: task.generation,
            number: 1,
        };
        let pictures = Pictures::new().unwrap();
        let asked = async |key: &PageKey, view| {
            let page = (key.clone(), document.clone());
            let made = pictures.of_page(&store, stored.clone(), page, view);
            let jpeg = made.await.map_err(|denied| denied.message)?;
            Ok::<_, String>(jpeg.map(|jpeg| load_from_memory(&jpeg).unwrap().into_luma8()))
        };
        let whole = asked(&key, View::default()).await.unwrap().unwrap();
        assert_eq!(whole.dimensions(), (1600, 400));
        // Whoever decodes it again finds no file.
        std::fs::remove_file(scans.join("p1.png")).unwrap();
        let part = asked(&key, view("1900,10,200,100", "6000"))
            .await
            .unwrap()
            .unwrap();
        assert_eq!(part.dimensions(), (200, 100), "nothing is enlarged");
        assert!(part.get_pixel(50, 50).0[0] > 200 && part.get_pixel(150, 50).0[0] < 50);
        let small = asked(&key, view("1900,10,200,100", "50")).await.unwrap().unwrap();
        assert_eq!(small.dimensions(), (50, 25));
        let beyond = asked(&key, view("4000,0,1,1", "")).await.unwrap_err();
        assert!(beyond.contains("reaches beyond the scan"), "{beyond}");
        let other = PageKey {
            generation: Generation(key.generation.0 + 1),
            ..key
        };
        assert_eq!(asked(&other, View::default()).await.unwrap(), None);
    }

    #[test]
    fn so_many_pixels_are_kept() {
        let page = |bytes: usize| Bytes::from(vec![0; bytes]);
        let key = |number| PageKey {
            job: JobId(1),
            volume: "W1-I1".parse().unwrap(),
            generation: Generation(1),
            number,
        };
        let mut kept = Kept::default();
        for number in 1..=3 {
            kept.keep(key(number), page(KEPT / 2));
            assert!(kept.find(&key(1)).is_some(), "it was asked for last but one");
        }
        assert!(kept.find(&key(2)).is_none() && kept.find(&key(3)).is_some());
        kept.keep(key(4), page(KEPT + 1));
        assert_eq!(kept.0.len(), 0, "one that is too large is not kept");
    }

    #[tokio::test]
    async fn what_nobody_waits_for_takes_its_turn_until_it_ends() {
        let pictures = Pictures::new().unwrap();
        let mut releases = Vec::new();
        for _ in 0..TURNS {
            let (begin, begun) = oneshot::channel();
            let (release, released) = oneshot::channel::<()>();
            let pictures = pictures.clone();
            let client = tokio::spawn(async move {
                let work = async {
                    begin.send(()).unwrap();
                    let _ = released.await;
                };
                pictures.in_turn(work).await
            });
            begun.await.unwrap();
            // Its client hangs up.
            client.abort();
            assert!(client.await.unwrap_err().is_cancelled());
            releases.push(release);
        }
        let next = pictures.turn();
        tokio::pin!(next);
        assert!(futures::poll!(&mut next).is_pending());
        releases.pop();
        assert!(next.await.is_some());
    }

    /// A scan that is read when somebody says so.
    #[derive(Debug)]
    struct Slow(Mutex<Option<(oneshot::Sender<()>, oneshot::Receiver<Scan>)>>);

    #[async_trait]
    impl PageSource for Slow {
        async fn pages(&self, _: &VolumeId) -> Result<Vec<PageRef>, PageSourceError> {
            Ok(Vec::new())
        }

        async fn read(&self, _: &VolumeId, _: &PageRef) -> Result<Scan, PageSourceError> {
            let (begin, scan) = self.0.lock().unwrap().take().unwrap();
            begin.send(()).unwrap();
            Ok(scan.await.unwrap())
        }
    }

    /// Strips of a TIFF are decoded one by one, between which it is asked whether anybody waits.
    #[tokio::test]
    async fn a_scan_that_nobody_waits_for_is_not_decoded() {
        let pictures = Pictures::new().unwrap();
        let (begin, begun) = oneshot::channel();
        let (give, scan) = oneshot::channel();
        let gone = CancellationToken::new();
        let page = PageKey {
            job: JobId(1),
            volume: "W1-I1".parse().unwrap(),
            generation: Generation(1),
            number: 1,
        };
        let source = Decoded {
            scans: Arc::new(Slow(Mutex::new(Some((begin, scan))))),
            pictures: pictures.clone(),
            page: page.clone(),
            gone: gone.clone(),
        };
        let wanted = PageRef::named("p1.tif");
        let volume = page.volume.clone();
        let read = tokio::spawn(async move { source.read(&volume, &wanted).await });
        begun.await.unwrap();
        gone.cancel();
        let file = include_bytes!("../../../tests/fixtures/sample/W0PARKHANG-I0SAMPLE/mme_img2.tif");
        give.send(Scan::Image(Bytes::from_static(file))).unwrap();
        let read = read.await.unwrap().unwrap();
        assert_eq!(read.image().map(Bytes::len), Some(0));
        assert_eq!(pictures.kept().find(&page), None);
    }
}
