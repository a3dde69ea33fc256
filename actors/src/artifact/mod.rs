//! What the stages hand to each other: Parquet tables of one row type each, the keys they live under, and the provenance
//! they carry. The room knows the columns, not the algorithms that fill them, nor where a store keeps its bytes.

mod columns;
#[cfg(test)]
mod documented;
mod error;
mod errors;
mod fingerprint;
mod image_name;
mod layout;
mod line_detection;
mod line_images;
mod markers;
mod nested;
mod ocr_results;
mod provenance;
mod regions;
mod row;
mod table;
#[cfg(test)]
mod tests;
mod writer;

pub use columns::{ColumnError, ColumnValue, Columns};
pub use error::{ArtifactError, InvalidImageName};
pub use errors::ErrorRow;
pub use fingerprint::{Digest, Fingerprint, InvalidDigest, cfg_hash};
pub use image_name::{ImageName, image_names};
pub use layout::{ArtifactLayout, Markers, ShardLayout, VolumeLayout};
pub use line_detection::LineDetectionRow;
pub use line_images::LineImageRow;
pub use markers::{VolumeDone, VolumeEnd, VolumeFailed};
pub use nested::{Contour, TpsPoint};
pub use ocr_results::{OcrResultRow, Segment};
pub use provenance::{ModelRef, Provenance};
pub use regions::PageRegion;
pub use row::ArtifactRow;
pub use table::{Table, TableReader, decode_table, read_table};
pub use writer::{TableWriter, encode_table, write_table};
