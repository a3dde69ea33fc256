//! Readings of a volume by other jobs.

use std::collections::HashMap;
use std::sync::Arc;

use parkhang_combine::{Bounds, Line, Reading, Syllable, syllables};
use parkhang_models::line_detection::PageGeometry;
use parkhang_models::recognition::ewts::to_unicode_exact;

use super::archive::{lines_of, read_archive};
use crate::stage::page_stage::{PlannedPage, VolumeRun};
use crate::stage::quality::text_score;
use crate::stage::read_volume::{ReadLine, ReadPage, read_volume};
use parkhang_core::domain::{ErrorCategory, Input, JobKey, StageError, TextEncoding};
use parkhang_store::artifact::{
    ArtifactLayout, Digest, ImageName, LineDetectionRow, OcrResultRow, Segment, texts_key,
};

/// A page as several jobs have read it.
#[derive(Debug, Clone)]
pub(crate) struct PageReadings {
    pub(super) image_name: String,
    pub(super) page_index: i32,
    /// The inputs, the preferred one first, whose places the lines have.
    pub(super) inputs: Arc<Vec<Input>>,
    /// Lines of each of them in reading order.
    pub(super) lines: Vec<Vec<ReadLine>>,
    /// Way to the scan from the straightened page of the first job.
    pub(super) geometry: PageGeometry,
}

impl PageReadings {
    /// The readings as they are compared.
    pub(super) fn readings(&self) -> Vec<Reading> {
        let reading = |lines: &Vec<ReadLine>| Reading {
            lines: lines.iter().map(line_of).collect(),
        };
        self.lines.iter().map(reading).collect()
    }
}

/// Line as it is compared.
fn line_of(line: &ReadLine) -> Line {
    let bounds = line.bounds.map(|[left, top, right, bottom]| Bounds {
        left,
        top,
        right,
        bottom,
    });
    // Readings of the archive, and tables of older releases, do not say.
    let said = line.row.perplexity;
    let perplexity = said.or_else(|| text_score(&line.row.text, line.row.encoding).perplexity());
    Line {
        syllables: syllables_of(&line.row),
        bounds,
        plausibility: perplexity.map(|perplexity| -perplexity.ln()),
    }
}

/// Syllables of a line in Unicode: its segments, or where these are not its text the parts of that, as sure as the line is.
pub(super) fn syllables_of(row: &OcrResultRow) -> Vec<Syllable> {
    if has_syllables(row) {
        let syllable = |segment: &Segment| Syllable {
            text: segment.text.clone(),
            confidence: Some(segment.confidence),
        };
        return row.segments.iter().map(syllable).collect();
    }
    let mut parts = match row.encoding {
        TextEncoding::Unicode => syllables(&row.text),
        TextEncoding::Wylie => syllables(&to_unicode_exact(&row.text)),
    };
    for part in &mut parts {
        part.confidence = row.confidence;
    }
    parts
}

/// True if the segments of a line are its syllables.
pub(super) fn has_syllables(row: &OcrResultRow) -> bool {
    let parts = row.segments.iter().map(|segment| segment.text.as_str());
    row.encoding == TextEncoding::Unicode && !row.segments.is_empty() && parts.collect::<String>() == row.text
}

/// Another reading of a volume than the preferred one.
enum Beside {
    /// Pages by name.
    Job(HashMap<String, ReadPage>),
    /// Texts by the file name of the scan.
    Archive(HashMap<String, String>),
}

impl Beside {
    /// Lines of a page, and a digest of their source; none where the reading does not have the page.
    fn take(&mut self, page: &LineDetectionRow) -> (Option<Digest>, Vec<ReadLine>) {
        match self {
            Self::Job(pages) => pages
                .remove(&page.image_name)
                .map_or((None, Vec::new()), |page| (page.made_of, page.lines)),
            Self::Archive(texts) => texts
                .remove(&page.source_name)
                .map_or((None, Vec::new()), |text| {
                    let lines = lines_of(&text, &page.image_name, page.page_index);
                    (Some(Digest::of(text.as_bytes())), lines)
                }),
        }
    }
}

/// Pages of a volume as one job has read it.
///
/// # Errors
///
/// [`ErrorCategory::Pending`] where the job has not read the volume yet.
async fn read_input(run: &VolumeRun, job: &JobKey) -> Result<Vec<ReadPage>, StageError> {
    let layout = ArtifactLayout::new(run.config().layout, job).volume(run.volume());
    let texts = texts_key(run.store.as_ref(), &layout).await;
    let texts = texts.map_err(|error| run.storage_error(&error))?.ok_or_else(|| {
        let message = format!("job {job} to read {}", run.volume());
        run.error(ErrorCategory::Pending, message)
    })?;
    read_volume(run, &layout, &texts).await
}

/// Reads what the jobs have read that the job of the run combines.
///
/// # Errors
///
/// When the job names none, one of them has not read the volume yet, or a table cannot be read.
pub(super) async fn read_inputs(run: &VolumeRun) -> Result<Vec<PlannedPage<PageReadings>>, StageError> {
    let inputs: Arc<Vec<Input>> = Arc::new(run.config().inputs.iter().cloned().collect());
    let Some((Input::Job(first), others)) = inputs.split_first() else {
        let message = "the job names none whose readings are to be combined: inputs=JOB,JOB";
        return Err(run.error(ErrorCategory::Config, message));
    };
    let input_error = |error: &dyn std::fmt::Display| run.error(ErrorCategory::Input, error);
    let pages = read_input(run, first).await?;
    let mut beside = Vec::with_capacity(others.len());
    for input in others {
        beside.push(match input {
            Input::Job(job) => {
                let pages = read_input(run, job).await?;
                if let Some(error) = pages.iter().find_map(|page| page.geometry.as_ref().err()) {
                    return Err(input_error(error));
                }
                let by_name = pages.into_iter().map(|page| (page.row.image_name.clone(), page));
                Beside::Job(by_name.collect())
            }
            Input::Archive(reading) => {
                let scans: Vec<&str> = pages.iter().map(|page| page.row.source_name.as_str()).collect();
                Beside::Archive(read_archive(run, *reading, &scans).await?)
            }
        });
    }
    let mut planned = Vec::with_capacity(pages.len());
    for page in pages {
        let others = beside.iter_mut().map(|reading| reading.take(&page.row));
        let others: Vec<_> = others.collect();
        let name = page.row.image_name;
        let own = (page.made_of, page.lines);
        let (made_of, lines): (Vec<Option<Digest>>, Vec<Vec<ReadLine>>) =
            std::iter::once(own).chain(others).unzip();
        // A page that was not read is made of nothing.
        let made_of = made_of
            .into_iter()
            .map(|made_of| made_of.unwrap_or_else(|| Digest::of(b"")));
        planned.push(PlannedPage {
            name: ImageName::new(name.as_str()).map_err(|error| input_error(&error))?,
            index: u32::try_from(page.row.page_index).unwrap_or(0),
            input_path: page.row.source_name,
            input_hash: Digest::of_parts(made_of),
            cost: 1.0,
            input: PageReadings {
                image_name: name,
                page_index: page.row.page_index,
                inputs: inputs.clone(),
                lines,
                geometry: page.geometry.map_err(|error| input_error(&error))?,
            },
        });
    }
    Ok(planned)
}
