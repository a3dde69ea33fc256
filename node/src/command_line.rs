//! The commands of the table on the command line, each with `--json`, the flags by which an orchestrator is found and those of a
//! configuration. They are requests to an orchestrator; where none runs on this machine and none is named, they are carried out here, on the
//! database of the configuration.

use std::ffi::OsString;
use std::process::ExitCode;
use std::sync::Arc;

use anyhow::{Result, anyhow, bail};
use clap::{ArgMatches, Args, FromArgMatches};
use serde_json::{Map, Value};
use tracing::warn;

use crate::admin::aliases::{alias_of, expanded};
use crate::admin::{Admin, Entry, Operator, table};
use crate::client::{CallError, Orchestrators, ServerArgs};
use crate::config::{ConfigArgs, Loaded};
use crate::database::database_for_command;
use crate::session::{Given, Line, Remote, Session, Shown, TIMEOUT};
use crate::terminal::shown;
use crate::whoami::operator;

/// Flags of every command on the command line.
#[derive(Debug, Args)]
struct SharedArgs {
    /// Print the answer as JSON.
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    server: ServerArgs,
    #[command(flatten)]
    config: ConfigArgs,
}

/// A command line in the words of the table, where it began with another spelling.
pub fn words(given: impl Iterator<Item = OsString>) -> Result<Vec<OsString>> {
    let given: Vec<OsString> = given.collect();
    let texts: Vec<String> = given
        .iter()
        .skip(1)
        .map(|word| word.to_string_lossy().into_owned())
        .collect();
    // The words are returned as they came, because a path among them may not be UTF-8.
    if alias_of(&texts).is_none() || searches_folder(&texts) {
        return Ok(given);
    }
    let expanded = expanded(texts).map_err(|reason| anyhow!(reason))?;
    let program = given.into_iter().take(1);
    Ok(program.chain(expanded.into_iter().map(OsString::from)).collect())
}

/// True for `search` with an output folder, which is a command of its own and no other spelling. So is its help, which names both.
fn searches_folder(words: &[String]) -> bool {
    let own =
        |word: &String| word == "--out" || word.starts_with("--out=") || word == "--help" || word == "-h";
    words.first().is_some_and(|first| first == "search") && words.iter().any(own)
}

/// Adds the commands of the table to others. A group of the table that has the name of another command is joined with it.
pub fn augment(command: clap::Command) -> clap::Command {
    let groups = table().clap(SharedArgs::augment_args);
    groups.into_iter().fold(command, |command, group| {
        let name = group.get_name().to_owned();
        if command.find_subcommand(&name).is_none() {
            return command.subcommand(group);
        }
        command.mut_subcommand(name, |own| own.subcommands(group.get_subcommands().cloned()))
    })
}

/// True for a command line that names a command of the table.
pub fn is_given(matches: &ArgMatches) -> bool {
    table().given(matches).is_some()
}

/// Carries out what the command line names.
pub async fn run(matches: &ArgMatches) -> Result<ExitCode> {
    let (entry, arguments) = table()
        .given(matches)
        .ok_or_else(|| anyhow!("no command is given"))?;
    let shared = SharedArgs::from_arg_matches(arguments)?;
    let loaded = Loaded::read(&shared.config)?.validated()?;
    let shown = match orchestrators(&shared, entry, &loaded).await? {
        Some(remote) => {
            warn_of_settings(entry, &loaded);
            let given = Given {
                entry,
                arguments: entry.given_elsewhere(arguments)?,
                json: shared.json,
                wait: entry.waits(arguments),
            };
            let session = Session::new(Line::Remote(remote), TIMEOUT);
            session.give(&given).await.map_err(|reason| anyhow!(reason))?
        }
        None => on_database(&shared, entry, arguments, loaded).await?,
    };
    // Printed also where the subject failed, as the text says how.
    println!("{}", shown.text);
    Ok(if shown.failed {
        ExitCode::FAILURE
    } else {
        ExitCode::SUCCESS
    })
}

/// The orchestrators to ask, which answer; `None` where the command is to be carried out here.
async fn orchestrators(shared: &SharedArgs, entry: &Entry, loaded: &Loaded) -> Result<Option<Remote>> {
    let is_named = !shared.server.server.is_empty();
    if entry.near_database && !is_named {
        return Ok(None);
    }
    let Some(found) = Orchestrators::find(&shared.server, loaded)? else {
        return Ok(None);
    };
    let remote = Remote::new(found);
    let survey = remote.look().await;
    if survey.best().is_some() {
        return Ok(Some(remote));
    }
    // An orchestrator that refuses the token must not be got around by working on its database.
    if is_named || survey.failures.iter().any(CallError::is_denied) {
        bail!(survey.troubles());
    }
    warn!(
        "{}; the command is carried out here, on the database",
        survey.troubles()
    );
    Ok(None)
}

/// Says where the orchestrator makes a job otherwise than somebody may think.
fn warn_of_settings(entry: &Entry, loaded: &Loaded) {
    if entry.name != ["job", "create"] {
        return;
    }
    for setting in loaded.flags().iter().filter_map(|flag| flag.strip_prefix("job.")) {
        warn!("the orchestrator makes jobs by its own configuration: give --config {setting} for this one");
    }
}

async fn on_database(
    shared: &SharedArgs,
    entry: &'static Entry,
    arguments: &ArgMatches,
    loaded: Loaded,
) -> Result<Shown> {
    let database = database_for_command(&loaded, entry.may_be_first).await?;
    let who = operator();
    let admin = Admin {
        shows_progress: true,
        database: Some(Arc::from(database.place.as_str())),
        ..Admin::new(database.store.clone(), Arc::new(loaded)).asked_by(&who)
    };
    let operator = Operator {
        who: &who,
        via: "cli",
    };
    let given = entry.given(arguments);
    // The audit log has the commands of this way too, although nothing checks a role here: who can use the
    // database may do everything.
    let begun = entry.begin(&given, operator, &admin).await?;
    let outcome = entry.run(arguments, admin.clone()).await;
    begun.end(&outcome, &admin).await;
    let mut reply = outcome?;
    if entry.waits(arguments) {
        let ask = async |entry: &'static Entry, given: &Map<String, Value>| {
            entry.run_given(given, admin.clone()).await
        };
        reply = entry
            .until_over(&given, reply, ask, |news| eprintln!("{}", shown(&news)))
            .await?;
    }
    Ok(Shown::of(reply, shared.json))
}
