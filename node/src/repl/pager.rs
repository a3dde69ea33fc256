//! Pager for answers that are longer than the terminal.

use std::io::Write;
use std::process::{Command, Stdio};
use std::time::Duration;

use anyhow::{Context, Result};
use crossterm::event::KeyCode;

use super::keys::key_within;

const MORE: &str = "-- more: space for a page, Enter for a line, q to end --";
/// Longest time that a page stays on the terminal.
const A_DAY: Duration = Duration::from_secs(24 * 3600);

/// Shows a text, page by page if it is long, with $PAGER if that is set. Blocks its thread.
///
/// # Errors
///
/// If the pager cannot be started or the terminal cannot be read.
pub fn show(text: &str) -> Result<()> {
    let (_, rows) = crossterm::terminal::size().unwrap_or((80, 24));
    // One row is for the question after a page; a terminal of no rows still shows a line at a time.
    let rows = usize::from(rows).saturating_sub(1).max(1);
    if text.lines().count() <= rows {
        println!("{text}");
        return Ok(());
    }
    match std::env::var("PAGER") {
        Ok(pager) if !pager.trim().is_empty() => through(&pager, text),
        _ => by_page(text, rows),
    }
}

fn through(pager: &str, text: &str) -> Result<()> {
    // PAGER may contain options and quotes, which only a shell can read.
    let child = Command::new("sh")
        .arg("-c")
        .arg(pager)
        .stdin(Stdio::piped())
        .spawn();
    let mut child = child.with_context(|| format!("cannot start the pager {pager}"))?;
    if let Some(mut stdin) = child.stdin.take() {
        // Fails if the user leaves the pager before the end, which is no error.
        let _ = writeln!(stdin, "{text}");
    }
    child.wait()?;
    Ok(())
}

fn by_page(text: &str, rows: usize) -> Result<()> {
    let mut out = std::io::stdout().lock();
    let mut room = rows;
    for line in text.lines() {
        if room == 0 {
            write!(out, "{MORE}")?;
            out.flush()?;
            room = match key_within(A_DAY)? {
                Some(KeyCode::Enter | KeyCode::Down | KeyCode::Char('j')) => 1,
                Some(KeyCode::Char(' ') | KeyCode::PageDown) => rows,
                Some(KeyCode::Char(_) | KeyCode::Esc) | None => 0,
                Some(_) => rows,
            };
            write!(out, "\r{}\r", " ".repeat(MORE.len()))?;
            if room == 0 {
                return Ok(());
            }
        }
        writeln!(out, "{line}")?;
        room -= 1;
    }
    Ok(())
}
