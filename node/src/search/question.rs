//! What is searched for.

use clap::Args;
use parkhang_core::domain::VolumeId;
use parkhang_search::{Filter, FilterField, Freedom, Request, parse};

use super::wylie::transliterate;

/// Last hit that can be asked for: whoever has seen so many asks for something else.
const DEEPEST: i64 = 10_000;

/// Query, and how much of its answer is wanted.
#[derive(Debug, Args)]
pub struct Question {
    /// Text to search for.
    #[arg(value_name = "QUERY")]
    query: String,
    /// Search this volume only.
    #[arg(long, value_name = "VOLUME")]
    volume: Option<VolumeId>,
    /// Find the words as they are spelled, and no others.
    #[arg(long)]
    exact: bool,
    /// Number of hits to skip.
    #[arg(long, value_name = "N", default_value_t = 0, value_parser = clap::value_parser!(u32).range(..=DEEPEST))]
    offset: u32,
    /// Largest number of hits to show.
    #[arg(long, value_name = "N", default_value_t = 10, value_parser = clap::value_parser!(u32).range(1..=100))]
    limit: u32,
}

impl Question {
    /// Returns the request to the indexes; `None` if nothing is searched for.
    pub fn request(&self) -> Option<Request> {
        let mut query = parse(&self.query);
        if query.clauses.is_empty() && query.filters.is_empty() {
            return None;
        }
        query.filters.extend(self.volume.as_ref().map(|volume| Filter {
            field: FilterField::Volume,
            value: volume.to_string(),
            is_negative: false,
        }));
        let number = |number| usize::try_from(number).unwrap_or(usize::MAX);
        Some(Request {
            query,
            freedom: Freedom {
                is_fuzzy: !self.exact,
                transliterate,
            },
            offset: number(self.offset),
            limit: number(self.limit),
        })
    }
}
