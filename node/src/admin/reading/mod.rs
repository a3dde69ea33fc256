//! Commands that read results: the pages of a volume with their lines, failed pages, and the search for a text.
//!
//! These are the only commands that open artifacts. They read them through the artifact store of the configuration, as exports do, so
//! an answer is what a user of the files would find, and nothing about texts is kept in the database, whose size must not grow
//! with the pages read. The room must not write artifacts.

mod failed;
mod library;
mod pages;
mod search;

pub use self::failed::Failed;
pub use self::library::Library;
pub use self::pages::{List, Show, page};
pub use self::search::Search;
