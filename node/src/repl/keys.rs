use std::time::{Duration, Instant};

use anyhow::Result;
use crossterm::event::{Event, KeyCode, KeyEventKind, poll, read};
use crossterm::terminal::{disable_raw_mode, enable_raw_mode};

/// A terminal that passes on each key by itself, for as long as this lives.
struct Raw;

impl Raw {
    fn enter() -> Result<Self> {
        enable_raw_mode()?;
        Ok(Self)
    }
}

impl Drop for Raw {
    fn drop(&mut self) {
        // A terminal that is gone needs no care.
        let _ = disable_raw_mode();
    }
}

/// Waits for a key, at most so long. Ctrl-C is one. Blocks its thread.
pub fn key_within(limit: Duration) -> Result<Option<KeyCode>> {
    let deadline = Instant::now() + limit;
    let _raw = Raw::enter()?;
    loop {
        let left = deadline.saturating_duration_since(Instant::now());
        if !poll(left)? {
            return Ok(None);
        }
        if let Event::Key(key) = read()?
            && key.kind == KeyEventKind::Press
        {
            return Ok(Some(key.code));
        }
    }
}

/// Waits on a thread of its own, as [`key_within`]; says whether a key was pressed.
pub async fn pressed_within(limit: Duration) -> Result<bool> {
    let key = tokio::task::spawn_blocking(move || key_within(limit)).await??;
    Ok(key.is_some())
}
