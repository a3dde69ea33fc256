use std::collections::HashSet;
use std::io::IsTerminal;
use std::path::PathBuf;

use async_trait::async_trait;
use chrono::Utc;
use clap::Args;
use futures::{StreamExt, stream};
use indicatif::{ProgressBar, ProgressStyle};
use parkhang_core::domain::VolumeId;
use parkhang_state::{ImportOutcome, PostgresStore, VolumeImport, VolumeQuery};
use parkhang_store::pages::{BdrcArchive, ImageList};
use serde::Serialize;
use tokio::sync::mpsc;
use utoipa::ToSchema;

use super::lists::{ListPlace, Reading, find};
use super::volumes_of_list;
use crate::admin::command::{Access, Answer, Command, Verb};
use crate::admin::skipped::{Skipped, SkippedTally};
use crate::admin::{Admin, Refusal};
use crate::storage::{VolumeArgs, archive};
use crate::words::counted;

/// Lists read at once.
const READS: usize = 32;
/// Volumes whose known versions are asked for at once.
const ASKED: usize = 1_000;
/// Images that are written at once, and volumes, if they have few.
const BATCH_IMAGES: usize = 20_000;
const BATCH_VOLUMES: usize = 1_000;

/// Read the lists of volumes' images (dimensions.json) and keep what they say. Lists that are known in the same version are left as they are.
///
/// The lists are those of files and folders, or, where the scans are in BDRC's archive, those of volumes and collections there. Without
/// any, the lists of all volumes that are known are looked at again. Entries of a list that name no image of the volume are left out and
/// counted.
#[derive(Debug, Args)]
pub struct Import {
    /// A list, or a folder with lists somewhere below: dimensions.json in a folder W-I, or W-I.json, gzipped or not.
    #[arg(value_name = "PATH")]
    paths: Vec<PathBuf>,
    #[command(flatten)]
    volumes: VolumeArgs,
    /// The volumes that a list in the storage names, as those of a file.
    #[arg(long, value_name = "KEY")]
    manifest: Option<String>,
    /// All volumes of this collection (W); may be repeated.
    #[arg(long, value_name = "W")]
    collection: Vec<String>,
    /// Say what would be done, and do nothing.
    #[arg(long)]
    dry_run: bool,
}

/// What an import did, or would do.
#[derive(Debug, Default, Serialize, ToSchema)]
pub struct Imported {
    /// Whether it is only what would be done.
    dry_run: bool,
    /// Not known before.
    new: u64,
    /// Known in another version.
    changed: u64,
    /// Known in this version.
    unchanged: u64,
    /// Of the new and changed volumes.
    images: u64,
    /// Entries of lists that are no images of the volume.
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
        let progress = progress(places.len(), admin.shows_progress);
        let (sender, receiver) = mpsc::channel(1);
        let writer = Writer {
            store: &admin.store,
            dry_run,
        };
        let reader = Reader {
            store: &admin.store,
            archive,
            progress: progress.clone(),
            tally: Tally::default(),
        };
        let (tally, (new, changed)) = tokio::try_join!(reader.read(places, sender), writer.write(receiver))?;
        progress.finish_and_clear();
        Ok(Imported {
            dry_run,
            new,
            changed,
            unchanged: tally.unchanged,
            images: tally.images,
            junk: tally.junk.into_skipped(),
            failed: tally.failed.into_skipped(),
        })
    }
}

impl Import {
    /// Where the lists are, each volume once, and the archive if some are there.
    async fn places(self, admin: &Admin) -> Result<(Vec<ListPlace>, Option<BdrcArchive>), Refusal> {
        let invalid = |error: anyhow::Error| Refusal::Invalid(format!("{error:#}"));
        let mut places = Vec::new();
        let mut named = self.volumes.named().map_err(invalid)?.unwrap_or_default();
        let from_files = !self.paths.is_empty();
        if from_files {
            let sole = match (&self.paths[..], &named[..]) {
                ([_], [volume]) => Some(volume.clone()),
                (_, []) => None,
                _ => {
                    let message = "with files, --volume can only say whose list a single one is";
                    return Err(Refusal::Invalid(message.to_owned()));
                }
            };
            named.clear();
            let paths = self.paths;
            let found = tokio::task::spawn_blocking(move || {
                let found = paths.iter().map(|path| find(path, sole.as_ref()));
                found.collect::<anyhow::Result<Vec<_>>>()
            });
            let found = found.await.map_err(|error| Refusal::Internal(error.into()))?;
            places.extend(found.map_err(invalid)?.into_iter().flatten());
        }
        if let Some(key) = &self.manifest {
            named.extend(volumes_of_list(admin, key).await?);
        }
        let nothing_named = named.is_empty() && self.collection.is_empty() && self.manifest.is_none();
        let archive = match from_files && nothing_named {
            true => None,
            false => Some(archive(&admin.loaded.config.pages).await.map_err(invalid)?),
        };
        if let Some(archive) = &archive {
            for collection in &self.collection {
                let found = archive.volumes_of(collection).await;
                let found = found.map_err(|error| Refusal::Unavailable(error.to_string()))?;
                if found.is_empty() {
                    let message = format!("the archive has no collection {collection}");
                    return Err(Refusal::NotFound(message));
                }
                named.extend(found);
            }
            if nothing_named {
                let known = admin.store.volume_page(&VolumeQuery::default()).await?;
                named.extend(known.volumes.into_iter().map(|known| known.volume));
            }
        }
        places.extend(named.into_iter().map(ListPlace::in_archive));
        let mut seen = HashSet::new();
        places.retain(|place| seen.insert(place.volume.clone()));
        if places.is_empty() {
            let message = "there are no lists to import: name volumes, collections, files or folders";
            return Err(Refusal::Invalid(message.to_owned()));
        }
        Ok((places, archive))
    }
}

/// What reading the lists has told so far.
#[derive(Debug, Default)]
struct Tally {
    unchanged: u64,
    images: u64,
    junk: SkippedTally,
    failed: SkippedTally,
}

impl Tally {
    fn count(&mut self, volume: &VolumeId, list: &ImageList) {
        self.images += list.images.len() as u64;
        for junk in &list.junk {
            let name = junk.name.as_deref().unwrap_or("?");
            self.junk
                .add(&junk.junk.to_string(), format_args!("{name} of {volume}"));
        }
    }
}

/// A batch on its way to the database, each list with whether another version of it is known.
type Batch = Vec<(VolumeImport, bool)>;

/// Reads lists, so many at once. What is read but not yet written is bounded by the batches.
struct Reader<'a> {
    store: &'a PostgresStore,
    archive: Option<BdrcArchive>,
    progress: ProgressBar,
    tally: Tally,
}

impl Reader<'_> {
    async fn read(mut self, places: Vec<ListPlace>, batches: mpsc::Sender<Batch>) -> Result<Tally, Refusal> {
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
            let mut readings = stream::iter(places.to_vec()).map(read).buffer_unordered(READS);
            while let Some((volume, is_known, reading)) = readings.next().await {
                self.progress.inc(1);
                match reading {
                    Ok(Reading::Unchanged) => self.tally.unchanged += 1,
                    Err(unread) => self.tally.failed.add(unread.reason, unread.sample),
                    Ok(Reading::Read(manifest)) => {
                        self.tally.count(&volume, &manifest.list);
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
                        // The writer has failed, and says why.
                        return Ok(self.tally);
                    }
                }
            }
        }
        if !batch.is_empty() {
            let _ = batches.send(batch).await;
        }
        Ok(self.tally)
    }
}

struct Writer<'a> {
    store: &'a PostgresStore,
    dry_run: bool,
}

impl Writer<'_> {
    /// How many volumes were new and how many changed.
    async fn write(self, mut batches: mpsc::Receiver<Batch>) -> Result<(u64, u64), Refusal> {
        let (mut new, mut changed) = (0, 0);
        while let Some(batch) = batches.recv().await {
            let outcomes = if self.dry_run {
                let outcome = |(_, is_known): &(VolumeImport, bool)| match is_known {
                    true => ImportOutcome::Changed,
                    false => ImportOutcome::New,
                };
                batch.iter().map(outcome).collect()
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

/// Shown on a terminal alone.
fn progress(lists: usize, is_watched: bool) -> ProgressBar {
    if !is_watched || !std::io::stderr().is_terminal() {
        return ProgressBar::hidden();
    }
    let style = ProgressStyle::with_template("{bar:30} {pos} of {len} volumes, {eta} left");
    let bar = ProgressBar::new(lists as u64);
    match style {
        Ok(style) => bar.with_style(style),
        Err(_) => bar,
    }
}

impl Answer for Imported {
    fn text(&self) -> String {
        let would = if self.dry_run { "would be " } else { "" };
        let mut lines = vec![format!(
            "{} {would}new, {} {would}changed, {} unchanged: {} {would}imported",
            counted(self.new, "volume"),
            self.changed,
            self.unchanged,
            counted(self.images, "image"),
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
