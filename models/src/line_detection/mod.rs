//! From a page to its text lines: scale, binarise, tile, segment, stitch, contours, skew, dewarping.

pub mod network;
