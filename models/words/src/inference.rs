//! The seam between the geometry of pages and whatever runs the networks: plain `f32` buffers in, plain values out, so that
//! actors can put their threads between, and a test can stand in for a network.

pub use parkhang_models::inference::InferenceError;

/// Pictures of one size, `[3][height][width]` each, the channels blue, green and red, in the range that a network was trained on.
#[derive(Debug, Clone, PartialEq)]
pub struct ImageBatch {
    /// Number of pictures; `values.len() == count * 3 * height * width`.
    pub count: usize,
    pub height: usize,
    pub width: usize,
    pub values: Vec<f32>,
}

impl ImageBatch {
    /// Channels of a picture.
    pub const CHANNELS: usize = 3;
}

/// A network that tells which way up a page is. Implementations are shared between threads and keep no state between calls.
pub trait OrientationClassifier: Send + Sync + std::fmt::Debug {
    /// Probability of each [`Turn`](crate::Turn), in their order, of each picture of 224 x 224 pixels.
    ///
    /// # Errors
    /// [`InferenceError`], of which [`InferenceError::Shape`] says that the pictures are not of this size.
    fn probabilities(&self, pictures: &ImageBatch) -> Result<Vec<[f32; 4]>, InferenceError>;
}

/// A network that finds text. Implementations are shared between threads and keep no state between calls.
pub trait TextDetector: Send + Sync + std::fmt::Debug {
    /// Probability that a pixel is text, `count * height * width` values. Height and width are multiples of 32.
    ///
    /// # Errors
    /// [`InferenceError`], of which [`InferenceError::Shape`] says that the pages are not of such a size.
    fn probabilities(&self, pages: &ImageBatch) -> Result<Vec<f32>, InferenceError>;
}

/// A network that reads line images, 48 pixels high. Implementations are shared between threads and keep no state between calls.
pub trait WordRecognizer: Send + Sync + std::fmt::Debug {
    /// The frames of each line, one for 8 pixels of its width.
    ///
    /// # Errors
    /// [`InferenceError`], of which [`InferenceError::Shape`] says that the lines are not of such a size.
    fn frames(&self, lines: &ImageBatch) -> Result<Vec<Vec<Frame>>, InferenceError>;
}

/// A network that finds the regions of a page. Implementations are shared between threads and keep no state between calls.
pub trait LayoutDetector: Send + Sync + std::fmt::Debug {
    /// The maps of each page of 608 x 800 pixels.
    ///
    /// # Errors
    /// [`InferenceError`], of which [`InferenceError::Shape`] says that the pages are not of this size.
    fn maps(&self, pages: &ImageBatch) -> Result<Vec<LayoutMaps>, InferenceError>;
}

/// A network that reads the structure of tables. Implementations are shared between threads and keep no state between calls.
pub trait TableReader: Send + Sync + std::fmt::Debug {
    /// The tokens of each table, a picture of 488 x 488 pixels.
    ///
    /// # Errors
    /// [`InferenceError`], of which [`InferenceError::Shape`] says that the pictures are not of this size.
    fn steps(&self, tables: &ImageBatch) -> Result<Vec<Vec<TableStep>>, InferenceError>;
}

/// Maps of a layout detector for a page, from the finest level to the coarsest.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct LayoutMaps {
    pub levels: Vec<LayoutLevel>,
}

/// One of the maps of a layout detector.
#[derive(Debug, Clone, PartialEq)]
pub struct LayoutLevel {
    pub rows: usize,
    pub columns: usize,
    /// `[VALUES][rows][columns]`: a score for each class before the sigmoid; then for the left, upper, right and lower side the scores
    /// of its distances, before the softmax.
    pub values: Vec<f32>,
}

impl LayoutLevel {
    /// Classes of regions.
    pub const CLASSES: usize = 10;
    /// Distances that a side is told by: 0 to 7 times the stride of the level.
    pub const BINS: usize = 8;
    /// Values of a cell.
    pub const VALUES: usize = Self::CLASSES + 4 * Self::BINS;
}

/// Classes of the tokens of tables, with the one before the first token and the one after the last.
pub const TABLE_CLASSES: usize = 50;

/// A token of a table.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct TableStep {
    pub class: usize,
    pub probability: f32,
    /// Corners of the cell that the token begins, x and y by turns, as shares of the longer side of the table.
    pub corners: [f32; 8],
}

/// What a recogniser reads in one place of a line.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Frame {
    /// The likeliest class; 0 is the blank of CTC.
    pub class: u32,
    /// Its probability.
    pub probability: f32,
}
