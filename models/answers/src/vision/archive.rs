//! Row of the archive's own table (`*-gv.parquet`) that is made of a response.

use serde_json::Value;

/// Columns of the archive's table that a response decides.
#[derive(Debug, Clone, PartialEq)]
pub struct ArchiveRow {
    pub nb_pages: usize,
    /// Codes of the languages of the first page, the surest first.
    pub languages: Vec<String>,
    /// Median of the confidences of the words of the first page; 0 without words.
    pub confidence: f64,
    /// Length of the text in characters.
    pub text_len: usize,
    /// Lines with at least one character of the Tibetan block.
    pub nb_lines_tib: usize,
    pub text: String,
}

impl ArchiveRow {
    /// The row of a response. Null members count as absent, languages without a code are left out, and confidences that are no numbers
    /// count as 0; the archive's program fails the volume for each of these.
    pub fn of(response: &Value) -> Self {
        let annotation = &response["fullTextAnnotation"];
        let text = annotation["text"].as_str().unwrap_or_default().to_owned();
        let pages = annotation["pages"].as_array().map_or(&[][..], Vec::as_slice);
        let first = pages.first().unwrap_or(&Value::Null);
        Self {
            nb_pages: pages.len(),
            languages: languages(first),
            confidence: median(confidences(first)),
            text_len: text.chars().count(),
            nb_lines_tib: text.split('\n').filter(|line| is_tibetan(line)).count(),
            text,
        }
    }
}

fn is_tibetan(line: &str) -> bool {
    line.chars().any(|c| ('\u{0F00}'..='\u{0FFF}').contains(&c))
}

/// Members of a list by its name; none where it is absent or of another type.
pub(super) fn list<'a>(value: &'a Value, name: &str) -> &'a [Value] {
    value[name].as_array().map_or(&[][..], Vec::as_slice)
}

fn confidences(page: &Value) -> Vec<f64> {
    let paragraphs = list(page, "blocks")
        .iter()
        .flat_map(|block| list(block, "paragraphs"));
    let words = paragraphs.flat_map(|paragraph| list(paragraph, "words"));
    words.map(|word| number(&word["confidence"])).collect()
}

fn number(value: &Value) -> f64 {
    let number = match value {
        Value::String(text) => text.trim().parse().ok(),
        other => other.as_f64(),
    };
    number.filter(|number: &f64| number.is_finite()).unwrap_or(0.0)
}

fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    let middle = values.len() / 2;
    match values.len() {
        0 => 0.0,
        odd if odd % 2 == 1 => values[middle],
        _ => f64::midpoint(values[middle - 1], values[middle]),
    }
}

fn languages(page: &Value) -> Vec<String> {
    let mut found: Vec<(&str, f64)> = detected(page).collect();
    if found.is_empty() {
        for block in list(page, "blocks") {
            let parts = std::iter::once(block).chain(list(block, "paragraphs"));
            for (code, confidence) in parts.flat_map(detected) {
                match found.iter_mut().find(|(known, _)| *known == code) {
                    Some((_, best)) => *best = best.max(confidence),
                    None => found.push((code, confidence)),
                }
            }
        }
    }
    found.sort_by(|(_, one), (_, other)| other.total_cmp(one));
    found.into_iter().map(|(code, _)| code.to_owned()).collect()
}

fn detected(part: &Value) -> impl Iterator<Item = (&str, f64)> {
    let languages = list(&part["property"], "detectedLanguages").iter();
    languages.filter_map(|language| {
        let code = language["languageCode"]
            .as_str()
            .filter(|code| !code.is_empty())?;
        Some((code, number(&language["confidence"])))
    })
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::json;

    use super::*;
    use crate::golden::{cases, fixture, shared};

    fn check(case: &Value) {
        let row = ArchiveRow::of(&case["response"]);
        let made = json!({
            "nb_pages": row.nb_pages, "languages": row.languages, "confidence": row.confidence,
            "text_len": row.text_len, "nb_lines_tib": row.nb_lines_tib, "text": row.text,
        });
        let Some(expected) = case.get("expect") else {
            // The archive's program fails here, and with it the volume.
            assert!(case["expect_error"].is_object());
            return;
        };
        for (name, value) in made.as_object().unwrap() {
            assert_eq!(*value, expected[name], "{} {name}", case["case"]);
        }
    }

    /// Rows: 84.
    #[test]
    fn rows_are_those_of_the_archive() {
        fixture("parse_cases.jsonl").iter().for_each(check);
        if let Some(path) = shared("vision/parse_cases.jsonl") {
            let cases = cases(&path);
            assert!(cases.len() > 40);
            cases.iter().for_each(check);
        }
    }

    /// Rows: 84.
    #[test]
    fn an_odd_member_costs_itself_alone() {
        let page = json!({
            "property": {"detectedLanguages": [{"confidence": 0.5}, {"languageCode": "bo"}]},
            "blocks": [{"paragraphs": [{"words": [{"confidence": "high"}, {"confidence": 0.5}, null]}]}],
        });
        let row = ArchiveRow::of(&json!({"fullTextAnnotation": {"text": null, "pages": [page]}}));
        assert_eq!(
            (row.languages, row.confidence, row.text),
            (vec!["bo".to_owned()], 0.0, String::new())
        );
        assert_eq!(ArchiveRow::of(&json!({"fullTextAnnotation": null})).nb_pages, 0);
    }

    proptest! {
        #[test]
        fn the_median_lies_between_the_values(values in prop::collection::vec(0.0_f64..1.0, 1..20)) {
            let middle = median(values.clone());
            let below = values.iter().filter(|value| **value < middle).count();
            let above = values.iter().filter(|value| **value > middle).count();
            prop_assert!(below <= values.len() / 2 && above <= values.len() / 2);
        }
    }
}
