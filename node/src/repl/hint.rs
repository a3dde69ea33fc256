//! Hints behind the cursor.

use nu_ansi_term::{Color, Style};
use reedline::{DefaultHinter, Hinter, History};

use super::complete::{place, positionals};

/// Hinter that shows the last line with the same beginning, or else the arguments that a command still needs.
pub struct Hints {
    past: DefaultHinter,
}

impl Default for Hints {
    fn default() -> Self {
        Self {
            past: DefaultHinter::default().with_style(style()),
        }
    }
}

fn style() -> Style {
    Style::new().fg(Color::DarkGray)
}

impl Hinter for Hints {
    fn handle(
        &mut self,
        line: &str,
        cursor: usize,
        history: &dyn History,
        use_ansi_coloring: bool,
        cwd: &str,
    ) -> String {
        let past = self.past.handle(line, cursor, history, use_ansi_coloring, cwd);
        if !past.is_empty() {
            return past;
        }
        let needed = needed(line);
        match use_ansi_coloring && !needed.is_empty() {
            true => style().paint(needed).to_string(),
            false => needed,
        }
    }

    /// Returns the hint that can be accepted: names of missing arguments are no text of a line, only the history is.
    fn complete_hint(&self) -> String {
        self.past.complete_hint()
    }

    fn next_hint_token(&self) -> String {
        self.past.next_hint_token()
    }
}

fn needed(line: &str) -> String {
    if !line.ends_with(' ') || line.trim_start().starts_with("help ") {
        return String::new();
    }
    let words: Vec<&str> = line.split_whitespace().collect();
    let Some(place) = place(&words).filter(|place| !place.command.has_subcommands()) else {
        return String::new();
    };
    let given = positionals(&place).len();
    let missing = place.command.get_positionals().skip(given);
    let names = missing.filter_map(|argument| {
        let name = argument.get_value_names()?.first()?;
        Some(match argument.is_required_set() {
            true => name.to_string(),
            false => format!("[{name}]"),
        })
    });
    names.collect::<Vec<_>>().join(" ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_missing_is_shown_where_it_goes() {
        for (line, hint) in [
            ("tasks why ", "JOB VOLUME"),
            ("tasks why press ", "VOLUME"),
            ("tasks why press W1-I1 ", ""),
            ("job_status ", "NAME"),
            ("job create --priority 3 ", "[NAME]"),
            ("job create", ""),
            ("job ", ""),
            ("jbo ", ""),
            ("help job create ", ""),
        ] {
            assert_eq!(needed(line), hint, "{line}");
        }
    }
}
