//! Commands by hand: `node repl` gives them to the orchestrators of a cluster over HTTP; `node --role orchestrator --repl` takes commands
//! inside the orchestrator. Both read the commands of the one table. What becomes of a command that was read is the matter of `session`.

mod attach;
mod complete;
mod editor;
mod highlight;
mod hint;
mod interactive;
mod keys;
mod names;
mod news;
mod pager;
mod parse;
mod prompt;
mod script;
mod tail;

use std::fs::{File, OpenOptions};
use std::io::IsTerminal;
use std::process::ExitCode;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use anyhow::{Context, Result};
use clap::Args;

use self::attach::attach;
use crate::client::{Orchestrators, ServerArgs};
use crate::config::{ConfigArgs, Loaded};
use crate::session::{Line, Remote, Session, TIMEOUT};

/// Name of the log of an orchestrator whose terminal is used for commands.
const LOG: &str = "orchestrator.log";

#[derive(Debug, Args)]
pub struct ReplArgs {
    /// Run this command and exit; may be repeated. The exit status is 1 if a command is refused or reports a failure.
    #[arg(short, long, value_name = "COMMAND")]
    command: Vec<String>,
    /// Time that a command waits for a connection to an orchestrator.
    #[arg(long, alias = "patience", value_name = "TIME", default_value = "60s", value_parser = humantime::parse_duration)]
    timeout: Duration,
    #[command(flatten)]
    server: ServerArgs,
    #[command(flatten)]
    config: ConfigArgs,
}

/// Attaches to the orchestrators that are named, or to those of this machine.
pub async fn run(arguments: ReplArgs) -> Result<ExitCode> {
    let loaded = Loaded::read(&arguments.config)?.validated()?;
    let remote = Remote::new(Orchestrators::find_or_await(&arguments.server, &loaded)?);
    attach(&remote, arguments.timeout).await?;
    let session = Session::new(Line::Remote(remote), arguments.timeout);
    // Only without a terminal: a pager that ends must not end an interactive session with it.
    if !is_terminal() {
        // Like any command, it ends silently when the reader of its output has gone.
        sigpipe::reset();
    }
    if !arguments.command.is_empty() {
        return script::given(session, arguments.command).await;
    }
    if !is_terminal() {
        return script::of_stdin(session).await;
    }
    interactive::run(session, &loaded).await?;
    Ok(ExitCode::SUCCESS)
}

/// Runs commands in the orchestrator's own process until the operator leaves. `attended` is true while Ctrl-C belongs to the editor and
/// must not stop the orchestrator.
pub async fn inside(loaded: &Loaded, line: Line, attended: &AtomicBool) {
    let session = Session::new(line, TIMEOUT);
    let end = if is_terminal() {
        attended.store(true, Ordering::Relaxed);
        let end = interactive::run(session, loaded).await;
        // Also after an error, or Ctrl-C could not stop the orchestrator any more.
        attended.store(false, Ordering::Relaxed);
        println!("The orchestrator goes on; Ctrl-C stops it from now on.");
        end
    } else {
        script::of_stdin(session).await.map(drop)
    };
    if let Err(error) = end {
        eprintln!("no more commands can be given here: {error:#}");
    }
}

/// Opens the log of an orchestrator whose terminal is used for commands.
///
/// # Errors
///
/// If the file cannot be written.
pub fn log_file(loaded: &Loaded) -> Result<File> {
    let folder = loaded.state_dir()?;
    let path = folder.join(LOG);
    std::fs::create_dir_all(&folder).with_context(|| format!("cannot make {}", folder.display()))?;
    let file = OpenOptions::new().create(true).append(true).open(&path);
    let file = file.with_context(|| format!("cannot write {}", path.display()))?;
    eprintln!("log lines go to {}", path.display());
    Ok(file)
}

fn is_terminal() -> bool {
    std::io::stdin().is_terminal() && std::io::stdout().is_terminal()
}
