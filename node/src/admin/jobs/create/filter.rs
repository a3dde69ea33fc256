//! Which of the volumes that are known a job is to have.

use std::str::FromStr;

use chrono::{DateTime, Utc};
use parkhang_state::VolumeQuery;

use crate::admin::since::Since;

/// One condition of `--query`, `KEY=VALUE`.
#[derive(Debug, Clone, PartialEq)]
pub enum Filter {
    Collection(String),
    Text(String),
    ImportedSince(Since),
    /// A pipeline, or a model, that has not read the latest version.
    UnreadBy(String),
    /// Perplexity that the last text exceeds.
    PerplexityAbove(f32),
    /// Confidence below which the volume was read last.
    ConfidenceBelow(f32),
}

impl FromStr for Filter {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        // Only the first equals sign separates, as a text to search for may contain one.
        let (key, value) = text.split_once('=').unwrap_or((text, ""));
        let value = value.trim();
        if value.is_empty() {
            return Err("must be KEY=VALUE".to_owned());
        }
        match key.trim() {
            "collection" => Ok(Self::Collection(value.to_owned())),
            "text" => Ok(Self::Text(value.to_owned())),
            "imported_since" => value.parse().map(Self::ImportedSince),
            "unread_by" => Ok(Self::UnreadBy(value.to_owned())),
            "perplexity_above" => number(value).map(Self::PerplexityAbove),
            "confidence_below" => number(value).map(Self::ConfidenceBelow),
            key => Err(format!(
                "there is no condition {key}; there are collection, text, imported_since, unread_by, perplexity_above and \
                 confidence_below"
            )),
        }
    }
}

fn number(value: &str) -> Result<f32, String> {
    let number = value.parse().ok().filter(|number: &f32| number.is_finite());
    number.ok_or_else(|| format!("must be a number, not {value}"))
}

/// All conditions together. Of several of one kind the last one holds.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Filters {
    pub query: VolumeQuery,
    pub unread_by: Option<String>,
}

impl Filters {
    pub fn of(filters: Vec<Filter>, now: DateTime<Utc>) -> Self {
        let mut all = Self::default();
        for filter in filters {
            match filter {
                Filter::Collection(prefix) => all.query.collection = Some(prefix),
                Filter::Text(text) => all.query.text = Some(text),
                Filter::ImportedSince(since) => all.query.imported_since = Some(since.before(now)),
                Filter::UnreadBy(reader) => all.unread_by = Some(reader),
                Filter::PerplexityAbove(bound) => all.query.perplexity_above = Some(bound),
                Filter::ConfidenceBelow(bound) => all.query.confidence_below = Some(bound),
            }
        }
        all
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use parkhang_core::domain::testing::at;

    #[test]
    fn conditions_are_read_and_put_together() {
        let now = at(0);
        let filters = [
            "collection=W1",
            "collection = W22",
            "imported_since=1day",
            "unread_by=ocr",
            "perplexity_above=12.5",
            "confidence_below=.8",
        ];
        let filters = filters.map(|filter| filter.parse().unwrap()).to_vec();
        let expected = Filters {
            query: VolumeQuery {
                collection: Some("W22".to_owned()),
                imported_since: Some(now - chrono::TimeDelta::days(1)),
                perplexity_above: Some(12.5),
                confidence_below: Some(0.8),
                ..VolumeQuery::default()
            },
            unread_by: Some("ocr".to_owned()),
        };
        assert_eq!(Filters::of(filters, now), expected);
        for (text, reason) in [
            ("collection", "must be KEY=VALUE"),
            ("collection=", "must be KEY=VALUE"),
            ("imported_since=then", "must be a time"),
            ("perplexity_above=NaN", "must be a number"),
            ("model=x", "there is no condition model"),
        ] {
            let refusal = text.parse::<Filter>().unwrap_err();
            assert!(refusal.starts_with(reason), "{text}: {refusal}");
        }
    }
}
