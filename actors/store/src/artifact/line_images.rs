use super::nested::Contour;
use super::row::artifact_row;

artifact_row! {
    /// Row of `line_images.parquet`: a line, with all it takes to rebuild it. Positions are pixels of the straightened page.
    pub struct LineImageRow = "line_images", version 1, batches of 512 {
        image_name: String,
        /// Reading position of the line on its page, from 0.
        line_index: i32,
        /// Key of the line's image.
        line_image_path: String,
        line_guid: String,
        bbox_x: i32,
        bbox_y: i32,
        bbox_w: i32,
        bbox_h: i32,
        center_x: i32,
        center_y: i32,
        contour: Contour,
        /// Position of the page in its volume, from 0.
        page_index: i32,
        /// Box from which the line image was cut.
        crop_x: i32,
        crop_y: i32,
        crop_w: i32,
        crop_h: i32,
        /// Size of the line image in its own pixels.
        image_width: i32,
        image_height: i32,
        /// True if the page came as one bit per pixel.
        is_binary: bool,
        /// True if the columns of the line were moved up or down until it was level, and its image cut then. Absent in tables of earlier
        /// builds, and taken for false.
        is_levelled: Option<bool>,
    }
}
