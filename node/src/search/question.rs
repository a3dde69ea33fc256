//! What is searched for.

use clap::{Args, ValueEnum};
use parkhang_core::domain::VolumeId;
use parkhang_search::{Freedom, Occur, Request, parse};

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
    /// Find pages by the words of QUERY, by its meaning, or by both.
    #[arg(long, value_name = "WHAT", value_enum, default_value_t = By::Both)]
    by: By,
    /// Number of hits to skip.
    #[arg(long, value_name = "N", default_value_t = 0, value_parser = clap::value_parser!(u32).range(..=DEEPEST))]
    offset: u32,
    /// Largest number of hits to show.
    #[arg(long, value_name = "N", default_value_t = 10, value_parser = clap::value_parser!(u32).range(1..=100))]
    limit: u32,
}

/// Property by which pages are found.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum By {
    Words,
    Meaning,
    Both,
}

impl Question {
    /// Checks that something is searched for.
    ///
    /// # Errors
    ///
    /// The reason why nothing is.
    pub fn check(&self) -> Result<(), &'static str> {
        let query = parse(&self.query);
        if query.clauses.is_empty() && query.filters.is_empty() {
            return Err("the text to search for is empty");
        }
        if self.needs_meaning() && self.meaning().is_none() {
            return Err("pages are found by the meaning of a text: give one, without --exact");
        }
        Ok(())
    }

    /// Returns the request to the indexes, without the vectors of its meaning.
    pub fn request(&self) -> Request {
        let mut query = parse(&self.query);
        query.volume = self.volume.as_ref().map(VolumeId::to_string);
        let number = |number| usize::try_from(number).unwrap_or(usize::MAX);
        Request {
            query,
            freedom: Freedom {
                is_fuzzy: !self.exact,
                transliterate,
            },
            by_words: self.by != By::Meaning,
            vectors: None,
            offset: number(self.offset),
            limit: number(self.limit),
        }
    }

    /// The text whose meaning is searched for; `None` if that of words alone is, or of fields.
    pub fn meaning(&self) -> Option<String> {
        let clauses = parse(&self.query).clauses.into_iter();
        // What must not be there is no part of what is meant.
        let texts: Vec<String> = clauses
            .filter(|clause| clause.occur != Occur::MustNot)
            .map(|clause| clause.text)
            .collect();
        (self.by != By::Words && !self.exact && !texts.is_empty()).then(|| texts.join(" "))
    }

    /// True if pages are to be found by meaning alone.
    pub fn needs_meaning(&self) -> bool {
        self.by == By::Meaning
    }
}
