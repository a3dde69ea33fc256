use serde::{Deserialize, Serialize};

/// Filling beyond the edge of a turned page, and in a line image outside its own line.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Background {
    /// White, like the paper around the text.
    Paper,
    /// Black, as BDRC's `ocrv1` does; a recogniser trained on such images may want it.
    Black,
}

impl Background {
    pub(super) fn grey(self) -> u8 {
        match self {
            Self::Paper => 255,
            Self::Black => 0,
        }
    }
}

/// Choice of the empty rows and columns of a line image that are dropped. Empty means black, or outside the line.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Trim {
    /// Empty rows and columns at the four edges.
    Edges,
    /// All of them, as BDRC's `ocrv1` does: black rows and columns inside the line vanish, and positions in the line
    /// image no longer map to the page.
    Interior,
}

/// Settings of line extraction. The defaults follow BDRC's `ocrv1`, but light the page evenly, keep the paper around the line and
/// never cut out of its middle.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct ExtractionConfig {
    /// Factor of the margin: the mask of a line is widened by `h * k` and heightened by `h * k * k`, where `h` is the line's
    /// height.
    pub k_factor: f64,
    /// A line image higher than this many times the line is cut again with a smaller factor.
    pub bbox_tolerance: f64,
    /// Join the parts of a line that lie in one row.
    pub merge_lines: bool,
    /// Largest distance in pixels between the middles of two parts of one row; half the median line height when absent.
    pub merge_threshold: Option<f64>,
    /// Read columns of text side by side one after the other; otherwise their lines are joined where they lie in one row.
    pub split_columns: bool,
    /// Share of their perimeter by which contours are simplified; 0 keeps every point.
    pub simplify: f64,
    pub background: Background,
    pub trim: Trim,
    /// Make lines level that slant or are bent on the straightened page.
    pub level_lines: bool,
    /// Brighten what lies in shadow before lines are cut.
    pub even_light: bool,
    /// Largest width of a page in pixels; larger pages are shrunk to fit before lines are cut.
    pub max_width: u32,
    pub max_height: u32,
}

impl Default for ExtractionConfig {
    fn default() -> Self {
        Self {
            k_factor: 1.7,
            bbox_tolerance: 3.0,
            merge_lines: true,
            merge_threshold: None,
            split_columns: true,
            simplify: 0.001,
            background: Background::Paper,
            trim: Trim::Edges,
            level_lines: true,
            even_light: true,
            max_width: 6000,
            max_height: 3000,
        }
    }
}

impl ExtractionConfig {
    /// Exactly what BDRC's `ocrv1` does, for comparison with its results.
    pub fn ocrv1() -> Self {
        Self {
            simplify: 0.0,
            background: Background::Black,
            trim: Trim::Interior,
            level_lines: false,
            even_light: false,
            split_columns: false,
            ..Self::default()
        }
    }

    /// Settings of `ocr-inference`, for comparison with its results. Its pages are cut at their own size.
    pub fn gen1() -> Self {
        Self {
            k_factor: 2.5,
            bbox_tolerance: 4.0,
            background: Background::Black,
            trim: Trim::Interior,
            level_lines: false,
            even_light: false,
            split_columns: false,
            ..Self::default()
        }
    }
}
