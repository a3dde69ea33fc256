//! Search in what was read.
//!
//! The unit of search is the page: phrases go over the ends of its lines, and a hit shows the lines that match. A volume's index is made
//! from its text alone ([`index_volume`]) and is an artifact like any other; the index of a job ([`IndexFolder`]) is put together from those on
//! the disk of the machine that searches, where it can be dropped and made again. The crate knows neither stores nor tasks. The
//! engine is tantivy; what is ours are the tokens, the forgiveness for misread letters, and the life of the folder.

mod bundle;
mod compaction;
mod error;
mod folder;
mod fuzzy;
mod highlight;
mod list;
mod part;
mod query;
mod search;
mod snapshot;
mod token;
mod vectors;
mod volume;

pub use error::SearchError;
pub use folder::{AddedVolume, IndexFolder, IndexWriter};
pub use highlight::HitLine;
pub use list::{Refused, Version};
pub use query::{Clause, Filter, FilterField, Freedom, Occur, Query, TextField, parse};
pub use search::{Found, Hit, QueryVectors, Request, search};
pub use snapshot::Snapshot;
pub use token::{Token, line_tokens, query_tokens, tokens};
pub use volume::{ChunkText, PageText, VolumeText, index_volume};
