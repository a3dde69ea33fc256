//! One text made of several readings of the same page.
//!
//! Readings differ in their lines as well as in their letters: another engine cuts a page elsewhere, merges two lines or has no places
//! at all. So the work has three parts, each a pure function. [`Skeleton`] finds the lines of the page and gives each of
//! them what every reading has there, by place where there are places and by the letters where there are none. [`Network`] aligns the
//! readings of one line syllable by syllable. [`combine`] decides, for a line or for each of its syllables, whom to
//! believe, by the weights and probabilities of [`Trust`]; these are learnt from a truth where there is one.
//!
//! After J. G. Fiscus, "A post-processing system to yield reduced word error rates: Recognizer Output Voting Error Reduction (ROVER)",
//! 1997.

mod curve;
mod decide;
mod learn;
mod network;
mod reading;
mod skeleton;
mod syllables;

pub use decide::{Combined, Piece, combine};
pub use learn::{Lesson, learn};
pub use network::{Network, Slot};
pub use parkhang_algorithms::{Combination, Knot, Trust};
pub use reading::{Bounds, Line, Reading};
pub use skeleton::{Place, Skeleton, SkeletonLine};
pub use syllables::{Syllable, syllables};
