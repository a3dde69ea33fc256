//! From a line image to text: line preprocessing, charsets, CTC decoding, EWTS and Unicode.

pub mod charset;
pub mod ctc;
pub mod ewts;
pub mod language;
pub mod line_image;
pub mod network;
pub mod normalize;
pub mod read;
pub mod syllable;
