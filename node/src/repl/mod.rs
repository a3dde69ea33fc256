//! Interactive commands: `node repl` connects to a cluster from a process without a role; `node --role orchestrator --repl` runs commands
//! inside the orchestrator. Both have the commands of the table, and answers are what the command line shows.
//!
//! The room knows a command only as a row of the table: grammar, completion, hints and colours are derived from its definition. It
//! sends commands to an orchestrator and never opens the database itself, so it works from a machine that cannot reach it, and waits
//! through a change of leader where the command allows repeating it.

mod attach;
mod complete;
mod editor;
mod highlight;
mod hint;
mod interactive;
mod keys;
mod line;
mod names;
mod news;
mod order;
mod pager;
mod prompt;
mod script;
mod session;
mod tail;

use std::fs::{File, OpenOptions};
use std::io::IsTerminal;
use std::process::ExitCode;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use anyhow::{Context, Result, bail};
use clap::Args;
use parkhang_actors::cluster::{NodeName, RemoteDesk, RemoteDeskConfig};

use self::attach::attach;
use self::session::Session;
use crate::config::{ConfigArgs, Loaded};
use crate::join::{SCOPE, join};
use crate::whoami::operator;

pub use self::line::Line;

/// Name of the log of an orchestrator whose terminal is used for commands.
const LOG: &str = "orchestrator.log";
/// Time that a command inside an orchestrator waits for a leader, as `--patience` of [`ReplArgs`].
const PATIENCE: Duration = Duration::from_secs(60);

#[derive(Debug, Args)]
pub struct ReplArgs {
    /// Run this command and exit; may be repeated. The exit status is 1 if a command is refused or reports a failure.
    #[arg(short, long, value_name = "COMMAND")]
    command: Vec<String>,
    /// Time that a command waits for a connection to an orchestrator.
    #[arg(long, value_name = "TIME", default_value = "60s", value_parser = humantime::parse_duration)]
    patience: Duration,
    #[command(flatten)]
    config: ConfigArgs,
}

/// Connects to the cluster of the configuration and runs commands.
///
/// # Errors
///
/// If no orchestrator is configured, or none can be reached in time.
pub async fn run(arguments: ReplArgs) -> Result<ExitCode> {
    let loaded = Loaded::read(&arguments.config)?.validated()?;
    if loaded.config.cluster.orchestrators.is_empty() {
        bail!("cluster.orchestrators names no orchestrator to attach to");
    }
    let node = NodeName::unique(&operator()).context("the name of this process")?;
    let cluster = join(&loaded, &node, false).await?;
    let desk = RemoteDesk::start(RemoteDeskConfig {
        call_timeout: loaded.config.cluster.call_timeout,
        ..RemoteDeskConfig::new(node, SCOPE)
    })
    .await?;
    let orchestrators = loaded.config.cluster.orchestrators.len();
    attach(&cluster, &desk, orchestrators, arguments.patience).await?;
    let session = Session::new(Line::Remote(desk.clone()), arguments.patience);
    if !is_terminal() {
        // Like any command, it ends silently when the reader of its output has gone.
        sigpipe::reset();
    }
    let serve = async {
        if !arguments.command.is_empty() {
            return script::given(session, arguments.command).await;
        }
        if !is_terminal() {
            return script::of_stdin(session).await;
        }
        interactive::run(session, &loaded).await?;
        Ok(ExitCode::SUCCESS)
    };
    let end = tokio::select! {
        end = serve => end,
        () = cluster.ended() => bail!("the cluster transport ended"),
    };
    desk.stop().await;
    cluster.leave().await;
    end
}

/// Runs commands in the orchestrator's own process until the operator leaves. `attended` is true while Ctrl-C belongs to the editor and
/// must not stop the orchestrator.
pub async fn inside(loaded: &Loaded, line: Line, attended: &AtomicBool) {
    let session = Session::new(line, PATIENCE);
    let end = if is_terminal() {
        attended.store(true, Ordering::Relaxed);
        let end = interactive::run(session, loaded).await;
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
