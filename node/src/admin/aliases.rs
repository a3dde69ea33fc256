//! Other spellings of commands, which scripts written for the upstream pipeline may use.

/// Command in one word that stands for one of the table.
#[derive(Debug)]
pub struct Alias {
    pub name: &'static str,
    /// The command that it stands for.
    pub words: [&'static str; 2],
    options: &'static [(&'static str, Translation)],
}

/// Translation of an option that takes a value.
#[derive(Debug)]
enum Translation {
    /// The only value that is accepted; the option is left out then, as it changes nothing.
    Only(&'static str),
    /// Option that takes the values of a comma-separated list one by one.
    Each(&'static str),
}

/// All aliases.
pub const ALIASES: [Alias; 5] = [
    Alias {
        name: "create_job",
        words: ["job", "create"],
        options: &[
            ("--op", Translation::Only("ocr")),
            ("--volumes", Translation::Each("--volume")),
            ("--model", Translation::Each("--model")),
        ],
    },
    Alias {
        name: "job_status",
        words: ["job", "status"],
        options: &[],
    },
    Alias {
        name: "job_list",
        words: ["job", "list"],
        options: &[],
    },
    Alias {
        name: "launch_workers",
        words: ["workers", "launch"],
        options: &[],
    },
    Alias {
        name: "scale_workers",
        words: ["workers", "scale"],
        options: &[],
    },
];

/// Rewrites an alias and its options into the words of the table; a line that begins with no alias is returned as it is.
///
/// # Errors
///
/// If an option has no value, or one that this program does not support.
pub fn expanded(given: Vec<String>) -> Result<Vec<String>, String> {
    let first = given.first().map(String::as_str);
    let Some(alias) = ALIASES.iter().find(|alias| Some(alias.name) == first) else {
        return Ok(given);
    };
    let mut expanded: Vec<String> = alias.words.iter().map(ToString::to_string).collect();
    let mut given = given.into_iter().skip(1);
    while let Some(word) = given.next() {
        let (option, value) = match word.split_once('=') {
            Some((option, value)) => (option, Some(value.to_owned())),
            None => (word.as_str(), None),
        };
        let Some((_, translation)) = alias.options.iter().find(|(name, _)| *name == option) else {
            expanded.push(word);
            continue;
        };
        let value = value.or_else(|| given.next());
        let value = value.ok_or_else(|| format!("{option} needs a value"))?;
        match translation {
            Translation::Only(only) if value == *only => {}
            Translation::Only(only) => return Err(format!("{option} {value}: there is only {only}")),
            Translation::Each(other) => {
                let values = value.split(',').filter(|value| !value.is_empty());
                expanded.extend(values.map(|value| format!("{other}={value}")));
            }
        }
    }
    Ok(expanded)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::admin::table;

    fn expansion(line: &str) -> Result<String, String> {
        expanded(line.split(' ').map(str::to_owned).collect()).map(|words| words.join(" "))
    }

    /// Rows: 102, 107, 119.
    #[test]
    fn other_spellings_become_commands_of_the_table() {
        for (alias, command) in [
            (
                "create_job --op ocr --model M --volumes W1-I1,W1-I2",
                "job create --model=M --volume=W1-I1 --volume=W1-I2",
            ),
            (
                "create_job --volumes=W1-I1, press --op=ocr --priority 3",
                "job create --volume=W1-I1 press --priority 3",
            ),
            ("job_status J123 --json", "job status J123 --json"),
            ("job_list", "job list"),
            (
                "launch_workers --job J123 --count 10 --instance-type g5.xlarge",
                "workers launch --job J123 --count 10 --instance-type g5.xlarge",
            ),
            (
                "scale_workers --job J123 --count 0",
                "workers scale --job J123 --count 0",
            ),
            ("job list", "job list"),
        ] {
            assert_eq!(expansion(alias).as_deref(), Ok(command), "{alias}");
        }
    }

    #[test]
    fn what_there_is_not_is_refused_and_says_why() {
        for (line, reason) in [
            ("create_job --op scan", "--op scan: there is only ocr"),
            ("create_job --volumes", "--volumes needs a value"),
        ] {
            let refusal = expansion(line).unwrap_err();
            assert!(refusal.starts_with(reason), "{line}: {refusal}");
        }
    }

    #[test]
    fn every_alias_stands_for_a_command_and_hides_none() {
        for alias in &ALIASES {
            assert!(table().named(&alias.words).is_some(), "{alias:?}");
            let mut subjects = table().entries().iter().map(|entry| entry.name[0]);
            assert!(subjects.all(|subject| subject != alias.name), "{alias:?}");
        }
    }
}
