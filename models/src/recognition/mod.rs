//! From a line image to text: line preprocessing, charsets, CTC decoding, EWTS and Unicode.

pub mod charset;
pub(crate) mod crnn;
pub mod ctc;
pub(crate) mod easter2;
pub mod ewts;
pub(crate) mod fixed_size;
pub mod language;
pub mod legibility;
pub mod line_image;
pub mod network;
pub mod normalize;
pub mod read;
pub mod syllable;
