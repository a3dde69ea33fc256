//! Answers of engines that others run: Google Vision, language models that see a page, and models that embed texts. The crate makes the bodies of requests and
//! reads those of answers, whatever they may hold, into lines of text; it knows neither HTTP nor tables.
//!
//! Google's answer has words with boxes and confidences. A language model gives text alone, which [`align`] divides among lines whose
//! places are known from elsewhere, and it may loop, refuse or stop too early, which is an error that keeps the text.

pub mod align;
pub mod batches;
pub mod chat;
pub mod clean;
pub mod embeddings;
pub mod picture_size;
pub mod short_message;
pub mod vision;

#[cfg(test)]
mod fuzz;
#[cfg(test)]
mod golden;
