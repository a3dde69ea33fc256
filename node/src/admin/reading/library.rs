//! Access of the commands to artifacts and scans, with a small cache of documents.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, PoisonError};

use parkhang_core::domain::{Generation, Job, Position, Task, TaskStatus, VolumeId};
use parkhang_core::policy::correction::PageCorrections;
use parkhang_state::PostgresStore;
use parkhang_store::artifact::{ArtifactLayout, VolumeLayout};
use parkhang_store::pages::{PageSource, source_of};
use parkhang_store::storage::{ArtifactStore, ObjectMeta};
use tokio::sync::OnceCell;
use tracing::warn;

use super::computing::Computing;
use super::pages::page;
use crate::admin::Refusal;
use crate::config::Loaded;
use crate::export::document::{PageDocument, VolumeDocument};
use crate::export::{CorrectedPage, CorrectedVolume, StoredVolume, load_volume};
use crate::storage::{artifacts, page_source};

/// Number of volumes kept in memory: a reader who turns pages asks for the same one again and again.
const KEPT: usize = 8;

/// Artifact store and scans of a cluster, opened when they are first needed.
#[derive(Debug)]
pub struct Library {
    loaded: Arc<Loaded>,
    store: OnceCell<Arc<dyn ArtifactStore>>,
    scans: OnceCell<Arc<dyn PageSource>>,
    kept: Mutex<VecDeque<Kept>>,
    computing: Computing,
}

/// Document in the cache, with the version of the results that it was made from.
#[derive(Debug)]
struct Kept {
    key: String,
    version: Version,
    document: Arc<VolumeDocument>,
}

/// Version of a volume's results. A document is made of several tables, and a store may know no more of a table than its size,
/// which a rerun need not change. So it goes by the place of the task: a stage that has written its tables moves the task on, and one that
/// runs again raises the generation.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Version {
    generation: Generation,
    position: Position,
    status: TaskStatus,
    /// Table of the texts, which may also be written by a program that does not know the task.
    texts: ObjectMeta,
}

impl Library {
    pub fn new(loaded: Arc<Loaded>) -> Self {
        Self {
            loaded,
            store: OnceCell::new(),
            scans: OnceCell::new(),
            kept: Mutex::default(),
            computing: Computing::default(),
        }
    }

    /// Computes something about lines in its turn, off the async threads.
    ///
    /// # Errors
    ///
    /// If it panics.
    pub async fn compute<T: Send + 'static>(
        &self,
        work: impl FnOnce() -> T + Send + 'static,
    ) -> Result<T, Refusal> {
        Ok(self.computing.run(work).await?)
    }

    pub async fn store(&self) -> Result<&Arc<dyn ArtifactStore>, Refusal> {
        Ok(self.store.get_or_try_init(|| artifacts(&self.loaded)).await?)
    }

    /// Returns the keys of a volume's artifacts.
    pub fn layout(job: &Job, volume: &VolumeId) -> VolumeLayout {
        ArtifactLayout::of(&job.config, &job.key).volume(volume)
    }

    /// Returns the places of the artifacts and scans of a task's volume.
    pub async fn stored(&self, job: &Job, task: &Task) -> StoredVolume {
        let volume = &task.volume;
        // A source that cannot be opened counts as none, because texts are readable without scans. It is tried again the next time, as what
        // keeps it from being opened may pass.
        let scans = self
            .scans
            .get_or_try_init(|| page_source(&self.loaded.config.pages))
            .await
            .inspect_err(|error| warn!(error = format!("{error:#}"), "the scans cannot be reached"));
        StoredVolume {
            volume: volume.clone(),
            layout: Self::layout(job, volume),
            scans: scans
                .ok()
                .and_then(|scans| source_of(scans, volume, task.document.as_ref()).ok()),
            place: None,
        }
    }

    /// Returns the text of the volume of a task as it was read.
    ///
    /// # Errors
    ///
    /// [`Refusal::NotFound`] if the volume has not been read yet.
    pub async fn document(&self, job: &Job, task: &Task) -> Result<Arc<VolumeDocument>, Refusal> {
        let store = self.store().await?;
        let volume = &task.volume;
        let stored = StoredVolume {
            volume: volume.clone(),
            layout: Self::layout(job, volume),
            // The text is made without scans, which need not be in reach.
            scans: None,
            place: None,
        };
        let (mut key, mut head) = (stored.layout.words(), None);
        for table in [
            stored.layout.words(),
            stored.layout.clean_results(),
            stored.layout.ocr_results(),
        ] {
            head = store.head(&table).await.map_err(anyhow::Error::from)?;
            if head.is_some() {
                key = table;
                break;
            }
        }
        let no_text = || Refusal::NotFound(format!("{volume} of job {} has no text yet", job.key));
        let version = Version {
            generation: task.generation,
            position: task.position.clone(),
            status: task.status,
            texts: head.ok_or_else(no_text)?,
        };
        let key = key.to_string();
        if let Some(document) = self.find(&key, &version) {
            return Ok(document);
        }
        let document = load_volume(&**store, &stored).await?.ok_or_else(no_text)?;
        let document = Arc::new(document);
        self.keep(Kept {
            key,
            version,
            document: document.clone(),
        });
        Ok(document)
    }

    /// Returns the text of the volume of a task with the corrections of people.
    ///
    /// # Errors
    ///
    /// [`Refusal::NotFound`] if the volume has not been read yet.
    pub async fn corrected(
        &self,
        state: &PostgresStore,
        job: &Job,
        task: &Task,
    ) -> Result<CorrectedVolume, Refusal> {
        let document = self.document(job, task).await?;
        let corrections = state.corrections(&task.volume).await?;
        // Nothing is to be compared in most volumes, which need not wait for others.
        if corrections.is_empty() {
            return Ok(CorrectedVolume::new(document, corrections));
        }
        self.compute(move || CorrectedVolume::new(document, corrections))
            .await
    }

    /// Returns a page of the volume of a task as it was read, and its number, counted from 1, which `number` tells of the volume.
    ///
    /// # Errors
    ///
    /// [`Refusal::NotFound`] if the volume has no such page, or has not been read yet, and whatever `number` refuses.
    pub async fn page(
        &self,
        (job, task): (&Job, &Task),
        number: impl FnOnce(&VolumeDocument) -> Result<usize, Refusal>,
    ) -> Result<(usize, PageDocument), Refusal> {
        let document = self.document(job, task).await?;
        let number = number(&document)?;
        Ok((number, page(&document, &task.volume, number)?.clone()))
    }

    /// Returns a page as [`Self::page`] does, with the corrections of people.
    ///
    /// # Errors
    ///
    /// Those of [`Self::page`].
    pub async fn corrected_page(
        &self,
        state: &PostgresStore,
        (job, task): (&Job, &Task),
        number: impl FnOnce(&VolumeDocument) -> Result<usize, Refusal>,
    ) -> Result<(usize, CorrectedPage), Refusal> {
        let (number, page) = self.page((job, task), number).await?;
        // Those of the page alone: a volume may have thousands of them.
        let corrections = state.corrections_of_page(&task.volume, &page.image_name).await?;
        Ok((number, self.correct(page, corrections).await?))
    }

    /// Puts corrections in the place of what was read of a page.
    ///
    /// # Errors
    ///
    /// If that panics.
    pub async fn correct(
        &self,
        page: PageDocument,
        corrections: PageCorrections,
    ) -> Result<CorrectedPage, Refusal> {
        if corrections.corrections.is_empty() {
            return Ok(CorrectedPage::new(page, &corrections));
        }
        self.compute(move || CorrectedPage::new(page, &corrections)).await
    }

    fn find(&self, key: &str, version: &Version) -> Option<Arc<VolumeDocument>> {
        let mut kept = self.kept.lock().unwrap_or_else(PoisonError::into_inner);
        let place = kept.iter().position(|kept| kept.key == key)?;
        let found = kept.remove(place)?;
        // A rerun has replaced the results since; the outdated document was taken out above.
        if found.version != *version {
            return None;
        }
        let document = found.document.clone();
        kept.push_front(found);
        Some(document)
    }

    fn keep(&self, document: Kept) {
        let mut kept = self.kept.lock().unwrap_or_else(PoisonError::into_inner);
        // Two readers may have loaded the same volume at the same time; one document is enough.
        kept.retain(|kept| kept.key != document.key);
        kept.push_front(document);
        kept.truncate(KEPT);
    }
}

#[cfg(test)]
mod tests {
    use parkhang_core::domain::testing;

    use super::*;
    use crate::config::ConfigArgs;

    fn library(settings: &[String]) -> Library {
        let loaded = Loaded::read(&ConfigArgs {
            set: settings.to_vec(),
            ..ConfigArgs::default()
        });
        Library::new(Arc::new(loaded.unwrap()))
    }

    #[tokio::test]
    async fn a_document_is_kept_until_its_task_moves_on() {
        let folder = tempfile::tempdir().unwrap();
        let library = library(&[format!("storage.folder={}", folder.path().display())]);
        let (job, task) = (testing::job(), testing::task_at(1, "reduce", TaskStatus::Pending));
        let key = Library::layout(&job, &task.volume).ocr_results();
        let store = library.store().await.unwrap();
        store.put(&key, "no table".into()).await.unwrap();
        library.keep(Kept {
            key: key.to_string(),
            version: Version {
                generation: task.generation,
                position: task.position.clone(),
                status: task.status,
                texts: store.head(&key).await.unwrap().unwrap(),
            },
            document: Arc::new(VolumeDocument {
                w_id: "W1".to_owned(),
                i_id: "I1".to_owned(),
                pages: Vec::new(),
            }),
        });
        library.document(&job, &task).await.unwrap();

        // What has been written since is as long as what it replaced; that it is no table shows that it was read.
        let again = Task {
            generation: Generation(task.generation.0 + 1),
            ..task
        };
        let read = library.document(&job, &again).await;
        assert!(matches!(read, Err(Refusal::Internal(_))), "{read:?}");
    }

    #[tokio::test]
    async fn scans_that_could_not_be_opened_are_tried_again() {
        let folder = tempfile::tempdir().unwrap();
        let intro = folder.path().join("intro.json");
        std::fs::write(&intro, "W1-I1 2\n").unwrap();
        let library = library(&[
            "pages.kind=bdrc".to_owned(),
            format!("pages.folder={}", folder.path().display()),
            format!("pages.intro_pages_file={}", intro.display()),
        ]);
        let (job, task) = (testing::job(), testing::task(1));
        std::fs::remove_file(&intro).unwrap();
        assert!(library.stored(&job, &task).await.scans.is_none());
        std::fs::write(&intro, "W1-I1 2\n").unwrap();
        assert!(library.stored(&job, &task).await.scans.is_some());
    }
}
