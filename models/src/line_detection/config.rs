use serde::{Deserialize, Serialize};

use crate::algorithms::Algorithms;
use crate::inference::Classes;

/// Grey level of what a turned page does not cover. Upstream leaves it black, which the binarisation then sees as ink.
pub(super) const PAPER: u8 = 255;
const BLACK: u8 = 0;

/// Settings of line detection. The defaults are those of BDRC's production line detection (`ldv1`) but for `even_light`,
/// `line_pictures`, `turned_pages`, `negatives`, `short_lines`, `part_columns`, `line_kinds`, `max_rows_portrait`, `tps_threshold` and `level_all_lines`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct DetectionConfig {
    pub algorithms: Algorithms,
    /// Classes that the network is asked for: lines alone, or those of a layout.
    pub classes: Classes,
    /// A pixel belongs to a line when its probability is above this.
    pub threshold: f32,
    /// A pixel belongs to a region beside the lines when its probability is above this.
    pub layout_threshold: f32,
    /// With the classes of a layout, say of whole lines what they are, and leave out what else is small or lies on a line.
    pub line_kinds: bool,
    /// Side of the neighbourhood of the adaptive threshold, odd, in frame pixels.
    pub binarise_block: u32,
    /// Difference of ink from the mean of its neighbourhood, in grey levels.
    pub binarise_c: i32,
    /// Brighten what lies in shadow before it is binarised.
    pub even_light: bool,
    /// Take a picture of one line for what it is, whole and as it stands.
    pub line_pictures: bool,
    /// Look for lines on a page as it lies and turned, where it may have been scanned on its side or upside down.
    pub turned_pages: bool,
    /// Look for lines on the negative of a page whose writing may be lighter than its paper.
    pub negatives: bool,
    /// Take what is smaller than the smallest line, but as high as the lines of its page, for a line.
    pub short_lines: bool,
    /// Part lines of columns that stand so close that the network takes what is beside each other for one line.
    pub part_columns: bool,
    /// Largest frame, in pixels.
    pub max_width: u32,
    pub max_height: u32,
    /// Largest number of tile rows of a page that is at least as wide as it is high.
    pub max_rows: u32,
    /// Largest number of tile rows of a page that is higher than it is wide. In the two rows of `ldv1` the lines of a
    /// modern book page become thinner than `min_line_height`.
    pub max_rows_portrait: u32,
    /// A further tile row that would hold no more pixel rows than this is avoided by shrinking the page a little more.
    pub snap: u32,
    /// Smallest line: area as a share of the frame, width as a share of the frame's width, height in frame pixels.
    pub min_line_area: f64,
    pub min_line_width: f64,
    pub min_line_height: u32,
    /// Least skew that is corrected, in degrees; a contour steeper than `max_angle_deg` has no say in it.
    pub min_angle_deg: f32,
    pub max_angle_deg: f32,
    /// Skew in degrees from which the page is rotated and segmented again; below it the contours of the first pass are rotated.
    pub second_pass_angle_deg: f32,
    /// Flatten pages with bent lines by a thin-plate spline.
    pub use_tps: bool,
    /// The spline is used when more than this share of the lines is bent. 0 means that one is enough, as in `ldv1`; but
    /// then a single blob that the network took for a bent line distorts a whole page.
    pub tps_threshold: f32,
    /// Level all lines of a page; only the typical one if not, as `ldv1` does, whose spline levels a line less the farther it is from that one.
    pub level_all_lines: bool,
    /// Regularisation of the spline.
    pub tps_alpha: f32,
}

impl Default for DetectionConfig {
    fn default() -> Self {
        Self {
            algorithms: Algorithms::Gen2,
            classes: Classes::Line,
            threshold: 0.85,
            layout_threshold: 0.8,
            line_kinds: true,
            binarise_block: 31,
            binarise_c: 15,
            even_light: true,
            line_pictures: true,
            turned_pages: true,
            negatives: true,
            short_lines: true,
            part_columns: true,
            max_width: 4096,
            max_height: 2048,
            max_rows: 2,
            max_rows_portrait: 3,
            snap: 78,
            min_line_area: 0.001,
            min_line_width: 0.01,
            min_line_height: 10,
            min_angle_deg: 0.3,
            max_angle_deg: 5.0,
            second_pass_angle_deg: 3.0,
            use_tps: true,
            tps_threshold: 0.25,
            level_all_lines: true,
            tps_alpha: 0.5,
        }
    }
}

impl DetectionConfig {
    /// Exactly what BDRC's `ldv1` does, for comparison with its results.
    pub fn ldv1() -> Self {
        Self {
            even_light: false,
            line_pictures: false,
            turned_pages: false,
            negatives: false,
            short_lines: false,
            part_columns: false,
            line_kinds: false,
            max_rows_portrait: 2,
            tps_threshold: 0.0,
            level_all_lines: false,
            ..Self::default()
        }
    }

    /// Settings of `ocr-inference`, for comparison with its results. Its own spline has failed on every page since October
    /// 2024; where it is asked for, pages are flattened as in the second generation.
    ///
    /// `max_rows`, `max_rows_portrait`, `snap` and `second_pass_angle_deg` have no say: pages are clamped to
    /// `max_width` by `max_height` and never segmented twice.
    pub fn gen1() -> Self {
        Self {
            algorithms: Algorithms::Gen1,
            threshold: 0.9,
            binarise_block: 51,
            binarise_c: 13,
            even_light: false,
            line_pictures: false,
            turned_pages: false,
            negatives: false,
            short_lines: false,
            part_columns: false,
            line_kinds: false,
            min_angle_deg: 0.5,
            use_tps: false,
            ..Self::default()
        }
    }

    /// Grey level that shows where a straightened page ends.
    pub fn background(&self) -> u8 {
        match self.algorithms {
            Algorithms::Gen1 => BLACK,
            Algorithms::Gen2 => PAPER,
        }
    }
}
