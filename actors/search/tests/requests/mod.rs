//! Requests that the tests of searches make.

use parkhang_search::{Freedom, Request, parse};

pub(crate) const FUZZY: Freedom = Freedom {
    is_fuzzy: true,
    transliterate: |_| None,
};

pub(crate) fn request(query: &str, freedom: Freedom) -> Request {
    Request {
        query: parse(query),
        freedom,
        by_words: true,
        vectors: None,
        offset: 0,
        limit: 10,
    }
}
