//! Table of all commands, from which the command line, the console inside a cluster and the HTTP interface are made.

use std::sync::LazyLock;

use clap::ArgMatches;

use super::command::{Command, Entry};
use super::{
    actors, audit, chaos, cluster, corrections, entities, jobs, nodes, queues, reading, services, tasks,
    volumes, workers,
};

/// What the first words of commands are about, in the order that help shows them.
const SUBJECTS: [(&str, &str); 14] = [
    (
        "job",
        "Make jobs for a cluster, look at them, and steer them while they run.",
    ),
    (
        "tasks",
        "Look at volumes of a job, and find out why one does not go on.",
    ),
    (
        "volumes",
        "Make the volumes of a library known, and look at what became of them.",
    ),
    ("pages", "Look at what was read."),
    (
        "corrections",
        "Look at what people have corrected, and take it in and out.",
    ),
    ("nodes", "Look at the nodes of a cluster, and empty one."),
    (
        "actors",
        "Look at what works on the nodes, and put another in the place of what is stuck.",
    ),
    (
        "workers",
        "Start and stop worker nodes, where the cluster has a launcher.",
    ),
    (
        "queue",
        "Manage the queues of stages, where nodes take their work from SQS.",
    ),
    (
        "services",
        "Look at other people's services that do stages or read pages.",
    ),
    (
        "entities",
        "Look at tables whose rows services work on, and steer them.",
    ),
    ("cluster", "Look at the cluster as a whole."),
    (
        "chaos",
        "Make faults on purpose, to see what becomes of them, where chaos.allowed is set.",
    ),
    ("audit", "Look at what operators did."),
];

#[derive(Debug, Default)]
pub struct Table {
    entries: Vec<Entry>,
}

/// Returns the table of all commands.
pub fn table() -> &'static Table {
    static TABLE: LazyLock<Table> = LazyLock::new(|| {
        Table::default()
            .with::<jobs::Create>()
            .with::<jobs::List>()
            .with::<jobs::Status>()
            .with::<jobs::Stats>()
            .with::<jobs::Quality>()
            .with::<jobs::Plan>()
            .with::<jobs::Errors>()
            .with::<jobs::Pause>()
            .with::<jobs::Resume>()
            .with::<jobs::Close>()
            .with::<jobs::Cancel>()
            .with::<jobs::Priority>()
            .with::<jobs::Limits>()
            .with::<jobs::Config>()
            .with::<jobs::Update>()
            .with::<jobs::Rerun>()
            .with::<jobs::Delete>()
            .with::<tasks::List>()
            .with::<tasks::Show>()
            .with::<tasks::Why>()
            .with::<tasks::Retry>()
            .with::<tasks::Requeue>()
            .with::<volumes::Import>()
            .with::<volumes::List>()
            .with::<volumes::Show>()
            .with::<reading::Search>()
            .with::<reading::List>()
            .with::<reading::Show>()
            .with::<reading::Failed>()
            .with::<corrections::List>()
            .with::<corrections::History>()
            .with::<corrections::Export>()
            .with::<corrections::Import>()
            .with::<nodes::List>()
            .with::<nodes::Show>()
            .with::<nodes::Stats>()
            .with::<nodes::Drain>()
            .with::<actors::Tree>()
            .with::<actors::Restart>()
            .with::<chaos::Kill>()
            .with::<chaos::DropLink>()
            .with::<chaos::SlowStore>()
            .with::<chaos::LoseLease>()
            .with::<workers::List>()
            .with::<workers::Launch>()
            .with::<workers::Scale>()
            .with::<queues::Create>()
            .with::<queues::List>()
            .with::<queues::Stats>()
            .with::<queues::Purge>()
            .with::<queues::Redrive>()
            .with::<services::List>()
            .with::<entities::Schema>()
            .with::<entities::Check>()
            .with::<entities::Status>()
            .with::<entities::Trigger>()
            .with::<entities::Retry>()
            .with::<entities::Stuck>()
            .with::<cluster::Status>()
            .with::<audit::List>()
    });
    &TABLE
}

impl Table {
    pub fn entries(&self) -> &[Entry] {
        &self.entries
    }

    fn with<C: Command>(mut self) -> Self {
        self.entries.push(Entry::of::<C>());
        self
    }

    /// Returns a clap command for each subject, with the commands about it as subcommands; `each` adds the options that an interface gives
    /// to all of them.
    pub fn clap(&self, each: impl Fn(clap::Command) -> clap::Command) -> Vec<clap::Command> {
        SUBJECTS
            .iter()
            .map(|(subject, about)| {
                let entries = self.entries.iter().filter(|entry| entry.name[0] == *subject);
                clap::Command::new(*subject)
                    .about(*about)
                    .subcommand_required(true)
                    .arg_required_else_help(true)
                    .subcommands(entries.map(|entry| with_own_help(entry.clap(), &each)))
            })
            .collect()
    }

    /// Returns the command that was given on a command line parsed by [`Self::clap`], and its arguments.
    pub fn given<'m>(&self, matches: &'m ArgMatches) -> Option<(&Entry, &'m ArgMatches)> {
        let (subject, below) = matches.subcommand()?;
        let (verb, arguments) = below.subcommand()?;
        Some((self.named(&[subject, verb])?, arguments))
    }

    pub fn named(&self, words: &[impl AsRef<str>]) -> Option<&Entry> {
        self.entries
            .iter()
            .find(|entry| words.iter().map(AsRef::as_ref).eq(entry.name))
    }
}

/// Adds the options of an interface to a command and keeps the command's own help: they are a group of arguments, and clap takes the
/// comment of a group for the help of the command.
fn with_own_help(command: clap::Command, each: impl Fn(clap::Command) -> clap::Command) -> clap::Command {
    let about = command.get_about().cloned();
    let long_about = command.get_long_about().cloned();
    let command = each(command).about(about.unwrap_or_default());
    match long_about {
        Some(long_about) => command.long_about(long_about),
        // Without this the comment of the group that `each` adds would stay as the long help.
        None => command.long_about(None),
    }
}

#[cfg(test)]
mod tests {
    use std::fmt::Write;

    use super::*;
    use crate::admin::{Kind, Verb};
    use crate::client::ROOT;
    use parkhang_test_support::assert_documented;

    const INTRODUCTION: &str = "# Commands of a cluster\n\n\
        The same commands on the command line (`node WORD WORD`), in `node repl`, see [repl.md](repl.md), and over HTTP, see\n\
        [api.md](api.md). On the command line each takes `--json`, which prints the answer of the HTTP interface, and the flags of a\n\
        [configuration](config.md). This page is generated from the code.\n";

    fn page() -> String {
        let mut page = INTRODUCTION.to_owned();
        for (subject, about) in SUBJECTS {
            let _ = write!(page, "\n## node {subject}\n\n{about}\n");
            for entry in table().entries().iter().filter(|entry| entry.name[0] == subject) {
                let command = entry.clap();
                let about = command
                    .get_long_about()
                    .or(command.get_about())
                    .map(ToString::to_string);
                let verb = match entry.verb {
                    Verb::Get => "GET",
                    Verb::Post => "POST",
                    Verb::Patch => "PATCH",
                };
                let _ = write!(
                    page,
                    "\n### node {}\n\n{}\n\n`{verb} {ROOT}{}`, for the role {}\n",
                    entry.name.join(" "),
                    about.unwrap_or_default(),
                    entry.path,
                    entry.access.as_str()
                );
                let arguments = entry.arguments();
                if arguments.is_empty() {
                    continue;
                }
                page.push_str("\n| argument | | meaning |\n|---|---|---|\n");
                for argument in arguments {
                    let kind = match &argument.kind {
                        Kind::Flag => "flag".to_owned(),
                        Kind::Integer => "integer".to_owned(),
                        Kind::Text => "text".to_owned(),
                        Kind::Choice(words) => words.join(", "),
                    };
                    let many = if argument.many { ", several" } else { "" };
                    let required = if argument.required { ", required" } else { "" };
                    let help = argument.help.replace('|', "\\|").replace('\n', " ");
                    let _ = writeln!(page, "| `{}` | {kind}{many}{required} | {help} |", argument.name);
                }
            }
        }
        page
    }

    #[test]
    fn the_documented_commands_are_those_of_the_code() {
        assert_documented("commands.md", &page());
    }

    #[test]
    fn a_surface_leaves_each_command_its_help() {
        /// Argument of an interface.
        #[derive(Debug, clap::Args)]
        struct SharedArgs {
            #[arg(long)]
            json: bool,
        }
        for subject in table().clap(<SharedArgs as clap::Args>::augment_args) {
            for command in subject.get_subcommands() {
                let about = command.get_about().map(ToString::to_string).unwrap_or_default();
                assert!(!about.is_empty() && !about.contains("surface"), "{command:?}");
            }
        }
    }

    #[test]
    fn every_command_belongs_to_a_subject_and_has_one_name_and_one_path() {
        let mut seen = std::collections::BTreeSet::new();
        for entry in table().entries() {
            assert!(
                SUBJECTS.iter().any(|(subject, _)| *subject == entry.name[0]),
                "{entry:?}"
            );
            assert!(seen.insert(entry.name.join(" ")), "{entry:?}");
            assert!(
                seen.insert(format!("{:?} {}", entry.verb, entry.path)),
                "{entry:?}"
            );
            entry.clap().debug_assert();
            for part in entry.path.split(['{', '}']).skip(1).step_by(2) {
                assert!(
                    entry.arguments().iter().any(|argument| argument.name == part),
                    "{entry:?}: {part}"
                );
            }
        }
    }
}
