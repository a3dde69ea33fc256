//! Parsing of a line.

use std::sync::LazyLock;
use std::time::Duration;

use clap::error::ErrorKind;
use clap::{Args, FromArgMatches};

use parkhang_core::domain::nearest;

use crate::admin::aliases::{alias_of, expanded};
use crate::admin::{Refusal, VOLUME_LIST, table};
use crate::session::Given;

/// Words that stand beside the commands of the table, and what they do.
pub const OWN: [(&str, &str); 5] = [
    ("help", "List the commands, or explain one: help job create"),
    (
        "watch",
        "Repeat a command until a key is pressed: watch [SECONDS] COMMAND",
    ),
    (
        "tail",
        "Follow jobs, nodes and operators until a key is pressed, in a script until stopped: tail [SECONDS]",
    ),
    ("exit", "Leave, as does Ctrl-D"),
    ("quit", "Leave"),
];

const WATCHED_EVERY: Duration = Duration::from_secs(2);
const FOLLOWED_EVERY: Duration = Duration::from_secs(1);

#[derive(Debug)]
pub enum ParsedLine {
    Nothing,
    Leave,
    /// Says this, which is known here.
    Tell(String),
    Give(Given),
    Watch {
        every: Duration,
        line: String,
        given: Given,
    },
    Tail {
        every: Duration,
    },
}

/// What every command takes here.
#[derive(Debug, Args)]
struct SharedArgs {
    /// Print the answer as JSON.
    #[arg(long)]
    json: bool,
}

/// The commands of the table by themselves.
pub fn grammar() -> &'static clap::Command {
    static GRAMMAR: LazyLock<clap::Command> = LazyLock::new(|| {
        let mut command = clap::Command::new("repl")
            .multicall(true)
            .disable_help_subcommand(true)
            .subcommand_required(true)
            .subcommands(table().clap(SharedArgs::augment_args));
        command.build();
        command
    });
    &GRAMMAR
}

/// Reads a line. Fails, and says why, if it asks for what there is not.
pub fn parse(line: &str) -> Result<ParsedLine, String> {
    let words = shlex::split(line).ok_or("a quotation mark has no other to match it")?;
    let Some(first) = words.first() else {
        return Ok(ParsedLine::Nothing);
    };
    match first.as_str() {
        "exit" | "quit" => Ok(ParsedLine::Leave),
        "help" | "?" => help(&words[1..]).map(ParsedLine::Tell),
        "tail" => {
            let (every, rest) = pause(&words[1..]);
            match rest {
                [] => Ok(ParsedLine::Tail {
                    every: every.unwrap_or(FOLLOWED_EVERY),
                }),
                _ => Err("tail takes a number of seconds and nothing else".to_owned()),
            }
        }
        "watch" => {
            let (every, rest) = pause(&words[1..]);
            let line = shlex::try_join(rest.iter().map(String::as_str)).map_err(|error| error.to_string())?;
            match given(rest.to_vec())? {
                ParsedLine::Give(given) => Ok(ParsedLine::Watch {
                    every: every.unwrap_or(WATCHED_EVERY),
                    line,
                    given,
                }),
                parse => Ok(parse),
            }
        }
        _ => given(words),
    }
}

/// Seconds that may stand before the rest.
fn pause(words: &[String]) -> (Option<Duration>, &[String]) {
    let seconds = words.first().and_then(|word| word.parse::<f64>().ok());
    // Negative, huge and not-a-number values are numbers to the parser and no durations.
    let pause = seconds.and_then(|seconds| Duration::try_from_secs_f64(seconds).ok());
    match pause.filter(|pause| !pause.is_zero()) {
        Some(pause) => (Some(pause), &words[1..]),
        None => (None, words),
    }
}

fn given(words: Vec<String>) -> Result<ParsedLine, String> {
    let words = expanded(words)?;
    let Some(subject) = words.first() else {
        return Err("a command is needed".to_owned());
    };
    // Before clap sees the line, so that the words of the REPL itself are suggested as well.
    if grammar().find_subcommand(subject).is_none() {
        return Err(unknown(subject));
    }
    let matches = match grammar().clone().try_get_matches_from(&words) {
        Ok(matches) => matches,
        Err(error) => match error.kind() {
            ErrorKind::DisplayHelp | ErrorKind::DisplayHelpOnMissingArgumentOrSubcommand => {
                return Ok(ParsedLine::Tell(error.render().to_string().trim_end().to_owned()));
            }
            _ => return Err(Refusal::invalid(&error).to_string()),
        },
    };
    let (entry, matches) = table().given(&matches).ok_or("a command is needed")?;
    let shared = SharedArgs::from_arg_matches(matches).map_err(|error| error.to_string())?;
    if entry
        .given(matches)
        .get(VOLUME_LIST)
        // Standard input is the terminal or the script here, and reading a list from it would swallow the
        // commands behind.
        .is_some_and(|path| path == "-")
    {
        return Err("--volumes-from must name a file here: commands are read from standard input".to_owned());
    }
    Ok(ParsedLine::Give(Given {
        entry,
        arguments: entry
            .given_elsewhere(matches)
            .map_err(|refusal| refusal.to_string())?,
        json: shared.json,
        wait: entry.waits(matches),
    }))
}

fn unknown(word: &str) -> String {
    let subjects = grammar().get_subcommands().map(clap::Command::get_name);
    match nearest(word, subjects.chain(OWN.map(|(word, _)| word)), 2) {
        Some(near) => format!("there is no command {word}; did you mean {near}?"),
        None => format!("there is no command {word}; help lists them"),
    }
}

fn help(words: &[String]) -> Result<String, String> {
    if words.is_empty() {
        return Ok(overview());
    }
    if let Some((_, about)) = OWN.iter().find(|(own, _)| words == [*own]) {
        return Ok((*about).to_owned());
    }
    // The command behind another spelling, without what that adds or needs.
    let words: Vec<&str> = match alias_of(words) {
        Some(alias) => alias.words.to_vec(),
        None => words.iter().map(String::as_str).collect(),
    };
    let mut command = grammar();
    for word in &words {
        let below = command.find_subcommand(word);
        command = below.ok_or_else(|| format!("there is no command {}; help lists them", words.join(" ")))?;
    }
    Ok(command
        .clone()
        .render_long_help()
        .to_string()
        .trim_end()
        .to_owned())
}

fn overview() -> String {
    let mut lines = Vec::new();
    for subject in grammar().get_subcommands() {
        let name = subject.get_name();
        for command in subject.get_subcommands() {
            let about = command.get_about().map(ToString::to_string).unwrap_or_default();
            let about = first_clause(&about);
            lines.push(format!(
                "{:<18} {about}",
                format!("{name} {}", command.get_name())
            ));
        }
    }
    lines.extend(OWN.map(|(word, about)| format!("{word:<18} {about}")));
    lines.push("Every command takes --json, and help before it explains it.".to_owned());
    lines.join("\n")
}

/// Up to the first mark that ends a clause, of those outside brackets and before a space.
fn first_clause(text: &str) -> &str {
    let mut depth = 0_usize;
    for (place, letter) in text.char_indices() {
        match letter {
            '(' => depth += 1,
            ')' => depth = depth.saturating_sub(1),
            '.' | ';' | ':' if depth == 0 => {
                let behind = &text[place + letter.len_utf8()..];
                if behind.is_empty() || behind.starts_with(char::is_whitespace) {
                    return &text[..place];
                }
            }
            _ => {}
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use serde_json::{Map, Value};

    use super::*;

    fn given(line: &str) -> Given {
        match parse(line).unwrap() {
            ParsedLine::Give(given) => given,
            parse => panic!("{parse:?}"),
        }
    }

    fn message(line: &str) -> String {
        match parse(line).unwrap() {
            ParsedLine::Tell(text) => text,
            parse => panic!("{parse:?}"),
        }
    }

    #[test]
    fn a_command_and_what_it_is_given() {
        let create =
            given("job create press --volume W1-I1 --volume W1-I2 --priority=-3 --config 'layout=a b'");
        assert_eq!(create.entry.name, ["job", "create"]);
        let arguments = serde_json::json!({
            "job": "press", "volume": ["W1-I1", "W1-I2"], "priority": "-3", "config": ["layout=a b"]
        });
        assert_eq!(Value::Object(create.arguments), arguments);
        assert!(!create.json && !create.wait);
        let status = given("job status press --wait --json  # how far?");
        assert_eq!(
            Value::Object(status.arguments),
            serde_json::json!({"job": "press"})
        );
        assert!(status.json && status.wait);
        assert_eq!(given("job list").arguments, Map::new());
    }

    #[test]
    fn other_spellings_are_understood() {
        let create = given("create_job --op ocr --volumes W1-I1,W1-I2");
        assert_eq!(create.entry.name, ["job", "create"]);
        let arguments = serde_json::json!({"pipeline": "ocr", "volume": ["W1-I1", "W1-I2"]});
        assert_eq!(Value::Object(create.arguments), arguments);
        assert_eq!(given("job_status J123").arguments["job"], "J123");
        let failed = given("dead list press");
        assert_eq!(failed.entry.name, ["tasks", "list"]);
        let arguments = serde_json::json!({"job": "press", "state": "failed"});
        assert_eq!(Value::Object(failed.arguments), arguments);
    }

    #[test]
    fn volumes_of_a_file_are_sent_by_name() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("volumes");
        std::fs::write(&file, "W1-I1\nW1-I2 # bound twice\n").unwrap();
        let create = given(&format!("job create x --volumes-from {}", file.display()));
        let arguments = serde_json::json!({"job": "x", "volume": ["W1-I1", "W1-I2"]});
        assert_eq!(Value::Object(create.arguments), arguments);
        assert!(parse("job create x --volumes-from -").is_err());
        assert!(parse("job create x --volumes-from /nowhere").is_err());
    }

    #[test]
    fn mistakes_are_named() {
        for (line, reason) in [
            ("jbo list", "there is no command jbo; did you mean job?"),
            ("xyzzy", "there is no command xyzzy; help lists them"),
            ("job creat x", "unrecognized subcommand 'creat'"),
            ("job status", "the following required arguments"),
            ("job list --limt 3", "unexpected argument '--limt'"),
            ("job status 'x", "a quotation mark"),
            ("watch", "a command is needed"),
            ("create_job --volumes", "--volumes needs a value"),
            ("help job sing", "there is no command job sing"),
        ] {
            let refusal = parse(line).unwrap_err();
            assert!(refusal.starts_with(reason), "{line}: {refusal}");
        }
    }

    #[test]
    fn what_is_no_command_of_the_table() {
        assert!(matches!(parse("  "), Ok(ParsedLine::Nothing)));
        assert!(matches!(parse("# nothing"), Ok(ParsedLine::Nothing)));
        assert!(matches!(parse("exit"), Ok(ParsedLine::Leave)));
        assert!(
            matches!(parse("tail 0.5"), Ok(ParsedLine::Tail { every }) if every == Duration::from_millis(500))
        );
        match parse("watch 5 job status 'a b'") {
            Err(error) => assert!(error.contains("a b"), "{error}"),
            parse => panic!("{parse:?}"),
        }
        match parse("watch 5 job list --limit 3").unwrap() {
            ParsedLine::Watch { every, line, given } => {
                assert_eq!(
                    (every, line.as_str()),
                    (Duration::from_secs(5), "job list --limit 3")
                );
                assert_eq!(given.entry.name, ["job", "list"]);
            }
            parse => panic!("{parse:?}"),
        }
    }

    #[test]
    fn a_line_of_help_ends_with_a_clause_and_not_within_brackets() {
        for (about, clause) in [
            (
                "Read lists (dimensions.json) and keep them. More.",
                "Read lists (dimensions.json) and keep them",
            ),
            (
                "Say how far a job is; exit status 1 if it failed",
                "Say how far a job is",
            ),
            ("Make job.json", "Make job.json"),
            ("List the nodes.", "List the nodes"),
        ] {
            assert_eq!(first_clause(about), clause);
        }
    }

    #[test]
    fn help_lists_and_explains_every_command() {
        let overview = message("help");
        for entry in table().entries() {
            let name = entry.name.join(" ");
            assert!(overview.contains(&name), "{name}");
            let explained = message(&format!("help {name}"));
            assert!(explained.contains(&format!("Usage: {name}")), "{explained}");
            assert!(explained.contains("--json"), "{explained}");
        }
        assert!(message("help watch").contains("SECONDS"));
        assert!(message("help create_job").contains("Usage: job create"));
        assert!(message("help dead list").contains("Usage: tasks list"));
        assert!(message("job create --help").contains("Usage: job create"));
        assert!(message("job").contains("Usage: job"));
    }

    #[test]
    fn fuzz_command_lines() {
        let corpus = [
            "job create best --pipeline combine --inputs a,b --config k_factor=1.5 --json",
            "tasks list press --state failed --limit 10",
            "watch 2 job list",
            "help job 'create \"",
        ];
        parkhang_fuzz::Fuzz::of_texts("command-lines", corpus).feeds_texts(|line| drop(parse(line)));
    }
}
