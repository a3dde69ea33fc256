//! Single keys, outside the editor.

use std::time::{Duration, Instant};

use anyhow::Result;
use crossterm::event::{Event, KeyCode, KeyEventKind, poll, read};
use crossterm::terminal::{disable_raw_mode, enable_raw_mode};

/// Raw mode of the terminal, which ends when this is dropped.
struct Raw;

impl Raw {
    fn enter() -> Result<Self> {
        enable_raw_mode()?;
        Ok(Self)
    }
}

impl Drop for Raw {
    fn drop(&mut self) {
        // A terminal that is gone needs no reset.
        let _ = disable_raw_mode();
    }
}

/// Waits for a key until `limit` has passed. Ctrl-C counts as one. Blocks its thread.
///
/// # Errors
///
/// If the terminal cannot be read.
pub fn key_within(limit: Duration) -> Result<Option<KeyCode>> {
    let deadline = Instant::now() + limit;
    let _raw = Raw::enter()?;
    loop {
        let left = deadline.saturating_duration_since(Instant::now());
        if !poll(left)? {
            return Ok(None);
        }
        if let Event::Key(key) = read()?
            // Some terminals report the release of a key as well, which would count twice.
            && key.kind == KeyEventKind::Press
        {
            return Ok(Some(key.code));
        }
    }
}

/// Does as [`key_within`] on another thread; returns whether a key was pressed.
pub async fn pressed_within(limit: Duration) -> Result<bool> {
    let key = tokio::task::spawn_blocking(move || key_within(limit)).await??;
    Ok(key.is_some())
}
