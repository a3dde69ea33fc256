//! From a line image to text: line preprocessing, charsets, CTC decoding, EWTS and Unicode.

pub mod network;
