//! Values of the keys of a job configuration that are one of a few words.

use serde::{Deserialize, Serialize};

/// Encoding of the text of results.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum TextEncoding {
    #[default]
    Unicode,
    /// Extended Wylie transliteration (EWTS).
    Wylie,
}

/// Network that finds lines: one with a single class, or the line class of a layout network.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum LineMode {
    #[default]
    Line,
    Layout,
}

/// Artifacts that the stages of lines leave.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Artifacts {
    /// Tables, straightened pages and pictures of lines.
    #[default]
    Pictures,
    /// Tables alone: lines are cut out of the scans where they are read.
    Tables,
}

impl Artifacts {
    pub(super) fn is_default(&self) -> bool {
        *self == Self::default()
    }
}

/// Pages of a volume whose pictures the pipeline `page_ocr` reads; of the others it takes the text that their file holds.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum ReadPages {
    /// Those without text and those whose text is not that of the page.
    #[default]
    Broken,
    All,
    /// Those without any text, whatever the text of others is worth.
    Empty,
}

/// Pages of the pipeline `page_ocr` whose own text seems good and is compared with their picture all the same. Those that it
/// contradicts are read.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Verify {
    /// Those that a picture covers, where texts that belong to another page are met with, and a few of the others.
    #[default]
    Sample,
    Never,
    Always,
}

/// Consequence of a failed page for its volume.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum OnItemError {
    /// The stage fails.
    Fail,
    /// The page is recorded in the errors table and left out of the results.
    #[default]
    Skip,
    /// The page is recorded in the errors table, and stands in the results with no lines.
    Blank,
}

/// Counter of failed tries that ends a task.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum RetryScope {
    /// Tries over all stages of the task.
    #[default]
    Task,
    /// Tries of each stage: the count starts anew with the next one.
    Stage,
}

/// Decoder that turns the network's scores into the text of a line.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Decoder {
    #[default]
    Beam,
    Greedy,
}

/// Order in which the items of a stage are started.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum SchedulingOrder {
    #[default]
    Fifo,
    /// Shortest first, which cuts the mean waiting time.
    Sjf,
    /// Longest first, which cuts the time until all are done.
    Lpt,
}

/// Layout of the artifacts of a job below the root of a store.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum LayoutName {
    /// `jobs/{job}/volumes/{w}-{i}/{stage}/...`
    #[default]
    BdrcV2,
    /// `output/jobs/{job}/volumes/{w}-{i}/artifacts/{stage}/...`
    BdrcV1,
    /// `ocr-bboxes/{exchange}/{source_id}/...`, where a web service reads the boxes of each page. Exchange and source id
    /// are the two parts of the volume id. No job is named: its latest run replaces what was there.
    OcrBboxes,
}

impl LayoutName {
    /// The layouts in which finished volumes are marked by files.
    pub const WITH_MARKERS: [Self; 1] = [Self::BdrcV1];

    pub fn has_markers(self) -> bool {
        Self::WITH_MARKERS.contains(&self)
    }
}
