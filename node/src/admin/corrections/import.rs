//! `corrections import`: transcriptions of pages by other programs as corrections.

use std::path::{Path, PathBuf};

use async_trait::async_trait;
use clap::Args;
use parkhang_core::domain::{Edit, Job, JobKey, MOST_CORNERS, Task, VolumeId};
use parkhang_core::policy::correction::MOST_LINES;
use parkhang_state::{EditOutcome, NewEdit, TaskQuery};
use serde::Serialize;
use utoipa::ToSchema;
use uuid::Uuid;

use super::plan::{Change, changes};
use super::too_many_edits;
use crate::admin::command::{Access, Answer, Command, Verb};
use crate::admin::text::table;
use crate::admin::{Admin, Refusal, find_task, jobs};
use crate::export::document::PageDocument;
use crate::transcription::{self, Transcription};

/// Take in pages that were corrected elsewhere, as PAGE XML or ALTO.
///
/// Each file is the whole of a page: its lines are compared with those of the job, and what differs becomes a correction by you. The page is the one
/// whose image the file names, or whose image has the name of the file. Lines without text in the file stay as they are.
/// Example: `corrections import press --volume W22084-I0886 export_job/*.xml`.
#[derive(Debug, Args)]
pub struct Import {
    /// Name of the job.
    #[arg(value_name = "JOB")]
    job: JobKey,
    /// Files of pages: PAGE XML or ALTO, of eScriptorium, Transkribus or `node export`.
    #[arg(value_name = "FILE")]
    files: Vec<PathBuf>,
    /// Volume of the pages, as W-I; may be left out where the job has one volume only.
    #[arg(long, value_name = "VOLUME")]
    volume: Option<VolumeId>,
    /// Content of one file, for clients whose files are elsewhere.
    #[arg(long, value_name = "XML")]
    document: Option<String>,
    /// Show what would be corrected, and change nothing.
    #[arg(long)]
    dry_run: bool,
}

#[derive(Debug, Serialize, ToSchema)]
pub struct Imported {
    /// True if nothing was changed.
    dry_run: bool,
    files: Vec<ImportedFile>,
}

/// What became of a file.
#[derive(Debug, Default, Serialize, ToSchema)]
pub struct ImportedFile {
    file: String,
    /// Name of the page's image.
    image_name: Option<String>,
    /// Lines with another text or outline.
    changed: usize,
    added: usize,
    deleted: usize,
    /// Reason for which the file, or the rest of it, was not taken in.
    refused: Option<String>,
}

#[async_trait]
impl Command for Import {
    const NAME: [&'static str; 2] = ["corrections", "import"];
    const ACCESS: Access = Access::Edit;
    const VERB: Verb = Verb::Post;
    const PATH: &'static str = "/jobs/{job}/corrections";
    const LOCAL: &'static [&'static str] = &["files"];
    const NEAR_DATABASE: bool = true;
    type Answer = Imported;

    async fn run(self, admin: &Admin) -> Result<Imported, Refusal> {
        let job = jobs::find(admin, &self.job).await?;
        let volume = match &self.volume {
            Some(volume) => volume.clone(),
            None => only_volume(admin, &job).await?,
        };
        let (job, task) = find_task(admin, &job.key, &volume).await?;
        let document = self.document.map(Given::Document);
        let given: Vec<Given> = document
            .into_iter()
            .chain(self.files.into_iter().map(Given::File))
            .collect();
        if given.is_empty() {
            return Err(Refusal::Invalid(
                "name at least one file of PAGE XML or ALTO".to_owned(),
            ));
        }
        let importer = Importer {
            admin,
            job,
            task,
            dry_run: self.dry_run,
        };
        let mut files = Vec::with_capacity(given.len());
        for given in given {
            files.push(importer.import(given).await?);
        }
        Ok(Imported {
            dry_run: self.dry_run,
            files,
        })
    }
}

/// Transcription that is to be taken in.
enum Given {
    Document(String),
    File(PathBuf),
}

impl Given {
    fn name(&self) -> String {
        match self {
            Self::Document(_) => "document".to_owned(),
            Self::File(path) => path.display().to_string(),
        }
    }

    /// Reads it, and returns its page and what it changes of that.
    ///
    /// # Errors
    ///
    /// The reason for which it cannot be taken in.
    fn planned(&self, pages: &[PageDocument]) -> Result<(PageDocument, Vec<Change>), String> {
        let read = match self {
            Self::Document(text) => transcription::of_text(text),
            Self::File(path) => transcription::read(path),
        };
        let read = read.map_err(|error| format!("{error:#}"))?;
        let read = read.ok_or("it is neither PAGE XML nor ALTO")?;
        let (page, changes) = plan(&self.name(), read, pages)?;
        Ok((page.clone(), changes))
    }
}

async fn only_volume(admin: &Admin, job: &Job) -> Result<VolumeId, Refusal> {
    let query = TaskQuery {
        limit: 2,
        ..TaskQuery::default()
    };
    let page = admin.store.list_tasks(job, &query).await?;
    match &page.tasks[..] {
        [task] => Ok(task.volume.clone()),
        _ => Err(Refusal::Invalid(format!(
            "name the volume of the pages with --volume, as job {} has not one only",
            job.key
        ))),
    }
}

struct Importer<'a> {
    admin: &'a Admin,
    job: Job,
    task: Task,
    dry_run: bool,
}

impl Importer<'_> {
    async fn import(&self, given: Given) -> Result<ImportedFile, Refusal> {
        let mut imported = ImportedFile {
            file: given.name(),
            ..ImportedFile::default()
        };
        let library = &self.admin.library;
        let volume = library
            .corrected(&self.admin.store, &self.job, &self.task)
            .await?;
        // Hundreds of lines are compared with hundreds of others.
        let planned = library
            .compute(move || given.planned(&volume.document.pages))
            .await?;
        let (page, changes) = match planned {
            Ok(planned) => planned,
            Err(refused) => {
                imported.refused = Some(refused);
                return Ok(imported);
            }
        };
        imported.image_name = Some(page.image_name.clone());
        for change in changes {
            if let Err(refused) = self.make(&page, &change).await? {
                imported.refused = Some(refused);
                break;
            }
            imported.changed += change.changed;
            imported.added += change.added;
            imported.deleted += change.deleted;
        }
        Ok(imported)
    }

    /// Makes a change; the inner error is the reason for which it is refused.
    async fn make(&self, page: &PageDocument, change: &Change) -> Result<Result<(), String>, Refusal> {
        let edit = Edit {
            id: Uuid::new_v4(),
            replaces: change.replaces.clone(),
            lines: change.lines.clone(),
        };
        let edit = match edit.validated((page.width, page.height), &[]) {
            Ok(edit) => edit,
            Err(invalid) => return Ok(Err(invalid.to_string())),
        };
        if self.dry_run {
            return Ok(Ok(()));
        }
        let new = NewEdit {
            volume: self.task.volume.clone(),
            image: page.image_name.clone(),
            job: self.job.key.clone(),
            who: self.admin.asked_by.to_string(),
            edit,
        };
        Ok(match self.admin.store.record_edit(&new).await? {
            EditOutcome::Recorded => Ok(()),
            EditOutcome::Conflict(conflict) => Err(conflict.to_string()),
            EditOutcome::Taken => Err("the edit is known of another page".to_owned()),
            EditOutcome::Full => Err(too_many_edits(&page.image_name)),
        })
    }
}

/// Returns the page of a file, and what the file changes of it.
///
/// # Errors
///
/// The reason for which the file cannot be taken in.
fn plan<'p>(
    file: &str,
    read: Transcription,
    pages: &'p [PageDocument],
) -> Result<(&'p PageDocument, Vec<Change>), String> {
    let page = page_of(file, read.image.as_deref(), pages).ok_or_else(|| match &read.image {
        Some(image) => format!("the volume has no page whose image is {image}, or has the name of the file"),
        None => "the volume has no page with the name of the file".to_owned(),
    })?;
    let size = (page.width, page.height);
    if let Some((width, height)) = read.size.filter(|read| *read != size) {
        return Err(format!(
            "it is of a picture of {width} by {height} pixels, and the scan of {} has {} by {}",
            page.image_name, page.width, page.height
        ));
    }
    if !read.has_text() {
        return Err("none of its lines has a text".to_owned());
    }
    let lines = read.lines.len();
    if lines > MOST_LINES {
        return Err(format!(
            "it has {lines} lines, and a page has at most {MOST_LINES}"
        ));
    }
    if read.lines.iter().any(|line| line.polygon.len() > MOST_CORNERS) {
        return Err(format!(
            "the outline of a line has at most {MOST_CORNERS} corners"
        ));
    }
    Ok((page, changes(page, &read.lines)))
}

/// Finds the page of a file: by the name of its scan, with or without the extension, or else by that of the file.
fn page_of<'p>(file: &str, image: Option<&str>, pages: &'p [PageDocument]) -> Option<&'p PageDocument> {
    let name = |path: &str| {
        let path = Path::new(path);
        path.file_name().map(|name| name.to_string_lossy().into_owned())
    };
    let stem = |name: &str| {
        let name = name
            .trim_end_matches(".xml")
            .trim_end_matches(".page")
            .trim_end_matches(".alto");
        Path::new(name)
            .file_stem()
            .map(|stem| stem.to_string_lossy().into_owned())
    };
    let image = image.and_then(name);
    let by_name = pages
        .iter()
        .find(|page| Some(&page.source_name) == image.as_ref());
    let wanted: Vec<String> = [image, name(file)]
        .into_iter()
        .flatten()
        .flat_map(|name| [stem(&name), Some(name)])
        .flatten()
        .collect();
    let has = |page: &&PageDocument| {
        wanted
            .iter()
            .any(|wanted| *wanted == page.image_name || Some(wanted) == stem(&page.source_name).as_ref())
    };
    by_name.or_else(|| pages.iter().find(has))
}

impl Answer for Imported {
    fn text(&self) -> String {
        let rows = self.files.iter().map(|file| {
            [
                file.file.clone(),
                file.image_name.clone().unwrap_or_default(),
                file.refused.clone().unwrap_or_default(),
                file.changed.to_string(),
                file.added.to_string(),
                file.deleted.to_string(),
            ]
        });
        let header = ["file", "page", "refused", "changed", "added", "deleted"];
        let shown = table(header, rows, 3);
        match self.dry_run {
            true => format!("{shown}\nnothing was changed: --dry-run"),
            false => shown,
        }
    }

    fn failed(&self) -> bool {
        self.files.iter().any(|file| file.refused.is_some())
    }
}

#[cfg(test)]
mod tests {
    use parkhang_models::page::geometry::Point;

    use super::*;
    use crate::export::tests::page;

    #[test]
    fn the_page_of_a_file_is_found_by_the_scan_or_by_its_name() {
        let pages = ["p1", "p2"].map(|name| PageDocument {
            image_name: name.to_owned(),
            source_name: format!("{name}.jpg"),
            ..page()
        });
        let found = |file: &str, image: Option<&str>| {
            page_of(file, image, &pages).map(|page| page.image_name.as_str())
        };
        assert_eq!(found("x.xml", Some("p2.jpg")), Some("p2"));
        assert_eq!(found("x.xml", Some("images/p2.png")), Some("p2"));
        assert_eq!(found("out/p1.page.xml", None), Some("p1"));
        assert_eq!(found("p1.xml", Some("other.jpg")), Some("p1"));
        assert_eq!(found("x.xml", Some("p3.jpg")), None);
    }

    #[test]
    fn a_file_of_another_picture_or_without_text_is_refused() {
        let pages = [page()];
        let read = |size, text: Option<&str>| Transcription {
            image: Some(pages[0].source_name.clone()),
            size,
            lines: vec![transcription::TranscribedLine {
                polygon: pages[0].lines[0].polygon.clone(),
                text: text.map(str::to_owned),
                marginal: false,
            }],
        };
        let refused = |read| plan("x.xml", read, &pages).unwrap_err();
        assert!(refused(read(Some((1, 1)), Some("ཀ"))).contains("1 by 1 pixels"));
        assert!(refused(read(None, None)).contains("none of its lines"));
        let mut long = read(None, Some("ཀ"));
        long.lines[0].polygon = vec![Point::new(0, 0); MOST_CORNERS + 1];
        assert!(refused(long).contains("400 corners"));
        let mut many = read(None, Some("ཀ"));
        many.lines = vec![many.lines[0].clone(); MOST_LINES + 1];
        assert!(refused(many).contains("2001 lines"));
        assert!(plan("x.xml", read(None, Some("ཀ")), &pages).is_ok());
    }
}
