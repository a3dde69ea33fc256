//! Commands of the table on the command line, each with `--json` and the flags of a configuration, which names the database that it
//! works on.

use std::ffi::OsString;
use std::process::ExitCode;
use std::sync::Arc;

use anyhow::{Result, anyhow};
use clap::{ArgMatches, Args, FromArgMatches};

use super::aliases::{ALIASES, expanded};
use super::{Admin, Operator, table};
use crate::config::{ConfigArgs, Loaded};
use crate::database::database_for_command;
use crate::whoami::operator;

/// Options that every command takes on the command line.
#[derive(Debug, Args)]
struct Surface {
    /// Print the answer as JSON.
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    config: ConfigArgs,
}

/// Rewrites a command line that begins with an alias into the words of the table.
///
/// # Errors
///
/// If the alias has an option or value that this program does not support.
pub fn words(given: impl Iterator<Item = OsString>) -> Result<Vec<OsString>> {
    let given: Vec<OsString> = given.collect();
    let named = given.get(1).and_then(|word| word.to_str());
    if !ALIASES.iter().any(|alias| Some(alias.name) == named) {
        return Ok(given);
    }
    let texts = given
        .iter()
        .skip(1)
        .map(|word| word.to_string_lossy().into_owned());
    let expanded = expanded(texts.collect()).map_err(|reason| anyhow!(reason))?;
    let program = given.into_iter().take(1);
    Ok(program.chain(expanded.into_iter().map(OsString::from)).collect())
}

/// Adds the commands of the table to others.
pub fn augment(command: clap::Command) -> clap::Command {
    command.subcommands(table().clap(Surface::augment_args))
}

/// Returns whether the command line names a command of the table.
pub fn is_given(matches: &ArgMatches) -> bool {
    table().given(matches).is_some()
}

/// Runs the command that the command line names, and prints its answer.
///
/// # Errors
///
/// If the configuration is not valid, no database can be reached, or the command was refused.
pub async fn run(matches: &ArgMatches) -> Result<ExitCode> {
    let (entry, arguments) = table()
        .given(matches)
        .ok_or_else(|| anyhow!("no command is given"))?;
    let surface = Surface::from_arg_matches(arguments)?;
    let loaded = Loaded::read(&surface.config)?.validated()?;
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
    let begun = entry.begin(&entry.given(arguments), operator, &admin).await?;
    let outcome = entry.run(arguments, admin.clone()).await;
    begun.end(&outcome, &admin).await;
    let reply = outcome?;
    if surface.json {
        println!("{:#}", reply.data);
    } else {
        println!("{}", reply.text);
    }
    Ok(if reply.failed {
        ExitCode::FAILURE
    } else {
        ExitCode::SUCCESS
    })
}
