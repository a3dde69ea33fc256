//! The interface of a command, and a row of the table made from one: the command line, the REPL and HTTP see rows only.

use std::fmt;

use async_trait::async_trait;
use clap::{ArgMatches, Args};
use futures::future::BoxFuture;
use serde::Serialize;
use serde_json::{Map, Value};
use utoipa::openapi::{RefOr, Schema};
use utoipa::{PartialSchema, ToSchema};

use super::arguments::{Argument, arguments, by_name, command_line};
use super::{Admin, Refusal};
pub use crate::access::Access;

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
    /// Arguments that only a command line may give: they read its files, or wait.
    const LOCAL: &'static [&'static str] = &[];
    /// True if it may be the first command of a cluster, and so may create the database when given on a command line.
    const MAY_BE_FIRST: bool = false;
    type Answer: Answer;

    async fn run(self, admin: &Admin) -> Result<Self::Answer, Refusal>;
}

/// Answer with its type erased.
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
        (self.arguments)(clap::Command::new(self.name[1]))
    }

    /// Returns the arguments that may be given by name.
    pub fn arguments(&self) -> Vec<Argument> {
        let mut arguments = arguments(&self.clap());
        arguments.retain(|argument| !self.local.contains(&argument.name.as_str()));
        arguments
    }

    /// Returns by name the arguments that were given on a command line parsed by [`Self::clap`].
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
