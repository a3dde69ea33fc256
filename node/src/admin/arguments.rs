//! Conversion between arguments by name, as programs give them, and a command line. A command given by name is checked by the same
//! clap parser as one that was typed, so there is one set of rules and one wording of its errors.

use clap::parser::ValueSource;
use clap::{Arg, ArgAction, ArgMatches, Command};
use serde_json::{Map, Value};

use super::Refusal;

/// Kind of value that an argument takes, for forms and for the description of the HTTP interface.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Kind {
    Flag,
    Integer,
    Text,
    /// One of these words.
    Choice(Vec<String>),
}

/// An argument of a command, as its parser knows it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Argument {
    pub name: String,
    pub help: String,
    pub kind: Kind,
    /// True if it takes a list.
    pub many: bool,
    pub required: bool,
}

/// The arguments of a command, in order.
pub(super) fn arguments(command: &Command) -> Vec<Argument> {
    command
        .get_arguments()
        .filter(|argument| !is_general(argument))
        .map(Argument::of)
        .collect()
}

fn is_general(argument: &Arg) -> bool {
    matches!(
        argument.get_action(),
        ArgAction::Help | ArgAction::HelpShort | ArgAction::HelpLong | ArgAction::Version
    )
}

impl Argument {
    fn of(argument: &Arg) -> Self {
        let choices: Vec<String> = argument
            .get_possible_values()
            .iter()
            .map(|value| value.get_name().to_owned())
            .collect();
        let kind = match argument.get_action() {
            ArgAction::SetTrue => Kind::Flag,
            _ if !choices.is_empty() => Kind::Choice(choices),
            _ if is_integer(argument) => Kind::Integer,
            _ => Kind::Text,
        };
        Self {
            name: argument.get_id().as_str().to_owned(),
            help: argument.get_help().map(ToString::to_string).unwrap_or_default(),
            kind,
            many: takes_many(argument),
            required: argument.is_required_set(),
        }
    }
}

fn takes_many(argument: &Arg) -> bool {
    matches!(argument.get_action(), ArgAction::Append)
        || argument
            .get_num_args()
            .is_some_and(|range| range.max_values() > 1)
}

fn is_integer(argument: &Arg) -> bool {
    // Clap tells only the type of a parser's result; these are all integers that arguments of commands have.
    let kind = argument.get_value_parser().type_id();
    kind == std::any::TypeId::of::<u64>()
        || kind == std::any::TypeId::of::<u32>()
        || kind == std::any::TypeId::of::<usize>()
        || kind == std::any::TypeId::of::<i32>()
        || kind == std::any::TypeId::of::<i64>()
}

/// Returns the command line for arguments given by name, without the command itself.
///
/// # Errors
///
/// [`Refusal::Invalid`] if a value is not of the argument's kind.
pub(super) fn command_line(command: &Command, given: &Map<String, Value>) -> Result<Vec<String>, Refusal> {
    let known: Vec<&Arg> = command
        .get_arguments()
        .filter(|argument| !is_general(argument))
        .collect();
    let (mut options, mut positionals) = (Vec::new(), Vec::new());
    for argument in known {
        let name = argument.get_id().as_str();
        let Some(value) = given.get(name) else {
            continue;
        };
        if let ArgAction::SetTrue = argument.get_action() {
            // Clap has no spelling for a flag that is not set, so false is the same as leaving it out.
            if truth(name, value)? {
                options.extend(argument.get_long().map(|long| format!("--{long}")));
            }
            continue;
        }
        for text in texts(name, value, argument)? {
            match argument.get_long() {
                Some(long) => options.push(format!("--{long}={text}")),
                None => positionals.push(text),
            }
        }
    }
    // Values may begin with a dash. Options carry theirs behind `=`; positional ones need the separator.
    if !positionals.is_empty() {
        options.push("--".to_owned());
        options.append(&mut positionals);
    }
    Ok(options)
}

/// Arguments that were given on a command line, by name; defaults are left out.
pub(super) fn by_name(command: &Command, matches: &ArgMatches) -> Map<String, Value> {
    let mut given = Map::new();
    for argument in command.get_arguments().filter(|argument| !is_general(argument)) {
        let name = argument.get_id().as_str();
        // Defaults belong to the build that carries the command out, which may be a newer one than this.
        if matches.value_source(name) != Some(ValueSource::CommandLine) {
            continue;
        }
        if let ArgAction::SetTrue = argument.get_action() {
            given.insert(name.to_owned(), Value::Bool(true));
            continue;
        }
        let mut texts: Vec<Value> = matches
            .get_raw(name)
            .into_iter()
            .flatten()
            .map(|text| text.to_string_lossy().into_owned().into())
            .collect();
        let value = if takes_many(argument) {
            Value::Array(texts)
        } else {
            texts.pop().unwrap_or_default()
        };
        given.insert(name.to_owned(), value);
    }
    given
}

fn truth(name: &str, value: &Value) -> Result<bool, Refusal> {
    match value {
        Value::Bool(truth) => Ok(*truth),
        // Arguments of the query and of the path are always texts.
        Value::String(text) if text == "true" => Ok(true),
        Value::String(text) if text == "false" => Ok(false),
        Value::Null => Ok(false),
        _ => Err(Refusal::Invalid(format!("{name} must be true or false"))),
    }
}

fn texts(name: &str, value: &Value, argument: &Arg) -> Result<Vec<String>, Refusal> {
    let text = |value: &Value| match value {
        // No text of the database may have this character.
        Value::String(text) if text.contains('\0') => {
            Err(Refusal::Invalid(format!("{name} has a character of code 0")))
        }
        Value::String(text) => Ok(text.clone()),
        // Numbers are refused where a text is expected: a number has several spellings, and a name only one.
        Value::Number(number) if is_integer(argument) => Ok(number.to_string()),
        _ => {
            let kind = if is_integer(argument) {
                "a number"
            } else {
                "a text"
            };
            Err(Refusal::Invalid(format!("{name} must be {kind}")))
        }
    };
    match value {
        Value::Null => Ok(Vec::new()),
        Value::Array(values) if takes_many(argument) => values.iter().map(text).collect(),
        _ if takes_many(argument) => Err(Refusal::Invalid(format!("{name} must be a list"))),
        value => Ok(vec![text(value)?]),
    }
}
