//! `corrections export`: lines that people have corrected, as a data set.

use std::path::PathBuf;

use anyhow::Context;
use async_trait::async_trait;
use chrono::{DateTime, Utc};
use clap::Args;
use indicatif::ProgressBar;
use parkhang_core::domain::{Job, JobKey, VolumeId};
use serde::Serialize;
use utoipa::ToSchema;

use super::corrected_volume;
use crate::admin::command::{Access, Answer, Command, Verb};
use crate::admin::{Admin, Refusal, jobs};
use crate::bar::bar;
use crate::export::document::{LineDocument, PageDocument, pairs};
use crate::export::{LinePictures, line_id};
use crate::words::pluralize;

/// File of a data set that says what its lines are.
const MANIFEST: &str = "lines.jsonl";

/// Export the lines of a job that people have corrected: pictures with their texts, for training.
///
/// The folder gets VOLUME_PAGE_LINE.jpg with the text in .txt for each line, and lines.jsonl with volume, page, author and time. Lines that were
/// only moved or deleted are not in it. Without --lines the lines are listed.
/// Example: `corrections export press --lines corrected`.
#[derive(Debug, Args)]
pub struct Export {
    /// Name of the job.
    #[arg(value_name = "JOB")]
    job: JobKey,
    /// Folder for the pictures and texts. It is made, and has to be empty.
    #[arg(long, value_name = "DIR")]
    lines: Option<PathBuf>,
    /// Only lines of this volume, as W-I; may be repeated.
    #[arg(long, value_name = "VOLUME")]
    volume: Vec<VolumeId>,
}

#[derive(Debug, Serialize, ToSchema)]
pub struct ExportedLines {
    lines: Vec<ExportedLine>,
    /// Lines without a picture, as their scan cannot be reached. They are not in the folder.
    without_picture: usize,
    /// Folder of the data set, if one was written.
    folder: Option<String>,
}

/// Line that a person has corrected.
#[derive(Debug, Clone, Serialize, ToSchema)]
pub struct ExportedLine {
    /// Name of its picture in the folder.
    file: Option<String>,
    volume: String,
    image_name: String,
    /// Number of the page, from 1.
    page: usize,
    /// Number of the line on the page, from 1.
    line: usize,
    /// Id of the line on its page.
    id: String,
    text: String,
    /// Corners of its outline, each as x and y, in pixels of the scan.
    #[schema(value_type = Vec<Vec<i32>>)]
    polygon: Vec<[i32; 2]>,
    who: String,
    at: DateTime<Utc>,
}

#[async_trait]
impl Command for Export {
    const NAME: [&'static str; 2] = ["corrections", "export"];
    const ACCESS: Access = Access::Read;
    const VERB: Verb = Verb::Get;
    const PATH: &'static str = "/jobs/{job}/corrections/lines";
    const LOCAL: &'static [&'static str] = &["lines"];
    const NEAR_DATABASE: bool = true;
    type Answer = ExportedLines;

    async fn run(self, admin: &Admin) -> Result<ExportedLines, Refusal> {
        let job = jobs::find(admin, &self.job).await?;
        if let Some(folder) = &self.lines {
            make(folder)?;
        }
        let edited = admin.store.edited_volumes().await?;
        let volumes: Vec<&VolumeId> = edited
            .keys()
            .filter(|volume| self.volume.is_empty() || self.volume.contains(volume))
            .collect();
        let progress = match admin.shows_progress {
            true => bar(volumes.len(), "exporting {pos}/{len} volumes, {eta} left"),
            false => ProgressBar::hidden(),
        };
        let mut exporter = Exporter {
            admin,
            job,
            folder: self.lines,
            lines: Vec::new(),
            without_picture: 0,
        };
        for volume in volumes {
            exporter.volume(volume).await?;
            progress.inc(1);
        }
        progress.finish_and_clear();
        exporter.finish().await
    }
}

/// Makes the folder of a data set.
///
/// # Errors
///
/// [`Refusal::Invalid`] if something is in it: files of another export would count as lines of this one.
fn make(folder: &PathBuf) -> Result<(), Refusal> {
    let made = std::fs::create_dir_all(folder).and_then(|()| std::fs::read_dir(folder));
    let mut entries = made.with_context(|| format!("cannot make {}", folder.display()))?;
    match entries.next() {
        None => Ok(()),
        Some(_) => Err(Refusal::Invalid(format!(
            "{} is not empty; name a new folder",
            folder.display()
        ))),
    }
}

struct Exporter<'a> {
    admin: &'a Admin,
    job: Job,
    folder: Option<PathBuf>,
    lines: Vec<ExportedLine>,
    without_picture: usize,
}

impl Exporter<'_> {
    /// Exports the corrected lines of a volume, if it is one of the job.
    async fn volume(&mut self, volume: &VolumeId) -> Result<(), Refusal> {
        let Some((task, corrected)) = corrected_volume(self.admin, &self.job, volume).await? else {
            return Ok(());
        };
        let library = &self.admin.library;
        let pictures = match &self.folder {
            Some(_) => {
                let original = library.document(&self.job, &task).await?;
                Some((library.stored(&self.job, &task).await, original))
            }
            None => None,
        };
        let store = library.store().await?;
        let pictures = match &pictures {
            Some((stored, original)) => Some(LinePictures::open(&**store, stored, original).await?),
            None => None,
        };
        let numbered = (1..).zip(&corrected.document.pages);
        for (number, page) in numbered.filter(|(_, page)| corrected.pages.contains_key(&page.image_name)) {
            self.page(volume, (number, page), pictures.as_ref()).await?;
        }
        Ok(())
    }

    async fn page(
        &mut self,
        volume: &VolumeId,
        (number, page): (usize, &PageDocument),
        pictures: Option<&LinePictures<'_>>,
    ) -> Result<(), Refusal> {
        let written: Vec<&LineDocument> = page
            .lines
            .iter()
            .filter(|line| line.corrected.is_some() && !line.text.trim().is_empty())
            .collect();
        let found = match pictures {
            Some(pictures) => pictures.of_page(page, &written).await?,
            None => Vec::new(),
        };
        for (index, line) in (1..).zip(&page.lines) {
            let Some(corrected) = line.corrected.as_ref().filter(|_| !line.text.trim().is_empty()) else {
                continue;
            };
            let picture = found.iter().find(|(found, _)| std::ptr::eq(*found, line));
            let file = match (&self.folder, picture) {
                (Some(folder), Some((_, picture))) => {
                    // Underscores part the three names from each other.
                    let plain = |name: &str| name.replace('_', "-");
                    let stem = format!(
                        "{}_{}_{index:03}",
                        plain(&volume.to_string()),
                        plain(&page.image_name)
                    );
                    write(&folder.join(format!("{stem}.txt")), line.text.trim().as_bytes()).await?;
                    write(&folder.join(format!("{stem}.jpg")), picture).await?;
                    Some(format!("{stem}.jpg"))
                }
                (Some(_), None) => {
                    self.without_picture += 1;
                    continue;
                }
                (None, _) => None,
            };
            self.lines.push(ExportedLine {
                file,
                volume: volume.to_string(),
                image_name: page.image_name.clone(),
                page: number,
                line: index,
                id: line_id(line),
                text: line.text.trim().to_owned(),
                polygon: pairs(&line.polygon),
                who: corrected.who.clone(),
                at: corrected.at,
            });
        }
        Ok(())
    }

    async fn finish(self) -> Result<ExportedLines, Refusal> {
        if let Some(folder) = &self.folder {
            let mut manifest = String::new();
            for line in &self.lines {
                manifest.push_str(&serde_json::to_string(line).map_err(anyhow::Error::from)?);
                manifest.push('\n');
            }
            write(&folder.join(MANIFEST), manifest.as_bytes()).await?;
        }
        Ok(ExportedLines {
            lines: self.lines,
            without_picture: self.without_picture,
            folder: self.folder.map(|folder| folder.display().to_string()),
        })
    }
}

async fn write(path: &std::path::Path, bytes: &[u8]) -> Result<(), Refusal> {
    let written = tokio::fs::write(path, bytes).await;
    Ok(written.with_context(|| format!("cannot write {}", path.display()))?)
}

impl Answer for ExportedLines {
    fn text(&self) -> String {
        let Some(folder) = &self.folder else {
            let lines = self.lines.iter().map(|line| {
                format!(
                    "{} page {} line {}: {}",
                    line.volume, line.page, line.line, line.text
                )
            });
            return lines.collect::<Vec<_>>().join("\n");
        };
        let mut text = format!("{} in {folder}", pluralize(self.lines.len(), "corrected line"));
        if self.without_picture > 0 {
            let left_out = pluralize(self.without_picture, "line");
            text.push_str(&format!("\n{left_out} left out: the scan cannot be reached"));
        }
        text
    }
}
