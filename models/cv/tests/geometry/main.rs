//! Page geometry against OpenCV, SciPy and the thin-plate-spline package. `golden/cv` and `golden/tps` hold what those
//! libraries gave; their READMEs describe the files.

#![expect(clippy::panic, clippy::unwrap_used, reason = "helpers of tests fail the test")]

mod contours;
mod filters;
mod golden;
mod polygons;
mod scaling;
mod splines;
mod warps;
