//! Request that the tests of several modules make.

use super::request::Feature;

/// Feature that the archive asks for.
pub(super) fn weekly() -> Feature {
    Feature {
        model: "builtin/weekly".to_owned(),
        languages: Vec::new(),
    }
}
