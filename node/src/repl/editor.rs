//! Editor of the command line.

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use anyhow::{Context, Result};
use reedline::{
    ColumnarMenu, Completer, CompletionResult, Emacs, ExternalPrinter, FileBackedHistory, KeyCode,
    KeyModifiers, MenuBuilder, Reedline, ReedlineEvent, ReedlineMenu, Signal, Span, Suggestion,
    default_emacs_keybindings,
};
use tokio::runtime::Handle;

use super::complete::complete;
use super::highlight::KnownWords;
use super::hint::Hints;
use super::names::Directory;
use super::prompt::LeaderPrompt;
use crate::session::{Line, Notices};

/// Number of lines kept in the history.
const REMEMBERED: usize = 10_000;
const COMPLETIONS: &str = "completions";

/// Editor that reads lines from the terminal. Dropping it while it reads restores the terminal.
pub struct LineEditor {
    reedline: Option<Reedline>,
    line: Line,
    writing: Arc<AtomicBool>,
    end: Arc<AtomicBool>,
}

impl LineEditor {
    /// Opens the editor with the file `history`. Notices are printed above the line.
    ///
    /// # Errors
    ///
    /// If the history cannot be opened.
    pub fn open(line: Line, history: PathBuf) -> Result<(Self, Notices)> {
        let history = FileBackedHistory::with_file(REMEMBERED, history).context("cannot keep a history")?;
        let printer = ExternalPrinter::default();
        let (writing, end) = (Arc::<AtomicBool>::default(), Arc::<AtomicBool>::default());
        let notices = Notices::above(writing.clone(), printer.sender());
        let mut keys = default_emacs_keybindings();
        keys.add_binding(
            KeyModifiers::NONE,
            KeyCode::Tab,
            ReedlineEvent::UntilFound(vec![
                ReedlineEvent::Menu(COMPLETIONS.to_owned()),
                ReedlineEvent::MenuNext,
            ]),
        );
        let menu = ColumnarMenu::default().with_name(COMPLETIONS);
        let names = Directory::new(line.clone(), Handle::current());
        let reedline = Reedline::create()
            .with_history(Box::new(history))
            .with_completer(Box::new(Completions(names)))
            .with_menu(ReedlineMenu::EngineCompleter(Box::new(menu)))
            .with_quick_completions(true)
            .with_partial_completions(true)
            .with_highlighter(Box::new(KnownWords))
            .with_hinter(Box::new(Hints::default()))
            .with_edit_mode(Box::new(Emacs::new(keys)))
            .with_external_printer(printer)
            .with_break_signal(end.clone());
        let editor = Self {
            reedline: Some(reedline),
            line,
            writing,
            end,
        };
        Ok((editor, notices))
    }

    pub async fn read(&mut self) -> Result<Signal> {
        let mut reedline = self.reedline.take().context("the line is being read already")?;
        let prompt = LeaderPrompt(self.line.clone());
        // Notices go above the line only while the editor draws; otherwise nobody would print them.
        self.writing.store(true, Ordering::Relaxed);
        // The editor blocks its thread until a line is complete, so it is moved there and back.
        let reading = tokio::task::spawn_blocking(move || {
            let signal = reedline.read_line(&prompt);
            (reedline, signal)
        });
        let (reedline, signal) = reading.await?;
        self.writing.store(false, Ordering::Relaxed);
        self.reedline = Some(reedline);
        Ok(signal?)
    }

    /// Writes the history to its file.
    pub fn remember(&mut self) -> Result<()> {
        let reedline = self.reedline.as_mut();
        Ok(reedline.map_or(Ok(()), Reedline::sync_history)?)
    }
}

impl Drop for LineEditor {
    fn drop(&mut self) {
        // The thread that reads cannot be cancelled; it looks at this flag and restores the terminal itself.
        self.end.store(true, Ordering::Relaxed);
    }
}

struct Completions(Directory);

impl Completer for Completions {
    fn complete(&mut self, line: &str, cursor: usize) -> CompletionResult {
        let completion = complete(line, cursor, &self.0);
        let span = Span::new(completion.start, cursor.max(completion.start));
        let suggestions = completion.candidates.into_iter().map(|candidate| Suggestion {
            append_whitespace: true,
            value: candidate.text,
            description: candidate.about,
            span,
            ..Suggestion::default()
        });
        CompletionResult::fresh(suggestions.collect::<Vec<_>>())
    }
}
