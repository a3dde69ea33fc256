//! Commands about the corrections of people: what was corrected, by whom and when, the corrected lines as a data set, and transcriptions of
//! other programs as corrections.
//!
//! Single edits are made over HTTP, in the page viewer. What people have corrected is kept in the database and never changed: the commands
//! that read fold it as the viewer does, and `import` makes edits as a person would who types a transcription in.

mod export;
mod history;
mod import;
mod list;
mod plan;

pub use self::export::Export;
pub use self::history::History;
pub use self::import::Import;
pub use self::list::List;
