//! Extended Wylie transliteration (EWTS, Tibetan and Himalayan Library) to Tibetan Unicode and back, with the readings
//! of `pyewts` 1.0.0: what the standard leaves open is decided as that program decides it.
//!
//! Known and intended differences: a text that starts with a capital `M` keeps all its letters (there it loses all but
//! two), an escape that is no Unicode scalar value is dropped (there it raises an error or makes a lone surrogate), and
//! there are no warnings about spellings.

mod legal;
mod letters;
mod sloppy;
mod token;
mod unicode;
mod wylie;

pub use unicode::{to_unicode, to_unicode_exact};
pub use wylie::to_wylie;

#[cfg(test)]
mod tests;
