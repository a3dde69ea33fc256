use super::nested::{Contour, TpsPoint};
use super::regions::PageRegion;
use super::row::artifact_row;

artifact_row! {
    /// Row of `line_detection.parquet`: a page. Contours and the rotated image are in pixels of the straightened page.
    pub struct LineDetectionRow = "line_detection", version 1, batches of 32 {
        image_name: String,
        /// Key of the straightened page image.
        rotated_image_path: String,
        /// Line mask of the straightened page, a PNG.
        rot_mask: Vec<u8>,
        /// Angle by which the page was turned, in degrees, counter-clockwise positive.
        page_angle: f32,
        dewarping_applied: bool,
        /// Share of the sampled lines that bend enough to ask for dewarping; absent when none could be sampled.
        tps_ratio: Option<f32>,
        filtered_contours: Vec<Contour>,
        /// Position of the page in its volume, from 0.
        page_index: i32,
        /// Name of the page's file as its source gave it.
        source_name: String,
        /// Width of the original page, in pixels, after the EXIF orientation.
        image_width: i32,
        image_height: i32,
        /// Width of the straightened page in pixels.
        rotated_width: i32,
        rotated_height: i32,
        /// Control points of the spline that dewarped the page.
        tps_points: Option<Vec<TpsPoint>>,
        /// Smoothing of that spline.
        tps_alpha: Option<f32>,
        /// `sha256:` and the hash of the page's file.
        input_sha256: String,
        /// True if the page came as one bit per pixel.
        is_binary: bool,
        /// Regions that a layout network saw besides lines; absent where none was asked.
        regions: Option<Vec<PageRegion>>,
        /// True if the writing is lighter than its paper, so that the straightened page is a negative; absent in tables of earlier builds.
        is_negative: Option<bool>,
    }
}
