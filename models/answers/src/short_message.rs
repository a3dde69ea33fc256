//! Messages of errors in the archive's tables.

/// Longest message, in characters.
const LONGEST: usize = 512;

/// The message on one line, cut to 512 characters.
pub fn short_message(text: &str) -> String {
    let line = text.replace('\n', " ");
    let line = line.trim();
    if line.chars().count() <= LONGEST {
        return line.to_owned();
    }
    let cut: String = line.chars().take(LONGEST - 1).collect();
    format!("{}…", cut.trim_end())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::golden::fixture;

    /// Rows: 84.
    #[test]
    fn messages_are_cut_as_in_the_archive() {
        for case in fixture("short_message_cases.jsonl") {
            let text = case["in"].as_str().unwrap_or_default();
            assert_eq!(short_message(text), case["out"].as_str().unwrap(), "{case}");
        }
    }
}
