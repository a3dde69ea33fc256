//! From line contours to ordered line images.
