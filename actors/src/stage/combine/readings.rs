//! Readings of a volume by other jobs.

use std::collections::HashMap;
use std::sync::Arc;

use parkhang_combine::{Bounds, Line, Reading, Syllable, syllables};
use parkhang_models::line_detection::PageGeometry;
use parkhang_models::recognition::ewts::to_unicode_exact;

use crate::stage::page_geometry::{bounds_on_scan, page_geometry};
use crate::stage::page_stage::{PlannedPage, VolumeRun};
use parkhang_core::domain::{ErrorCategory, JobKey, StageError, TextEncoding};
use parkhang_store::artifact::{
    ArtifactLayout, Digest, ImageName, LineDetectionRow, LineImageRow, OcrResultRow, Table, VolumeLayout,
    read_table, texts_key,
};

/// Line of a reading.
#[derive(Debug, Clone)]
pub(super) struct ReadLine {
    pub row: OcrResultRow,
    /// Place on the scan.
    pub bounds: Option<Bounds>,
}

/// A page as several jobs have read it.
#[derive(Debug, Clone)]
pub(crate) struct PageReadings {
    pub(super) image_name: String,
    pub(super) page_index: i32,
    /// The jobs, the preferred one first, whose places the lines have.
    pub(super) jobs: Arc<Vec<JobKey>>,
    /// Lines of each of them in reading order.
    pub(super) lines: Vec<Vec<ReadLine>>,
    /// Way to the scan from the straightened page of the first job.
    pub(super) geometry: PageGeometry,
}

impl PageReadings {
    /// The readings as they are compared.
    pub(super) fn readings(&self) -> Vec<Reading> {
        let reading = |lines: &Vec<ReadLine>| Reading {
            lines: lines.iter().map(ReadLine::line).collect(),
        };
        self.lines.iter().map(reading).collect()
    }
}

impl ReadLine {
    fn line(&self) -> Line {
        Line {
            syllables: syllables_of(&self.row),
            bounds: self.bounds,
            plausibility: None,
        }
    }
}

/// Syllables of a line in Unicode: its segments, or where these are not its text the parts of that, as sure as the line is.
pub(super) fn syllables_of(row: &OcrResultRow) -> Vec<Syllable> {
    if has_syllables(row) {
        let syllable = |segment: &parkhang_store::artifact::Segment| Syllable {
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

/// A volume as one job has read it.
struct Input {
    pages: Table<LineDetectionRow>,
    texts: Table<OcrResultRow>,
    lines: HashMap<String, LineImageRow>,
}

impl Input {
    /// # Errors
    ///
    /// [`ErrorCategory::Pending`] where the job has not read the volume yet.
    async fn read(run: &VolumeRun, job: &JobKey, layout: &VolumeLayout) -> Result<Self, StageError> {
        let store = run.store.as_ref();
        let artifact_error = |error| run.artifact_error(&error);
        let key = texts_key(store, layout)
            .await
            .map_err(|error| run.storage_error(&error))?;
        let Some(key) = key else {
            let message = format!("job {job} to read {}", run.volume());
            return Err(run.error(ErrorCategory::Pending, message));
        };
        let texts = read_table(store, &key).await.map_err(artifact_error)?;
        let pages = read_table(store, &layout.line_detection())
            .await
            .map_err(artifact_error)?;
        let lines = read_table::<LineImageRow>(store, &layout.line_images())
            .await
            .map_err(artifact_error)?;
        let by_guid = lines.rows.into_iter().map(|line| (line.line_guid.clone(), line));
        Ok(Self {
            pages,
            texts,
            lines: by_guid.collect(),
        })
    }

    /// Lines of each page in reading order, with their places on the scan.
    fn lines(&self, run: &VolumeRun) -> Result<HashMap<String, Vec<ReadLine>>, StageError> {
        let mut geometries = HashMap::new();
        for page in &self.pages.rows {
            let geometry = page_geometry(page).map_err(|error| run.error(ErrorCategory::Input, error))?;
            geometries.insert(page.image_name.as_str(), geometry);
        }
        let mut pages: HashMap<String, Vec<ReadLine>> = HashMap::new();
        for row in &self.texts.rows {
            let bounds = geometries.get(row.image_name.as_str()).and_then(|to_scan| {
                let [left, top, right, bottom] =
                    bounds_on_scan(row, self.lines.get(&row.line_guid), to_scan)?;
                Some(Bounds {
                    left,
                    top,
                    right,
                    bottom,
                })
            });
            let line = ReadLine {
                row: row.clone(),
                bounds,
            };
            pages.entry(row.image_name.clone()).or_default().push(line);
        }
        // The table need not be in the order of the lines.
        pages
            .values_mut()
            .for_each(|lines| lines.sort_by_key(|line| line.row.line_index));
        Ok(pages)
    }

    /// Digest of what was read on a page; that of nothing where it was not read.
    fn made_of(&self, page: &str) -> Digest {
        let made_of = self.texts.provenance.pages.get(page);
        made_of.map_or_else(|| Digest::of(b""), |made_of| made_of.digest())
    }
}

/// Reads what the jobs have read that the job of the run combines.
///
/// # Errors
///
/// When the job names none, one of them has not read the volume yet, or a table cannot be read.
pub(super) async fn read_inputs(run: &VolumeRun) -> Result<Vec<PlannedPage<PageReadings>>, StageError> {
    let config = run.config();
    let jobs: Arc<Vec<JobKey>> = Arc::new(config.inputs.iter().cloned().collect());
    let mut inputs = Vec::with_capacity(jobs.len());
    for job in jobs.iter() {
        let layout = ArtifactLayout::new(config.layout, job).volume(run.volume());
        inputs.push(Input::read(run, job, &layout).await?);
    }
    let Some(first) = inputs.first() else {
        let message = "the job names none whose readings are to be combined: inputs=JOB,JOB";
        return Err(run.error(ErrorCategory::Config, message));
    };
    let mut lines = Vec::with_capacity(inputs.len());
    for input in &inputs {
        lines.push(input.lines(run)?);
    }
    let mut planned = Vec::with_capacity(first.pages.rows.len());
    for page in &first.pages.rows {
        let input_error = |error: &dyn std::fmt::Display| run.error(ErrorCategory::Input, error);
        let name = page.image_name.as_str();
        planned.push(PlannedPage {
            name: ImageName::new(name).map_err(|error| input_error(&error))?,
            index: u32::try_from(page.page_index).unwrap_or(0),
            input_path: page.source_name.clone(),
            input_hash: Digest::of_parts(inputs.iter().map(|input| input.made_of(name))),
            cost: 1.0,
            input: PageReadings {
                image_name: name.to_owned(),
                page_index: page.page_index,
                jobs: jobs.clone(),
                lines: lines
                    .iter_mut()
                    .map(|pages| pages.remove(name).unwrap_or_default())
                    .collect(),
                geometry: page_geometry(page).map_err(|error| input_error(&error))?,
            },
        });
    }
    Ok(planned)
}
