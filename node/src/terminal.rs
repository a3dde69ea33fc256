//! Text that others have written, for a terminal.
//!
//! Names of files, messages of peers and what was read may hold control characters, and a terminal would do what they say: write over other
//! lines, change its title, or type an answer. So nothing of it is shown but as text.

use std::borrow::Cow;

/// Returns a text as a terminal shows it: ends of lines and tabs are kept, other control characters become `\u{1b}`.
pub fn shown(text: &str) -> Cow<'_, str> {
    replaced(text, |letter| letter.escape_unicode().to_string())
}

/// Returns a text of JSON as a terminal shows it. It means the same as before: such characters are in strings only, where JSON
/// may write them as `\u009b`.
pub fn shown_json(json: &str) -> Cow<'_, str> {
    replaced(json, |letter| format!("\\u{:04x}", u32::from(letter)))
}

fn replaced(text: &str, replacement: impl Fn(char) -> String) -> Cow<'_, str> {
    if !text.contains(is_command) {
        return Cow::Borrowed(text);
    }
    let mut out = String::with_capacity(text.len() + 8);
    for letter in text.chars() {
        if is_command(letter) {
            out.push_str(&replacement(letter));
        } else {
            out.push(letter);
        }
    }
    Cow::Owned(out)
}

/// Returns whether a terminal obeys a character, or writes what follows it in another direction than it stands in.
fn is_command(letter: char) -> bool {
    let is_direction = matches!(letter, '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}');
    is_direction || letter.is_control() && !matches!(letter, '\n' | '\t')
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn what_a_terminal_would_obey_is_written_out() {
        let name = "a\u{1b}]0;title\u{7}\u{9b}2J\r.jpg\u{202e}gpj";
        assert_eq!(
            shown(name),
            "a\\u{1b}]0;title\\u{7}\\u{9b}2J\\u{d}.jpg\\u{202e}gpj"
        );
        let plain = "\u{f0b}བོད་\ttable\n│ ┆ ─";
        assert!(matches!(shown(plain), Cow::Borrowed(text) if text == plain));
    }

    proptest! {
        #[test]
        fn json_means_the_same(text in "\\PC*[\u{0}-\u{9f}\u{202e}]{0,8}\\PC*") {
            let value = serde_json::json!({ text.clone(): [text] });
            let json = format!("{value:#}");
            let shown = shown_json(&json);
            prop_assert!(!shown.contains(is_command));
            prop_assert_eq!(serde_json::from_str::<serde_json::Value>(&shown).unwrap(), value);
        }
    }
}
