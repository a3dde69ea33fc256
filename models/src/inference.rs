//! The seam between the algorithms and whatever runs the networks: plain `f32` buffers in, plain `f32` buffers out, so
//! that nothing outside the network modules names a tensor type and a test can stand in for a network.

use std::ops::Range;

use serde::{Deserialize, Serialize};

pub use parkhang_kernels::InferenceError;

/// Classes that a segmenter is asked to tell apart. Its answer has one plane of probabilities for each class of a tile.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Classes {
    /// Lines and nothing else: one plane.
    #[default]
    Line,
    /// Background, image, line, margin, caption, page number and note: a plane for each, in this order. A network that does not know
    /// one of them gives it no probability.
    Layout,
}

impl Classes {
    /// Number of planes in the answer for a tile.
    pub fn planes(self) -> usize {
        match self {
            Self::Line => 1,
            Self::Layout => 7,
        }
    }

    /// Index of the plane that holds the lines.
    pub fn line_plane(self) -> usize {
        match self {
            Self::Line => 0,
            Self::Layout => 2,
        }
    }
}

/// Square tiles of a binarised page, row-major, one channel, `1.0` = paper and `0.0` = ink.
#[derive(Debug, Clone, PartialEq)]
pub struct TileBatch {
    /// Side of a tile in pixels.
    pub size: usize,
    /// Number of tiles; `values.len() == count * size * size`.
    pub count: usize,
    pub values: Vec<f32>,
}

/// A network that finds text lines in tiles. Implementations are shared between threads and do not keep state between calls.
pub trait Segmenter: Send + Sync + std::fmt::Debug {
    /// Side of the square tiles this network takes, in pixels.
    fn tile_size(&self) -> usize;

    /// Probability (after the sigmoid) that a pixel belongs to the core of a text line: `count * size * size` values in
    /// the order of the input.
    ///
    /// # Errors
    /// [`InferenceError`], of which [`InferenceError::Shape`] says that the tiles are not of this network's size.
    fn line_probabilities(&self, tiles: &TileBatch) -> Result<Vec<f32>, InferenceError>;

    /// Returns whether the network knows the classes of a layout.
    fn has_layout(&self) -> bool {
        false
    }

    /// Probability of each class of [`Classes::Layout`]: `count * planes * size * size` values, for each tile plane after plane.
    ///
    /// # Errors
    /// [`InferenceError::NoLayout`] from a network without these classes.
    fn layout_probabilities(&self, tiles: &TileBatch) -> Result<Vec<f32>, InferenceError> {
        let _ = tiles;
        Err(InferenceError::NoLayout)
    }

    /// Probabilities of `classes`, from the one of the two methods above: `count * planes * size * size` values.
    ///
    /// # Errors
    /// Those of that method.
    fn probabilities(&self, tiles: &TileBatch, classes: Classes) -> Result<Vec<f32>, InferenceError> {
        match classes {
            Classes::Line => self.line_probabilities(tiles),
            Classes::Layout => self.layout_probabilities(tiles),
        }
    }
}

/// Line images of one height, padded to one width.
#[derive(Debug, Clone, PartialEq)]
pub struct LineBatch {
    pub height: usize,
    pub width: usize,
    /// True width of each line before padding, in pixels; its length is the batch size.
    pub line_widths: Vec<usize>,
    /// `line_widths.len() * height * width` values, row-major per line, in the range the model was trained on.
    pub values: Vec<f32>,
}

impl LineBatch {
    /// Columns of lines, given by their places, as a batch of this width of their own.
    pub(crate) fn crop(&self, parts: &[(usize, Range<usize>)], width: usize) -> Self {
        let mut values = Vec::with_capacity(parts.len() * self.height * width);
        for (line, columns) in parts {
            let first = line * self.height * self.width;
            for row in self.values[first..first + self.height * self.width].chunks_exact(self.width) {
                values.extend_from_slice(&row[columns.clone()]);
                values.resize(values.len() + width - columns.len(), 0.0);
            }
        }
        Self {
            height: self.height,
            width,
            line_widths: parts.iter().map(|(_, columns)| columns.len()).collect(),
            values,
        }
    }
}

/// Scores of one line: `frames x classes`, row-major, class 0 is the CTC blank. Log-softmax has not been applied.
#[derive(Debug, Clone, PartialEq)]
pub struct Logits {
    pub frames: usize,
    pub classes: usize,
    pub values: Vec<f32>,
}

impl Logits {
    /// Scores of the classes of one frame.
    pub(crate) fn frame(&self, frame: usize) -> &[f32] {
        &self.values[frame * self.classes..][..self.classes]
    }
}

/// A network that reads line images. Implementations are shared between threads and do not keep state between calls.
pub trait Recognizer: Send + Sync + std::fmt::Debug {
    /// One [`Logits`] per line of the batch, cut to the frames that the line's true width covers.
    ///
    /// # Errors
    /// [`InferenceError`], of which [`InferenceError::Shape`] says that the lines are not of this network's size.
    fn logits(&self, lines: &LineBatch) -> Result<Vec<Logits>, InferenceError>;
}
