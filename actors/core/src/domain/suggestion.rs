//! Suggestions for names that are mistyped.

/// The known name that is nearest to an unknown one, and at most `mistakes` typing mistakes away: letters that are missing, in excess,
/// wrong or swapped (Damerau-Levenshtein). Of equally near ones the first by name.
pub fn nearest<'a>(
    unknown: &str,
    known: impl IntoIterator<Item = &'a str>,
    mistakes: usize,
) -> Option<&'a str> {
    known
        .into_iter()
        .map(|name| (strsim::damerau_levenshtein(unknown, name), name))
        .min()
        .filter(|(distance, _)| *distance <= mistakes)
        .map(|(_, name)| name)
}

/// Hint at the known name that is nearest to an unknown one, to follow it in a message: empty if none is near.
pub fn did_you_mean(unknown: &str, known: &[String]) -> String {
    let nearest = nearest(unknown, known.iter().map(String::as_str), 2);
    nearest.map_or_else(String::new, |name| format!(" (did you mean {name}?)"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_nearest_name_is_found_within_the_mistakes_that_are_allowed() {
        let known = ["ocr", "reduce", "reduced"];
        assert_eq!(nearest("orc", known, 2), Some("ocr"));
        assert_eq!(nearest("reducee", known, 2), Some("reduce"));
        assert_eq!(nearest("scan", known, 2), None);
        assert_eq!(nearest("x", [], 2), None);
    }
}
