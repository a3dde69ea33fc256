//! Text of a line image: preparation for a network, charsets, CTC decoding, EWTS and Unicode. The network itself is behind
//! [`crate::inference::Recognizer`].
//!
//! The modules are steps of one pipeline, and each takes what the one before gives: [`line_image`] makes batches,
//! [`ctc`] makes tokens of the scores, with the help of [`language`] where a bundle has n-grams; [`charset`] spells
//! tokens, [`ewts`] and [`normalize`] bring the spelling to one form, [`syllable`] says where it stands on the line,
//! [`legibility`] which lines to leave out. [`read`] runs them in order and is what a stage calls; [`perplexity`] judges texts of any
//! origin. The steps are public,
//! because evaluation, tests and benches look at what is between them.
//!
//! Networks disagree on preparation and spelling, not on decoding: so the first and the last steps are enums that a bundle
//! names, and the middle has one form. Nothing here reads a file or knows a bundle.

pub mod charset;
pub mod closer;
pub mod ctc;
pub mod ewts;
pub mod language;
pub mod legibility;
pub mod line_image;
pub mod normalize;
pub mod perplexity;
pub mod read;
pub mod syllable;
