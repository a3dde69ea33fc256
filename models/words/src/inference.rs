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

/// What a recogniser reads in one place of a line.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Frame {
    /// The likeliest class; 0 is the blank of CTC.
    pub class: u32,
    /// Its probability.
    pub probability: f32,
}
