//! Readings of a volume by other jobs.

use std::collections::HashMap;
use std::sync::Arc;

use parkhang_combine::{Bounds, Line, Reading, Syllable, syllables};
use parkhang_models::line_detection::PageGeometry;
use parkhang_models::recognition::ewts::to_unicode_exact;

use super::archive::{lines_of, read_archive};
use crate::stage::quality::text_score;
use crate::stage::read_volume::{ReadLine, ReadPage, read_volume};
use parkhang_core::domain::{Input, Inputs, JobKey, LayoutName, TextEncoding, VolumeId};
use parkhang_store::artifact::{
    ArtifactError, ArtifactLayout, Digest, ImageName, LineDetectionRow, OcrResultRow, Segment, texts_key,
};
use parkhang_store::storage::{ArtifactStore, StorageError};

/// A page as several jobs have read it.
#[derive(Debug, Clone)]
pub struct PageReadings {
    pub(super) name: ImageName,
    /// File name of the scan.
    pub source_name: String,
    pub(super) page_index: i32,
    /// The inputs, the preferred one first, whose places the lines have.
    pub(super) inputs: Arc<Vec<Input>>,
    /// Lines of each of them in reading order.
    pub(super) lines: Vec<Vec<ReadLine>>,
    /// Way to the scan from the straightened page of the first job.
    pub(super) geometry: PageGeometry,
    /// Digest of what its texts are made of.
    pub(super) made_of: Digest,
}

impl PageReadings {
    /// The readings as they are compared.
    pub fn readings(&self) -> Vec<Reading> {
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

/// Reason for which the readings of a volume are not to be had.
#[derive(Debug, thiserror::Error)]
pub enum ReadingsError {
    /// An input has not read the volume yet.
    #[error("{input} has not read {volume} yet")]
    Unread { input: Input, volume: VolumeId },
    #[error("the job names none whose readings are to be combined: inputs=JOB,JOB")]
    NoInputs,
    /// A page has a name or a geometry that no page can have.
    #[error("page {page}: {reason}")]
    Page { page: String, reason: String },
    #[error(transparent)]
    Storage(#[from] StorageError),
    #[error(transparent)]
    Artifact(#[from] ArtifactError),
}

/// Pages of a volume as one job has read it.
async fn read_input(
    store: &dyn ArtifactStore,
    volume: &VolumeId,
    layout: LayoutName,
    job: &JobKey,
) -> Result<Vec<ReadPage>, ReadingsError> {
    let layout = ArtifactLayout::new(layout, job).volume(volume);
    let texts = texts_key(store, &layout)
        .await?
        .ok_or_else(|| ReadingsError::Unread {
            input: Input::Job(job.clone()),
            volume: volume.clone(),
        })?;
    Ok(read_volume(store, &layout, &texts).await?)
}

/// Reads a volume page by page as its inputs have read it.
///
/// # Errors
///
/// [`ReadingsError`] where none are named, one has not read the volume yet, or a table cannot be read.
pub async fn read_readings(
    store: &dyn ArtifactStore,
    volume: &VolumeId,
    layout: LayoutName,
    inputs: &Inputs,
) -> Result<Vec<PageReadings>, ReadingsError> {
    let inputs: Arc<Vec<Input>> = Arc::new(inputs.iter().cloned().collect());
    let Some((Input::Job(first), others)) = inputs.split_first() else {
        return Err(ReadingsError::NoInputs);
    };
    let page_error = |page: &LineDetectionRow, reason: &dyn std::fmt::Display| ReadingsError::Page {
        page: page.image_name.clone(),
        reason: reason.to_string(),
    };
    let pages = read_input(store, volume, layout, first).await?;
    let mut beside = Vec::with_capacity(others.len());
    for input in others {
        beside.push(match input {
            Input::Job(job) => {
                let pages = read_input(store, volume, layout, job).await?;
                for page in &pages {
                    if let Err(reason) = &page.geometry {
                        return Err(page_error(&page.row, reason));
                    }
                }
                let by_name = pages.into_iter().map(|page| (page.row.image_name.clone(), page));
                Beside::Job(by_name.collect())
            }
            Input::Archive(reading) => {
                let scans: Vec<&str> = pages.iter().map(|page| page.row.source_name.as_str()).collect();
                Beside::Archive(read_archive(store, volume, *reading, &scans).await?)
            }
        });
    }
    let mut readings = Vec::with_capacity(pages.len());
    for page in pages {
        let others = beside.iter_mut().map(|reading| reading.take(&page.row));
        let others: Vec<_> = others.collect();
        let own = (page.made_of, page.lines);
        let (made_of, lines): (Vec<Option<Digest>>, Vec<Vec<ReadLine>>) =
            std::iter::once(own).chain(others).unzip();
        // A page that was not read is made of nothing.
        let made_of = made_of
            .into_iter()
            .map(|made_of| made_of.unwrap_or_else(|| Digest::of(b"")));
        let name = ImageName::new(page.row.image_name.as_str());
        readings.push(PageReadings {
            name: name.map_err(|reason| page_error(&page.row, &reason))?,
            page_index: page.row.page_index,
            inputs: inputs.clone(),
            lines,
            geometry: page.geometry.map_err(|reason| page_error(&page.row, &reason))?,
            made_of: Digest::of_parts(made_of),
            source_name: page.row.source_name,
        });
    }
    Ok(readings)
}
