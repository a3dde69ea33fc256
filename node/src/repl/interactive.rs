//! Commands from a terminal.

use std::io::Write;
use std::time::Duration;

use anyhow::{Context, Result};
use reedline::Signal;

use super::editor::LineEditor;
use super::parse::{ParsedLine, parse};
use super::{keys, news, pager, tail};
use crate::config::Loaded;
use crate::session::{Given, Session};

/// Name of the history in the state folder.
const HISTORY: &str = "repl-history";
/// Sequence that clears the terminal and moves to its top.
const CLEAR: &str = "\x1b[2J\x1b[H";

pub async fn run(mut session: Session, loaded: &Loaded) -> Result<()> {
    let folder = loaded.state_dir()?;
    std::fs::create_dir_all(&folder).with_context(|| format!("cannot make {}", folder.display()))?;
    let (mut editor, notices) = LineEditor::open(session.line.clone(), folder.join(HISTORY))?;
    session.notices = notices;
    println!("help lists the commands; Tab completes them; Ctrl-D leaves");
    tokio::select! {
        end = converse(&session, &mut editor) => end,
        () = news::print(&session) => Ok(()),
    }
}

async fn converse(session: &Session, editor: &mut LineEditor) -> Result<()> {
    loop {
        let line = match editor.read().await? {
            Signal::Success(line) => line,
            // Ctrl-C, the remaining signal, only discards the line.
            Signal::CtrlD | Signal::ExternalBreak(_) => return Ok(()),
            _ => continue,
        };
        // After each line, so that a session which is killed leaves its history.
        editor.remember()?;
        let parse = match parse(&line) {
            Ok(ParsedLine::Leave) => return Ok(()),
            Ok(parse) => parse,
            Err(reason) => {
                eprintln!("{reason}");
                continue;
            }
        };
        // A failed command must not end the session.
        if let Err(error) = execute(session, parse).await {
            eprintln!("{error:#}");
        }
    }
}

async fn execute(session: &Session, parse: ParsedLine) -> Result<()> {
    match parse {
        ParsedLine::Nothing | ParsedLine::Leave => Ok(()),
        ParsedLine::Tell(text) => show(text).await,
        ParsedLine::Give(given) => match unless_interrupted(session.give(&given)).await? {
            Some(Ok(shown)) => show(shown.text).await,
            Some(Err(reason)) => {
                eprintln!("{reason}");
                Ok(())
            }
            None => Ok(()),
        },
        ParsedLine::Watch { every, line, given } => watch(session, every, &line, &given).await,
        ParsedLine::Tail { every } => {
            println!("any key ends this");
            let follow = tail::follow(session, every, async |lines| {
                // The terminal is in raw mode and needs a carriage return as well.
                lines.iter().for_each(|line| print!("{line}\r\n"));
                // A terminal that is gone shows nothing.
                let _ = std::io::stdout().flush();
            });
            tokio::select! {
                () = follow => Ok(()),
                pressed = unless_interrupted(a_key()) => pressed?.unwrap_or(Ok(())),
            }
        }
    }
}

/// Waits for work; `None` after a Ctrl-C, which ends the waiting only: the command goes on in the orchestrator.
async fn unless_interrupted<T>(work: impl Future<Output = T>) -> Result<Option<T>> {
    tokio::select! {
        done = work => Ok(Some(done)),
        interrupted = tokio::signal::ctrl_c() => {
            interrupted?;
            eprintln!("not waited for any more");
            Ok(None)
        }
    }
}

async fn a_key() -> Result<()> {
    // Short waits, since a thread that waits for a key cannot be interrupted.
    while !keys::pressed_within(Duration::from_millis(500)).await? {}
    Ok(())
}

async fn show(text: String) -> Result<()> {
    tokio::task::spawn_blocking(move || pager::show(&text)).await?
}

/// Repeats a command until a key is pressed.
async fn watch(session: &Session, every: Duration, line: &str, given: &Given) -> Result<()> {
    loop {
        let Some(answer) = unless_interrupted(session.give(given)).await? else {
            return Ok(());
        };
        let text = answer.map_or_else(|reason| reason, |shown| shown.text);
        // Three rows are taken by the heading, an empty line and the cursor.
        let (_, rows) = crossterm::terminal::size().unwrap_or((80, 24));
        println!(
            "{CLEAR}{line}, every {}; any key ends this\n",
            humantime::format_duration(every)
        );
        for line in text.lines().take(usize::from(rows).saturating_sub(3)) {
            println!("{line}");
        }
        if keys::pressed_within(every).await? {
            return Ok(());
        }
    }
}
