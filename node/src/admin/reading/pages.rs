//! `pages list` and `pages show`: the text of single pages.

use async_trait::async_trait;
use clap::Args;
use parkhang_core::domain::{JobKey, VolumeId};
use serde::Serialize;
use utoipa::ToSchema;

use crate::admin::command::{Access, Answer, Command, Verb};
use crate::admin::tasks::find;
use crate::admin::{Admin, Refusal};
use crate::export::document::{
    Corrected, LineDocument, PageDocument, SegmentDocument, VolumeDocument, pairs,
};
use crate::export::{CorrectedPage, PageState, Unplaced, line_id};

/// List the pages of a volume, by the names of their images.
#[derive(Debug, Args)]
pub struct List {
    /// Name of the job.
    #[arg(value_name = "JOB")]
    job: JobKey,
    /// Volume, as W-I.
    #[arg(value_name = "VOLUME")]
    volume: VolumeId,
}

/// The pages of a volume, in order.
#[derive(Debug, Serialize, ToSchema)]
pub struct Pages {
    /// Names of the pages' images.
    pages: Vec<String>,
}

#[async_trait]
impl Command for List {
    const NAME: [&'static str; 2] = ["pages", "list"];
    const ACCESS: Access = Access::Read;
    const VERB: Verb = Verb::Get;
    const PATH: &'static str = "/jobs/{job}/volumes/{volume}/pages";
    type Answer = Pages;

    async fn run(self, admin: &Admin) -> Result<Pages, Refusal> {
        let (job, task) = find(admin, &self.job, &self.volume).await?;
        let document = admin.library.document(&job, &task).await?;
        let names = document.pages.iter().map(|page| page.image_name.clone());
        Ok(Pages {
            pages: names.collect(),
        })
    }
}

impl Answer for Pages {
    fn text(&self) -> String {
        self.pages.join("\n")
    }
}

/// Show the text of a page.
#[derive(Debug, Args)]
pub struct Show {
    /// Name of the job.
    #[arg(value_name = "JOB")]
    job: JobKey,
    /// Volume, as W-I.
    #[arg(value_name = "VOLUME")]
    volume: VolumeId,
    /// Number of the page, from 1.
    #[arg(value_name = "PAGE")]
    page: usize,
    /// Show the page as it was read, without the corrections of people.
    #[arg(long)]
    original: bool,
}

/// Page with its lines, in pixels of the scan.
#[derive(Debug, Serialize, ToSchema)]
pub struct Page {
    image_name: String,
    width: u32,
    height: u32,
    /// BCP 47 tag of the language of the text, as far as its letters tell it.
    language: &'static str,
    /// Lines in reading order.
    lines: Vec<Line>,
    /// Reason for which the page could not be read.
    error: Option<String>,
    /// Number of edits that people have made of the page.
    revision: u32,
    /// Corrections of lines that are not found on the page any more.
    unplaced: Vec<Unplaced>,
}

#[derive(Debug, Serialize, ToSchema)]
pub struct Line {
    /// Identity of the line on its page.
    id: String,
    text: String,
    /// Confidence of the recognition, from 0 to 1; null where whoever read the line has none.
    confidence: Option<f32>,
    /// Corners of its outline, each as x and y.
    #[schema(value_type = Vec<Vec<i32>>)]
    polygon: Vec<[i32; 2]>,
    /// Words or syllables with their places.
    words: Vec<Word>,
    /// Author and time of a line that a person has made what it is.
    corrected: Option<Corrected>,
}

#[derive(Debug, Serialize, ToSchema)]
pub struct Word {
    text: String,
    /// Confidence of the recognition, from 0 to 1.
    confidence: f32,
    /// Left, top, width and height of its box.
    #[schema(value_type = Vec<i32>)]
    bounds: [i32; 4],
}

#[async_trait]
impl Command for Show {
    const NAME: [&'static str; 2] = ["pages", "show"];
    const ACCESS: Access = Access::Read;
    const VERB: Verb = Verb::Get;
    const PATH: &'static str = "/jobs/{job}/volumes/{volume}/pages/{page}";
    type Answer = Page;

    async fn run(self, admin: &Admin) -> Result<Page, Refusal> {
        let (job, task) = find(admin, &self.job, &self.volume).await?;
        if self.original {
            let document = admin.library.document(&job, &task).await?;
            let page = page(&document, &self.volume, self.page)?;
            return Ok(Page::new(page, &PageState::default()));
        }
        let (_, corrected) = admin
            .library
            .corrected_page(&admin.store, (&job, &task), |_| Ok(self.page))
            .await?;
        Ok(Page::from(&corrected))
    }
}

/// Returns the page of a number, counted from 1.
pub fn page<'d>(
    document: &'d VolumeDocument,
    volume: &VolumeId,
    number: usize,
) -> Result<&'d PageDocument, Refusal> {
    number
        .checked_sub(1)
        .and_then(|index| document.pages.get(index))
        .ok_or_else(|| {
            let message = format!("{volume} has no page {number}; it has {}", document.pages.len());
            Refusal::NotFound(message)
        })
}

impl From<&CorrectedPage> for Page {
    fn from(corrected: &CorrectedPage) -> Self {
        Self::new(&corrected.page, &corrected.state)
    }
}

impl Page {
    fn new(page: &PageDocument, state: &PageState) -> Self {
        Self {
            revision: state.revision,
            unplaced: state.unplaced.clone(),
            image_name: page.image_name.clone(),
            width: page.width,
            height: page.height,
            language: page.language().tag(),
            lines: page.lines.iter().map(Line::from).collect(),
            error: page.error.clone(),
        }
    }
}

impl From<&LineDocument> for Line {
    fn from(line: &LineDocument) -> Self {
        Self {
            id: line_id(line),
            corrected: line.corrected.clone(),
            text: line.text.clone(),
            confidence: line.confidence,
            polygon: pairs(&line.polygon),
            words: line.segments.iter().map(Word::from).collect(),
        }
    }
}

impl From<&SegmentDocument> for Word {
    fn from(segment: &SegmentDocument) -> Self {
        Self {
            text: segment.text.clone(),
            confidence: segment.confidence,
            bounds: segment.bounds(),
        }
    }
}

impl Answer for Page {
    fn text(&self) -> String {
        let lines: Vec<&str> = self.lines.iter().map(|line| line.text.as_str()).collect();
        match &self.error {
            Some(error) => format!("{}: {error}", self.image_name),
            None => lines.join("\n"),
        }
    }
}
