//! Correction of lines by a language model, which may change no more of a line than it is allowed to.
//!
//! Lines go out with their numbers and come back with them, so that a line that the model leaves out, joins with another one or makes up
//! changes no other. Whatever differs too much from the line that was sent is left as it was.

use crate::align::likeness;

/// Instruction for a service that has no prompt of its own.
pub const INSTRUCTION: &str = "You correct the output of an OCR of Tibetan print. Each line begins with its number and a tab. Correct \
    misread letters only: do not add, leave out, translate or modernise anything. Answer with the same lines, each with its number and a \
    tab, and with nothing else.";

/// Lines as a model has corrected them.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Corrected {
    /// One for each line, in their order.
    pub lines: Vec<String>,
    /// Lines that were changed.
    pub changed: usize,
    /// Lines whose correction was none.
    pub refused: usize,
}

/// The lines as they are sent.
pub fn numbered(lines: &[impl AsRef<str>]) -> String {
    let lines = lines.iter().zip(1..);
    let lines: Vec<String> = lines
        .map(|(line, number)| format!("{number}\t{}", line.as_ref()))
        .collect();
    lines.join("\n")
}

/// The lines with the corrections of an answer. At most `most` of a line may change, by edit distance as a share of the longer text.
pub fn corrected(lines: &[impl AsRef<str>], answer: &str, most: f32) -> Corrected {
    let mut found: Vec<Option<&str>> = vec![None; lines.len()];
    for (number, text) in answer.lines().filter_map(numbered_line) {
        if let Some(place) = number.checked_sub(1).and_then(|place| found.get_mut(place)) {
            // The first one stands: a model that loops begins again.
            place.get_or_insert(text);
        }
    }
    let mut corrected = Corrected::default();
    for (line, found) in lines.iter().zip(found) {
        let line = line.as_ref();
        let text = match found {
            Some(text) if text == line => line,
            Some(text) if is_correction(line, text, most) => {
                corrected.changed += 1;
                text
            }
            _ => {
                corrected.refused += 1;
                line
            }
        };
        corrected.lines.push(text.to_owned());
    }
    corrected
}

fn numbered_line(line: &str) -> Option<(usize, &str)> {
    let line = line.trim();
    let digits = line.len() - line.trim_start_matches(|c: char| c.is_ascii_digit()).len();
    let number = line[..digits].parse().ok()?;
    let text = line[digits..].strip_prefix(['\t', ' ', '.', ':', ')'])?;
    Some((number, text.trim()))
}

fn is_correction(line: &str, text: &str, most: f32) -> bool {
    !text.is_empty() && !text.chars().any(char::is_control) && 1.0 - likeness(line, text) <= most
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const LINES: [&str; 3] = ["བོད་ཀྱི་སྐད་ཡིག", "ཤེས་རབ་ཀྱི་ཕ་རོལ", "ཕྱིན་པ།"];

    /// Rows: 84.
    #[test]
    fn a_line_is_corrected_by_its_number_and_within_its_bound() {
        assert_eq!(numbered(&["a", "b"]), "1\ta\n2\tb");
        let answer = "Here you are:\n1\tབོད་ཀྱི་སྐད་ཡིད\n3. ཕྱིན་པ།\n3\tsomething\n7\tཀ";
        let found = corrected(&LINES, answer, 0.2);
        assert_eq!(found.lines, ["བོད་ཀྱི་སྐད་ཡིད", LINES[1], LINES[2]]);
        assert_eq!((found.changed, found.refused), (1, 1));
        let wild = corrected(&LINES, "1\tThe Tibetan language\n2\t\n3\tཕྱིན་པ།", 0.2);
        assert_eq!(wild.lines, LINES);
        assert_eq!((wild.changed, wild.refused), (0, 2));
        assert_eq!(corrected(&LINES, &numbered(&LINES), 0.0).refused, 0);
        assert_eq!(corrected(&LINES, "I'm sorry.", 1.0).lines, LINES);
    }

    proptest! {
        #[test]
        fn no_line_changes_more_than_it_may(
            lines in prop::collection::vec("[a-d་]{0,8}", 0..5),
            answer in "([0-9][\t.: ]?[a-d་]{0,8}\n){0,6}",
            most in 0.0_f32..1.0,
        ) {
            let found = corrected(&lines, &answer, most);
            prop_assert_eq!(found.lines.len(), lines.len());
            for (line, text) in lines.iter().zip(&found.lines) {
                prop_assert!(line == text || 1.0 - likeness(line, text) <= most);
            }
        }
    }
}
