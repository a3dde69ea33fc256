//! What was read: the pages of a volume with their lines, and where a text stands.

mod failed;
mod library;
mod pages;
mod search;

pub use self::failed::Failed;
pub use self::library::Library;
pub use self::pages::{List, Show, page};
pub use self::search::Search;
