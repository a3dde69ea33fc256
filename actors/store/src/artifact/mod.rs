//! Artifacts, which stages hand to each other: Parquet tables of one row type each, the keys they live under, and the
//! provenance they carry.
//!
//! The room knows the columns, not the algorithms that fill them, nor where a store keeps its bytes. A table is a Rust struct
//! whose fields are its columns (`artifact_row!`), so that schema, writer and reader cannot differ; a column is added at the
//! end, and readers ignore columns that they do not know. Tables are read by pyarrow, duckdb and polars too, so their types are
//! those that all of these agree on. The same rows and provenance make the same bytes: tests and users can compare files, and
//! no time of day is in them.
//!
//! Provenance says what made a table, page by page, by fingerprints that are chained from stage to stage. That is what resume
//! goes by: a page whose fingerprint stands in the table is not made again, and no image is opened to find that out. Keys are
//! built in `layout` alone, since another program may read them and a second place would drift.

mod answers;
mod archive;
mod blocks;
mod chunks;
mod columns;
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
mod page_boxes;
mod page_text;
mod provenance;
mod regions;
mod row;
mod schema;
mod table;
#[cfg(test)]
mod tests;
mod texts;
mod vectors;
mod words;
mod writer;

pub use answers::KeptAnswer;
pub use archive::{
    ArchiveError, ChatArchiveRow, VisionArchiveRow, chat_archive, read_archive_texts, vision_archive,
};
pub use blocks::{BlockRow, blocks_key};
pub use chunks::{ChunkBox, ChunkRow};
pub use columns::{ColumnError, ColumnValue, Columns};
pub use error::{ArtifactError, InvalidImageName};
pub use errors::{ErrorRow, failed_pages};
pub use fingerprint::{Digest, Fingerprint, InvalidDigest, cfg_hash};
pub use image_name::{ImageName, image_names};
pub use layout::{ArchiveLayout, ArtifactLayout, Markers, ShardLayout, VolumeLayout};
pub use line_detection::LineDetectionRow;
pub use line_images::LineImageRow;
pub use markers::{VolumeDone, VolumeEnd, VolumeFailed};
pub use nested::{Contour, TpsPoint};
pub use ocr_results::{OcrResultRow, Segment};
pub use page_boxes::PageBoxes;
pub use page_text::{LayerWord, PageTextRow, TextVerdict};
pub use provenance::{ModelRef, Provenance, ServiceRef};
pub use regions::PageRegion;
pub use row::ArtifactRow;
pub use schema::{ColumnSchema, TableSchema};
pub use table::{Table, TableReader, decode_table, decoded_table, read_table};
pub use texts::{read_texts, texts_key};
pub use vectors::VectorRow;
pub use words::{WordRow, WordSource, line_text, stands_apart};
pub use writer::{TableWriter, encode_table, encoded_table, write_table};
