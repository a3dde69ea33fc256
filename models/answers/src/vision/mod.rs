//! Google Vision: `images:annotate` and `images:asyncBatchAnnotate` with DOCUMENT_TEXT_DETECTION.
//!
//! By the documentation of its REST interface (cloud.google.com/vision/docs/reference/rest/v1/AnnotateImageResponse): members that have
//! their usual value are left out, and enumerations may come as numbers. Members that are null or of another type count as absent: one
//! odd member must not cost a page that has been paid for.

mod archive;
mod lines;
mod operation;
mod request;
mod response;
#[cfg(test)]
mod testing;

pub use archive::ArchiveRow;
pub use lines::{Bounds, VisionLine, VisionPage, VisionWord};
pub use operation::{
    OPERATION_IMAGES, OperationState, PageResponse, operation_body, operation_name, operation_responses,
    operation_state, responses_in,
};
pub use request::{Feature, IMAGE_BYTES, REQUEST, annotate_body, encoded_size};
pub use response::{VisionError, responses};
