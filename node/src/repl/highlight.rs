//! Colours of the line.

use nu_ansi_term::{Color, Style};
use reedline::{Highlighter, StyledText};

use super::complete::{complete, place};
use super::parse::OWN;

/// Highlighter that colours the words of commands and options by whether they exist.
pub struct KnownWords;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Word {
    Known,
    Unknown,
    /// Prefix of something known.
    Begun,
    Option,
    Value,
}

impl Word {
    fn style(self) -> Style {
        match self {
            Self::Known => Style::new().fg(Color::Green).bold(),
            Self::Unknown => Style::new().fg(Color::Red),
            Self::Option => Style::new().fg(Color::Cyan),
            Self::Begun | Self::Value => Style::new(),
        }
    }
}

impl Highlighter for KnownWords {
    fn highlight(&self, line: &str, _: usize) -> StyledText {
        let mut styled = StyledText::new();
        for (text, word) in judged(line) {
            styled.push((word.map_or(Style::new(), Word::style), text.to_owned()));
        }
        styled
    }
}

/// Splits a line into words and blanks, with the class of each word.
fn judged(line: &str) -> Vec<(&str, Option<Word>)> {
    let mut pieces = Vec::new();
    let mut rest = line;
    let mut before: Vec<&str> = Vec::new();
    while !rest.is_empty() {
        let blank = rest.starts_with(char::is_whitespace);
        let end = rest
            .find(|c: char| c.is_whitespace() != blank)
            .unwrap_or(rest.len());
        let (piece, behind) = rest.split_at(end);
        rest = behind;
        if blank {
            pieces.push((piece, None));
            continue;
        }
        pieces.push((piece, Some(judge(&before, piece, behind.is_empty()))));
        before.push(piece);
    }
    pieces
}

fn judge(before: &[&str], word: &str, at_end: bool) -> Word {
    // The words of the REPL itself are in no grammar of clap.
    if before.is_empty() && OWN.iter().any(|(own, _)| *own == word) {
        return Word::Known;
    }
    let Some(now) = place(before) else {
        return Word::Value;
    };
    if !now.command.has_subcommands() {
        let Some(name) = word.strip_prefix("--") else {
            return Word::Value;
        };
        let name = name.split('=').next();
        let mut known = now.command.get_arguments().map(clap::Arg::get_long);
        return match known.any(|long| long == name) {
            true => Word::Option,
            false if at_end => Word::Begun,
            false => Word::Unknown,
        };
    }
    if before == ["watch"] && word.parse::<f64>().is_ok() {
        return Word::Value;
    }
    let line = [before, &[word]].concat();
    if place(&line).is_some() {
        return Word::Known;
    }
    let text = line.join(" ");
    match at_end && !complete(&text, text.len(), &Nobody).candidates.is_empty() {
        true => Word::Begun,
        false => Word::Unknown,
    }
}

/// Source of no names: choosing a colour must not ask the cluster.
struct Nobody;

impl super::complete::Names for Nobody {
    fn jobs(&self) -> Vec<String> {
        Vec::new()
    }

    fn volumes(&self, _: &str) -> Vec<String> {
        Vec::new()
    }

    fn stages(&self) -> Vec<String> {
        Vec::new()
    }

    fn nodes(&self) -> Vec<String> {
        Vec::new()
    }

    fn actors(&self, _: &str) -> Vec<String> {
        Vec::new()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn words(line: &str) -> Vec<Word> {
        judged(line).into_iter().filter_map(|(_, word)| word).collect()
    }

    #[test]
    fn known_and_unknown_words_are_told_apart() {
        use Word::{Begun, Known, Option, Unknown, Value};
        for (line, judged) in [
            ("job list --limit 3", &[Known, Known, Option, Value][..]),
            ("jbo list", &[Unknown, Value]),
            ("jo", &[Begun]),
            ("job crate x", &[Known, Unknown, Value]),
            ("job cre", &[Known, Begun]),
            ("watch 5 job list", &[Known, Value, Known, Known]),
            ("job_status J1", &[Known, Value]),
            ("job list --limt 3", &[Known, Known, Unknown, Value]),
        ] {
            assert_eq!(words(line), judged, "{line}");
        }
    }

    #[test]
    fn the_line_itself_stays() {
        let line = " job  status 'W1 I1' ";
        assert_eq!(KnownWords.highlight(line, 0).raw_string(), line);
    }
}
