//! Bytes to pixels.
