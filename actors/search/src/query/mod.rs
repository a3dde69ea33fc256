//! Queries: as they are typed ([`parse`]), as patterns of terms that pages are compared with ([`plan`]), and as the engine runs them
//! ([`compile`]). Terms that may have been misread are added between the first two, by a look into the dictionaries of the indexes.

mod compile;
mod parse;
mod plan;

pub(crate) use compile::{chunks_of, compile, compile_bounds};
pub use parse::parse;
pub(crate) use plan::{Bounds, Dictionary, Node, Pattern, plan};

/// Query as it was typed.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Query {
    pub clauses: Vec<Clause>,
    pub filters: Vec<Filter>,
    /// The one volume that is searched, whatever the filters say; `None` searches all.
    pub volume: Option<String>,
}

impl Query {
    /// True if all pages are looked at.
    pub(crate) fn is_unbounded(&self) -> bool {
        self.filters.is_empty() && self.volume.is_none()
    }
}

/// Text that is looked for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Clause {
    pub occur: Occur,
    pub field: TextField,
    pub text: String,
    /// The words must be in a row.
    pub is_phrase: bool,
}

/// Part that a clause has in a match.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Occur {
    Should,
    Must,
    MustNot,
}

/// Field with tokens.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TextField {
    Text,
    Title,
}

/// Bound on the pages that are looked at.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Filter {
    pub field: FilterField,
    /// Value of the field; one of a volume may have `*` for any letters.
    pub value: String,
    /// The pages that have the value are those left out.
    pub is_negative: bool,
}

/// Field of a filter.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FilterField {
    Volume,
    Language,
    /// Name of the image.
    Page,
}

/// Ways in which a query may be read more freely than it is typed.
#[derive(Debug, Clone, Copy)]
pub struct Freedom {
    /// Terms that may have been misread are found as well.
    pub is_fuzzy: bool,
    /// Reads words in Latin letters as Tibetan in transliteration; `None` if they are none.
    pub transliterate: fn(&str) -> Option<String>,
}
