//! Commands without a terminal. The first one that is refused ends the script.

use std::io::BufRead;
use std::process::ExitCode;

use anyhow::Result;
use tokio::sync::mpsc;

use super::parse::{ParsedLine, parse};
use super::{news, tail};
use crate::session::Session;
use crate::terminal::shown;

/// Runs these commands; returns the exit code.
pub async fn given(session: Session, commands: Vec<String>) -> Result<ExitCode> {
    let (lines, commands_in_turn) = mpsc::channel(1);
    tokio::spawn(async move {
        for command in commands {
            // Fails if an earlier command was refused, which has ended the script.
            let _ = lines.send(Ok(command)).await;
        }
    });
    run(session, commands_in_turn).await
}

/// Runs the commands of standard input, one a line; returns the exit code.
pub async fn of_stdin(session: Session) -> Result<ExitCode> {
    let (lines, commands) = mpsc::channel(1);
    // A thread of its own, since one that waits for input cannot be interrupted.
    std::thread::spawn(move || {
        for line in std::io::stdin().lock().lines() {
            if lines.blocking_send(line).is_err() {
                return;
            }
        }
    });
    run(session, commands).await
}

async fn run(session: Session, mut lines: mpsc::Receiver<std::io::Result<String>>) -> Result<ExitCode> {
    let work = async {
        let mut end = ExitCode::SUCCESS;
        while let Some(line) = lines.recv().await {
            let line = line?;
            let answer = match parse(&line) {
                Ok(ParsedLine::Nothing) => continue,
                Ok(ParsedLine::Leave) => break,
                Ok(ParsedLine::Tell(text)) => {
                    println!("{text}");
                    continue;
                }
                Ok(ParsedLine::Give(given)) => session.give(&given).await,
                Ok(ParsedLine::Tail { every }) => {
                    tail::follow(&session, every, async |lines| {
                        lines.iter().for_each(|line| println!("{line}"))
                    })
                    .await;
                    continue;
                }
                Ok(ParsedLine::Watch { .. }) => Err("watch needs a terminal".to_owned()),
                Err(reason) => Err(reason),
            };
            match answer {
                Ok(shown) => {
                    println!("{}", shown.text);
                    if shown.failed {
                        end = ExitCode::FAILURE;
                    }
                }
                Err(reason) => {
                    eprintln!("error: {}", shown(&format!("{line}: {reason}")));
                    // The commands behind a refused one may depend on it.
                    return Ok(ExitCode::FAILURE);
                }
            }
        }
        Ok(end)
    };
    tokio::select! {
        end = work => end,
        // It never ends by itself; running it beside the commands keeps the view of the orchestrators fresh.
        () = news::print(&session) => Ok(ExitCode::FAILURE),
    }
}
