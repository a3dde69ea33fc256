//! Commands that read results: the pages of a volume with their lines, failed pages, and the search in all of them.
//!
//! These are the only commands that open artifacts. They read them through the artifact store of the configuration, as exports do, so
//! an answer is what a user of the files would find, and nothing about texts is kept in the database, whose size must not grow
//! with the pages read. Search has indexes on the disk of this machine, which are made of the artifacts. The room must not write artifacts.

mod computing;
mod failed;
mod indexes;
mod library;
mod pages;
mod search;

pub use self::failed::Failed;
#[cfg(test)]
pub use self::indexes::Freshness;
pub use self::indexes::Indexes;
pub use self::library::Library;
pub use self::pages::{List, Page, Show};
pub use self::search::Search;
