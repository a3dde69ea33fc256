//! `volumes import`: lists of images into the database.

use std::collections::HashSet;
use std::path::PathBuf;

use async_trait::async_trait;
use chrono::Utc;
use clap::Args;
use futures::{StreamExt, stream};
use indicatif::ProgressBar;
use parkhang_core::domain::VolumeId;
use parkhang_state::{ImportOutcome, PostgresStore, VolumeImport, VolumeQuery};
use parkhang_store::pages::{BdrcArchive, ImageList};
use serde::Serialize;
use tokio::sync::mpsc;
use utoipa::ToSchema;

use super::lists::{ListPlace, Reading, find};
use super::volumes_of_list;
use crate::admin::command::{Access, Answer, Command, Verb};
use crate::admin::skipped::{Skipped, SkippedCounts};
use crate::admin::{Admin, Refusal};
use crate::bar::bar;
use crate::storage::{VolumeArgs, archive};
use crate::words::pluralize;

/// Lists read concurrently.
const READS: usize = 32;
/// Volumes whose known versions are read in one query.
const ASKED: usize = 1_000;
/// Images written in one transaction.
const BATCH_IMAGES: usize = 20_000;
/// Volumes written in one transaction, if they have few images.
const BATCH_VOLUMES: usize = 1_000;

/// Import the lists of images (dimensions.json) of volumes into the database.
///
/// The lists come from files and folders or, if the scans are in BDRC's archive, from the archive by volume or collection. Without any
/// argument, the lists of all known volumes are checked again. Lists whose version is known already are not read again, no scan is
/// read, and no job is created. Entries that name no image of the volume are left out and counted.
/// Example: `volumes import --collection W22084`.
#[derive(Debug, Args)]
pub struct Import {
    /// A list, or a folder with lists at any depth: dimensions.json in a folder W-I, or W-I.json, gzipped or not.
    #[arg(value_name = "PATH")]
    paths: Vec<PathBuf>,
    #[command(flatten)]
    volumes: VolumeArgs,
    /// All volumes named by a list in the artifact store.
    #[arg(long, value_name = "KEY")]
    manifest: Option<String>,
    /// All volumes of this collection (W); may be repeated.
    #[arg(long, value_name = "W")]
    collection: Vec<String>,
    /// Show what would be done, and change nothing.
    #[arg(long)]
    dry_run: bool,
}

/// Result of an import, or of a dry run of one.
#[derive(Debug, Default, Serialize, ToSchema)]
pub struct Imported {
    /// True if this is a dry run.
    dry_run: bool,
    /// Volumes that were not known before.
    new: u64,
    /// Volumes that were known in another version.
    changed: u64,
    /// Volumes that were known in this version.
    unchanged: u64,
    /// Images of the new and changed volumes.
    images: u64,
    /// Entries of lists that name no image of the volume.
    junk: Vec<Skipped>,
    /// Volumes whose lists could not be read.
    failed: Vec<Skipped>,
}

#[async_trait]
impl Command for Import {
    const NAME: [&'static str; 2] = ["volumes", "import"];
    const ACCESS: Access = Access::Operate;
    const VERB: Verb = Verb::Post;
    const PATH: &'static str = "/volumes";
    const LOCAL: &'static [&'static str] = &["paths", "volumes_from"];
    const MAY_BE_FIRST: bool = true;
    const NEAR_DATABASE: bool = true;
    type Answer = Imported;

    async fn run(self, admin: &Admin) -> Result<Imported, Refusal> {
        let dry_run = self.dry_run;
        let (places, archive) = self.places(admin).await?;
        // Reading and writing overlap: lists come one by one from far away, and are written thousands at a time.
        let progress = progress(places.len(), admin.shows_progress);
        // One batch may wait while another is written; a longer queue would only use more memory.
        let (sender, receiver) = mpsc::channel(1);
        let writer = Writer {
            store: &admin.store,
            dry_run,
        };
        let reader = Reader {
            store: &admin.store,
            archive,
            progress: progress.clone(),
            counts: Counters::default(),
        };
        let (counts, (new, changed)) = tokio::try_join!(reader.read(places, sender), writer.write(receiver))?;
        progress.finish_and_clear();
        Ok(Imported {
            dry_run,
            new,
            changed,
            unchanged: counts.unchanged,
            images: counts.images,
            junk: counts.junk.into_skipped(),
            failed: counts.failed.into_skipped(),
        })
    }
}

impl Import {
    /// Returns the places of the lists, each volume once, and the archive if some lie there.
    ///
    /// # Errors
    ///
    /// [`Refusal::Invalid`] if the arguments contradict each other or name no list.
    async fn places(self, admin: &Admin) -> Result<(Vec<ListPlace>, Option<BdrcArchive>), Refusal> {
        let invalid = |error: anyhow::Error| Refusal::Invalid(format!("{error:#}"));
        let mut places = Vec::new();
        let mut named = self.volumes.named().map_err(invalid)?.unwrap_or_default();
        let from_files = !self.paths.is_empty();
        if from_files {
            // Clap cannot express this rule, as it depends on how many of each were given.
            let sole = match (&self.paths[..], &named[..]) {
                ([_], [volume]) => Some(volume.clone()),
                (_, []) => None,
                _ => {
                    let message = "with files, --volume may only name the volume of a single list";
                    return Err(Refusal::Invalid(message.to_owned()));
                }
            };
            // With files, --volume does not select volumes but names the one whose list a file is.
            named.clear();
            let paths = self.paths;
            // Walking a folder of a library on a network file system can take minutes.
            let found = tokio::task::spawn_blocking(move || {
                paths
                    .iter()
                    .map(|path| find(path, sole.as_ref()))
                    .collect::<anyhow::Result<Vec<_>>>()
            });
            let found = found.await.map_err(|error| Refusal::Internal(error.into()))?;
            places.extend(found.map_err(invalid)?.into_iter().flatten());
        }
        if let Some(key) = &self.manifest {
            named.extend(volumes_of_list(admin, key).await?);
        }
        // A list that names no volumes is not the same as no list, after which all known volumes are checked.
        let nothing_named = named.is_empty() && self.collection.is_empty() && self.manifest.is_none();
        // Files can be imported where the configuration knows no archive, so it is opened only if something
        // needs it.
        let archive = if from_files && nothing_named {
            None
        } else {
            Some(archive(&admin.loaded.config.pages).await.map_err(invalid)?)
        };
        if let Some(archive) = &archive {
            for collection in &self.collection {
                let found = archive
                    .volumes_of(collection)
                    .await
                    .map_err(|error| Refusal::Unavailable(error.to_string()))?;
                if found.is_empty() {
                    let message = format!("the archive has no collection {collection}");
                    return Err(Refusal::NotFound(message));
                }
                named.extend(found);
            }
            if nothing_named {
                let known = admin.store.list_volumes(&VolumeQuery::default()).await?;
                named.extend(known.volumes.into_iter().map(|known| known.volume));
            }
        }
        places.extend(named.into_iter().map(ListPlace::in_archive));
        let mut seen = HashSet::new();
        // Files come first and win over the archive's list of the same volume.
        places.retain(|place| seen.insert(place.volume.clone()));
        if places.is_empty() {
            let message = "there are no lists to import: name volumes, collections, files or folders";
            return Err(Refusal::Invalid(message.to_owned()));
        }
        Ok((places, archive))
    }
}

/// Counts of what was read so far.
#[derive(Debug, Default)]
struct Counters {
    unchanged: u64,
    images: u64,
    junk: SkippedCounts,
    failed: SkippedCounts,
}

impl Counters {
    fn count(&mut self, volume: &VolumeId, list: &ImageList) {
        self.images += list.images.len() as u64;
        for junk in &list.junk {
            let name = junk.name.as_deref().unwrap_or("?");
            self.junk
                .add(&junk.junk.to_string(), format_args!("{name} of {volume}"));
        }
    }
}

/// Lists to be written in one transaction, each with whether another version of it is known.
type Batch = Vec<(VolumeImport, bool)>;

/// Reader of lists, [`READS`] of them concurrently. It waits for the writer when a batch is full, so memory is bounded by the batches.
struct Reader<'a> {
    store: &'a PostgresStore,
    archive: Option<BdrcArchive>,
    progress: ProgressBar,
    counts: Counters,
}

impl Reader<'_> {
    async fn read(
        mut self,
        places: Vec<ListPlace>,
        batches: mpsc::Sender<Batch>,
    ) -> Result<Counters, Refusal> {
        let (mut batch, mut images) = (Batch::new(), 0);
        for places in places.chunks(ASKED) {
            let volumes: Vec<VolumeId> = places.iter().map(|place| place.volume.clone()).collect();
            let known = self.store.list_etags(&volumes).await?;
            let (known, archive) = (&known, self.archive.clone());
            let archive = archive.as_ref();
            let read = move |place: ListPlace| {
                let known = known.get(&place.volume).cloned();
                async move {
                    let reading = place.read(archive, known.as_deref()).await;
                    (place.volume, known.is_some(), reading)
                }
            };
            // In any order, since each list is written on its own; slow ones must not hold back the others.
            let mut readings = stream::iter(places.to_vec()).map(read).buffer_unordered(READS);
            while let Some((volume, is_known, reading)) = readings.next().await {
                self.progress.inc(1);
                match reading {
                    Ok(Reading::Unchanged) => self.counts.unchanged += 1,
                    // One broken list must not end an import of thousands; the exit status reports it.
                    Err(unread) => self.counts.failed.add(unread.reason, unread.sample),
                    Ok(Reading::Read(manifest)) => {
                        self.counts.count(&volume, &manifest.list);
                        images += manifest.list.images.len();
                        let import = VolumeImport {
                            volume,
                            etag: manifest.etag,
                            images: manifest.list.images,
                        };
                        batch.push((import, is_known));
                    }
                }
                if images >= BATCH_IMAGES || batch.len() >= BATCH_VOLUMES {
                    images = 0;
                    if batches.send(std::mem::take(&mut batch)).await.is_err() {
                        // The writer has failed and returns its error from `try_join!`.
                        return Ok(self.counts);
                    }
                }
            }
        }
        if !batch.is_empty() {
            // Fails only if the writer has failed, which `try_join!` reports.
            let _ = batches.send(batch).await;
        }
        Ok(self.counts)
    }
}

struct Writer<'a> {
    store: &'a PostgresStore,
    dry_run: bool,
}

impl Writer<'_> {
    /// Writes batches until the reader has ended; returns the numbers of new and of changed volumes.
    async fn write(self, mut batches: mpsc::Receiver<Batch>) -> Result<(u64, u64), Refusal> {
        let (mut new, mut changed) = (0, 0);
        while let Some(batch) = batches.recv().await {
            let outcomes = if self.dry_run {
                batch
                    .iter()
                    // A known list that is unchanged was never read, so whatever arrives here of a known
                    // volume has changed.
                    .map(|(_, is_known)| {
                        if *is_known {
                            ImportOutcome::Changed
                        } else {
                            ImportOutcome::New
                        }
                    })
                    .collect()
            } else {
                let imports: Vec<VolumeImport> = batch.into_iter().map(|(import, _)| import).collect();
                self.store.import_volumes(&imports, Utc::now()).await?
            };
            let count = |wanted| outcomes.iter().filter(|outcome| **outcome == wanted).count() as u64;
            new += count(ImportOutcome::New);
            changed += count(ImportOutcome::Changed);
        }
        Ok((new, changed))
    }
}

/// Returns the progress bar, which is hidden where nobody watches: over HTTP nobody sees this process's standard error.
fn progress(lists: usize, is_watched: bool) -> ProgressBar {
    if !is_watched {
        return ProgressBar::hidden();
    }
    bar(lists, "{bar:30} {pos} of {len} volumes, {eta} left")
}

impl Answer for Imported {
    fn text(&self) -> String {
        let would = if self.dry_run { "would be " } else { "" };
        let mut lines = vec![format!(
            "{} {would}new, {} {would}changed, {} unchanged: {} {would}imported",
            pluralize(self.new, "volume"),
            self.changed,
            self.unchanged,
            pluralize(self.images, "image"),
        )];
        let junk = self.junk.iter().map(|junk| format!("left out: {}", junk.line()));
        lines.extend(junk);
        let failed = self
            .failed
            .iter()
            .map(|failed| format!("not imported: {}", failed.line()));
        lines.extend(failed);
        lines.join("\n")
    }

    fn failed(&self) -> bool {
        !self.failed.is_empty()
    }
}
