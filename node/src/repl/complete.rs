//! Completion of the word at the cursor.

use clap::{Arg, Command};

use super::parse::{OWN, grammar};
use crate::admin::aliases::{ALIASES, alias_of};

/// Source of names that only the cluster knows.
pub trait Names {
    fn jobs(&self) -> Vec<String>;
    fn volumes(&self, job: &str) -> Vec<String>;
    fn stages(&self) -> Vec<String>;
    fn nodes(&self) -> Vec<String>;
    fn actors(&self, node: &str) -> Vec<String>;
}

/// Candidates for the text from `start` to the cursor.
#[derive(Debug, PartialEq, Eq)]
pub struct Completion {
    pub start: usize,
    pub candidates: Vec<Candidate>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Candidate {
    pub text: String,
    pub about: Option<String>,
}

impl Candidate {
    fn new(text: impl Into<String>, about: Option<String>) -> Self {
        Self {
            text: text.into(),
            about,
        }
    }
}

/// Command that the words of a line lead to, with the words after it.
#[derive(Debug)]
pub struct Place<'a> {
    pub command: &'static Command,
    pub words: Vec<&'a str>,
}

/// Follows the complete words of a line into the grammar; `None` if they name no command.
pub fn place<'a>(words: &[&'a str]) -> Option<Place<'a>> {
    let mut rest = words;
    if let [first @ ("watch" | "help"), behind @ ..] = rest {
        rest = behind;
        if let ("watch", [number, behind @ ..]) = (*first, rest)
            && number.parse::<f64>().is_ok()
        {
            rest = behind;
        }
    }
    let mut command = grammar();
    // An alias is followed to the command that it stands for, whose arguments it takes.
    if let Some(alias) = alias_of(rest) {
        for word in alias.words {
            command = command.find_subcommand(word)?;
        }
        rest = &rest[alias.length()..];
    }
    while command.has_subcommands() {
        let Some((word, behind)) = rest.split_first() else {
            break;
        };
        command = command.find_subcommand(word)?;
        rest = behind;
    }
    Some(Place {
        command,
        words: rest.to_vec(),
    })
}

pub fn complete(line: &str, cursor: usize, names: &dyn Names) -> Completion {
    // The cursor of the editor is a byte offset that need not be at a boundary.
    let before = &line[..line.floor_char_boundary(cursor)];
    // By the letters of the word and not from the last blank, as a blank may be more than one byte long.
    let start = before
        .trim_end_matches(|letter: char| !letter.is_whitespace())
        .len();
    let (words, begun) = (
        before[..start].split_whitespace().collect::<Vec<_>>(),
        &before[start..],
    );
    let Some(place) = place(&words) else {
        return Completion {
            start,
            candidates: Vec::new(),
        };
    };
    let (start, begun, mut candidates) = if place.command.has_subcommands() {
        let below = place.command.get_subcommands();
        let mut candidates: Vec<Candidate> = below.map(of_command).collect();
        if words.is_empty() {
            let own = OWN
                .iter()
                .map(|(word, about)| Candidate::new(*word, Some((*about).to_owned())));
            let aliases = ALIASES
                .iter()
                .map(|alias| Candidate::new(alias.name, Some(alias.words.join(" "))));
            candidates.extend(own.chain(aliases));
        }
        (start, begun, candidates)
    } else {
        of_arguments(&place, start, begun, names)
    };
    candidates.retain(|candidate| candidate.text.starts_with(begun));
    Completion { start, candidates }
}

fn of_command(command: &Command) -> Candidate {
    let about = command.get_about().map(ToString::to_string);
    Candidate::new(command.get_name(), about)
}

fn of_arguments<'l>(
    place: &Place<'_>,
    start: usize,
    begun: &'l str,
    names: &dyn Names,
) -> (usize, &'l str, Vec<Candidate>) {
    let first = positionals(place).first().copied().unwrap_or_default();
    let values = |argument: &Arg| values(argument, first, names);
    if let Some((option, value)) = begun.split_once('=')
        && let Some(argument) = option_named(place.command, option)
    {
        return (start + option.len() + 1, value, values(argument));
    }
    if let Some(last) = place.words.last()
        && let Some(argument) = option_named(place.command, last)
        && argument.get_action().takes_values()
    {
        return (start, begun, values(argument));
    }
    if begun.starts_with('-') {
        return (start, begun, options(place));
    }
    let next = place.command.get_positionals().nth(positionals(place).len());
    let mut candidates = next.map(values).unwrap_or_default();
    // Where the next value is unknown or there is none, only options can follow.
    if candidates.is_empty() {
        candidates = options(place);
    }
    (start, begun, candidates)
}

/// Returns the words that are neither options nor their values.
pub fn positionals<'a>(place: &Place<'a>) -> Vec<&'a str> {
    let mut positionals = Vec::new();
    let mut words = place.words.iter();
    while let Some(word) = words.next() {
        if !word.starts_with("--") {
            positionals.push(*word);
        } else if option_named(place.command, word).is_some_and(|option| option.get_action().takes_values()) {
            words.next();
        }
    }
    positionals
}

fn option_named<'c>(command: &'c Command, word: &str) -> Option<&'c Arg> {
    let name = word.strip_prefix("--")?;
    command.get_opts().find(|option| option.get_long() == Some(name))
}

/// Returns the options that may still be given.
fn options(place: &Place<'_>) -> Vec<Candidate> {
    let all = place.command.get_arguments().filter_map(|argument| {
        let option = format!("--{}", argument.get_long()?);
        let given = place
            .words
            .iter()
            .any(|word| word.split('=').next() == Some(&option));
        let repeated = matches!(argument.get_action(), clap::ArgAction::Append);
        if given && !repeated {
            return None;
        }
        Some(Candidate::new(
            option,
            argument.get_help().map(ToString::to_string),
        ))
    });
    all.collect()
}

/// Returns the candidates for the value of an argument. `first` is the first positional word before it: a job, or a node.
fn values(argument: &Arg, first: &str, names: &dyn Names) -> Vec<Candidate> {
    let choices = argument.get_possible_values();
    if !choices.is_empty() {
        let choices = choices.iter().map(|choice| {
            let about = choice.get_help().map(ToString::to_string);
            Candidate::new(choice.get_name(), about)
        });
        return choices.collect();
    }
    let kind = argument.get_value_names().and_then(|names| names.first());
    let known = match (argument.get_id().as_str(), kind.map(|kind| kind.as_str())) {
        // A job that is about to be created has no known name.
        ("job", _) if argument.is_required_set() => names.jobs(),
        (_, Some("STAGE" | "QUEUE")) => names.stages(),
        (_, Some("NODE")) => names.nodes(),
        (_, Some("ACTOR")) if !first.is_empty() => names.actors(first),
        ("volume", _) if !first.is_empty() => names.volumes(first),
        _ => Vec::new(),
    };
    known.into_iter().map(|name| Candidate::new(name, None)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A cluster with two jobs.
    struct Known;

    impl Names for Known {
        fn jobs(&self) -> Vec<String> {
            vec!["press".to_owned(), "urgent".to_owned()]
        }

        fn volumes(&self, job: &str) -> Vec<String> {
            vec![format!("W1-{job}")]
        }

        fn stages(&self) -> Vec<String> {
            vec!["ocr".to_owned(), "reduce".to_owned()]
        }

        fn nodes(&self) -> Vec<String> {
            vec!["cpu.1".to_owned()]
        }

        fn actors(&self, node: &str) -> Vec<String> {
            vec![format!("ocr/{node}")]
        }
    }

    fn completed(line: &str) -> Vec<String> {
        let completion = complete(line, line.len(), &Known);
        completion
            .candidates
            .into_iter()
            .map(|candidate| candidate.text)
            .collect()
    }

    #[test]
    fn words_of_commands() {
        let all = completed("");
        for word in [
            "job",
            "tasks",
            "watch",
            "tail",
            "help",
            "create_job",
            "launch_workers",
        ] {
            assert!(all.iter().any(|known| known == word), "{word}: {all:?}");
        }
        assert_eq!(completed("no"), ["nodes"]);
        assert_eq!(completed("job pa"), ["pause"]);
        assert_eq!(completed("watch 5 job pa"), ["pause"]);
        assert_eq!(completed("help job pa"), ["pause"]);
        assert_eq!(completed("jbo "), [""; 0]);
    }

    #[test]
    fn names_that_the_cluster_knows() {
        assert_eq!(completed("job pause "), ["press", "urgent"]);
        assert_eq!(completed("job_status u"), ["urgent"]);
        assert_eq!(completed("tasks why press "), ["W1-press"]);
        assert_eq!(completed("tasks retry press W1-press --from r"), ["reduce"]);
        assert_eq!(completed("tasks list press --stage=o"), ["ocr"]);
        assert_eq!(completed("tasks list --limit 3 p"), ["press"]);
        assert_eq!(completed("nodes drain c"), ["cpu.1"]);
        assert_eq!(completed("actors restart cpu.1 "), ["ocr/cpu.1"]);
    }

    #[test]
    fn options_and_their_choices() {
        let options = completed("tasks list press --");
        assert!(options.contains(&"--state".to_owned()) && options.contains(&"--json".to_owned()));
        assert!(!completed("tasks list press --json --").contains(&"--json".to_owned()));
        assert!(completed("tasks list press --state ").contains(&"failed".to_owned()));
        assert!(completed("job create x --volume W1-I1 --vol").contains(&"--volume".to_owned()));
        assert_eq!(completed("nodes list "), ["--all", "--json", "--help"]);
    }

    #[test]
    fn only_what_was_begun_is_replaced() {
        let start = |line: &str| complete(line, line.len(), &Known).start;
        assert_eq!(start("job pause pr"), 10);
        assert_eq!(start("tasks list press --stage=o"), 25);
        assert_eq!(start("job pause\u{a0}pr"), 11);
        assert_eq!(start("job pause\u{3000}"), 12);
        let within = complete("job pause pr later", 6, &Known);
        assert_eq!((within.start, within.candidates.len()), (4, 1), "{within:?}");
    }
}
