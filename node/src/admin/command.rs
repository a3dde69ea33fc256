//! The interface of a command, and a row of the table made from one: the command line, the REPL and HTTP see rows only.

use std::fmt;

use async_trait::async_trait;
use clap::{Arg, ArgAction, ArgMatches, Args, FromArgMatches};
use futures::future::BoxFuture;
use serde::Serialize;
use serde_json::{Map, Value};
use utoipa::openapi::{RefOr, Schema};
use utoipa::{PartialSchema, ToSchema};

use super::arguments::{Argument, arguments, by_name, command_line};
use super::wait::Wait;
use super::{Admin, Refusal};
pub use crate::access::Access;
use crate::storage::VolumeArgs;

/// HTTP method of a command.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Verb {
    Get,
    Post,
    Patch,
}

/// Answer of a command: data for programs, and a text for people.
pub trait Answer: Serialize + ToSchema + Send + 'static {
    fn text(&self) -> String;

    /// Returns whether the subject of the question has failed, which the exit status of the command line reports.
    fn failed(&self) -> bool {
        false
    }
}

/// Command of an operator. Its fields are its arguments, and their comments its help.
#[async_trait]
pub trait Command: Args + Send + 'static {
    /// Two words that name it, such as `job pause`.
    const NAME: [&'static str; 2];
    const ACCESS: Access;
    const VERB: Verb;
    /// Path below the root of the HTTP interface, with the names of arguments in braces: `/jobs/{job}/pause`.
    const PATH: &'static str;
    /// Arguments that only a command line may give, as they name files.
    const LOCAL: &'static [&'static str] = &[];
    /// The flag that a command line has besides, to wait for the end of what the command is about.
    const WAIT: Option<Wait> = None;
    /// True for a command that a command line carries out itself where it can use the database, as it reads files or takes very long.
    const NEAR_DATABASE: bool = false;
    /// Whether a cluster may begin with it, so that on a command line it may begin a database.
    const MAY_BE_FIRST: bool = false;
    type Answer: Answer;

    async fn run(self, admin: &Admin) -> Result<Self::Answer, Refusal>;
}

/// The argument that names a file with volumes.
pub const VOLUME_LIST: &str = "volumes_from";

/// An answer whose type is forgotten.
#[derive(Debug, Clone, PartialEq)]
pub struct Reply {
    pub data: Value,
    pub text: String,
    pub failed: bool,
}

type Run = fn(&ArgMatches, Admin) -> BoxFuture<'static, Result<Reply, Refusal>>;

/// Command with its type erased: a row of the table.
pub struct Entry {
    pub name: [&'static str; 2],
    pub access: Access,
    pub verb: Verb,
    pub path: &'static str,
    pub may_be_first: bool,
    pub near_database: bool,
    pub wait: Option<Wait>,
    local: &'static [&'static str],
    arguments: fn(clap::Command) -> clap::Command,
    run: Run,
    pub answer: AnswerSchema,
}

/// Schema of an answer, and those that it refers to by name.
#[derive(Debug, Clone, Copy)]
pub struct AnswerSchema {
    pub schema: fn() -> RefOr<Schema>,
    pub parts: fn() -> Vec<(String, RefOr<Schema>)>,
}

impl Entry {
    pub fn of<C: Command>() -> Self {
        Self {
            name: C::NAME,
            access: C::ACCESS,
            verb: C::VERB,
            path: C::PATH,
            may_be_first: C::MAY_BE_FIRST,
            near_database: C::NEAR_DATABASE,
            wait: C::WAIT,
            local: C::LOCAL,
            arguments: C::augment_args,
            run: |matches, admin| {
                let command = C::from_arg_matches(matches);
                Box::pin(async move {
                    let answer = command
                        .map_err(|error| Refusal::invalid(&error))?
                        .run(&admin)
                        .await?;
                    Ok(Reply {
                        data: serde_json::to_value(&answer)
                            .map_err(|error| Refusal::Internal(error.into()))?,
                        text: answer.text(),
                        failed: answer.failed(),
                    })
                })
            },
            answer: AnswerSchema {
                schema: C::Answer::schema,
                parts: || {
                    let mut parts = Vec::new();
                    C::Answer::schemas(&mut parts);
                    parts
                },
            },
        }
    }

    /// Returns the command for clap, named by the last of its words.
    pub fn clap(&self) -> clap::Command {
        let command = (self.arguments)(clap::Command::new(self.name[1]));
        match &self.wait {
            Some(wait) => command.arg(
                Arg::new(wait.flag)
                    .long(wait.flag)
                    .action(ArgAction::SetTrue)
                    .help(wait.help),
            ),
            None => command,
        }
    }

    /// Returns the arguments that may be given by name.
    pub fn arguments(&self) -> Vec<Argument> {
        let mut arguments = arguments(&self.clap());
        let is_wait = |name: &str| self.wait.as_ref().is_some_and(|wait| wait.flag == name);
        arguments.retain(|argument| {
            let name = argument.name.as_str();
            !self.local.contains(&name) && !is_wait(name)
        });
        arguments
    }

    /// True for a command line, made of [`Self::clap`], that asks to wait.
    pub fn waits(&self, matches: &ArgMatches) -> bool {
        self.wait.is_some_and(|wait| matches.get_flag(wait.flag))
    }

    /// By name, what another process can be asked for that was given on a command line made of [`Self::clap`]. The volumes of a list
    /// here are named one by one, as a file of this machine means nothing there.
    ///
    /// # Errors
    ///
    /// When the list cannot be read, or an argument names a file that is of use here alone.
    pub fn given_elsewhere(&self, matches: &ArgMatches) -> Result<Map<String, Value>, Refusal> {
        let mut given = self.given(matches);
        if let Some(wait) = &self.wait {
            given.remove(wait.flag);
        }
        if given.remove(VOLUME_LIST).is_some() {
            let named = VolumeArgs::from_arg_matches(matches).map_err(|error| Refusal::invalid(&error))?;
            let named = named
                .named()
                .map_err(|error| Refusal::Invalid(format!("{error:#}")))?;
            let volumes = named.into_iter().flatten();
            let volumes = volumes.map(|volume| volume.to_string().into()).collect();
            // `named` has included the volumes of `--volume`, so replacing the argument loses none of them.
            given.insert("volume".to_owned(), Value::Array(volumes));
        }
        match self.local.iter().find(|name| given.contains_key(**name)) {
            Some(name) => Err(Refusal::Invalid(format!(
                "{name}: an orchestrator does not read the files of this machine; give the command where its database can be used, \
                 without --server"
            ))),
            None => Ok(given),
        }
    }

    /// By name, what was given on a command line made of [`Self::clap`].
    pub fn given(&self, matches: &ArgMatches) -> Map<String, Value> {
        by_name(&self.clap(), matches)
    }

    /// Runs the command with arguments by name.
    ///
    /// # Errors
    ///
    /// [`Refusal::Invalid`] if an argument is unknown or has no valid value, and whatever the command itself refuses.
    pub async fn run_given(&self, given: &Map<String, Value>, admin: Admin) -> Result<Reply, Refusal> {
        // The command line is built from known arguments, so an unknown one must be refused here: clap never sees it.
        let known = self.arguments();
        if let Some(unknown) = given
            .keys()
            .find(|name| known.iter().all(|known| known.name != **name))
        {
            return Err(Refusal::Invalid(format!("there is no argument {unknown}")));
        }
        let command = self.clap();
        let line = command_line(&command, given)?;
        let matches = command
            .no_binary_name(true)
            .try_get_matches_from(line)
            .map_err(|error| Refusal::invalid_by_name(self.clap(), &error))?;
        self.run(&matches, admin).await
    }

    pub fn run(&self, matches: &ArgMatches, admin: Admin) -> BoxFuture<'static, Result<Reply, Refusal>> {
        (self.run)(matches, admin)
    }
}

impl fmt::Debug for Entry {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_tuple("Entry").field(&self.name).finish()
    }
}
