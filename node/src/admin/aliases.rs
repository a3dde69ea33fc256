//! Other spellings of commands: shorter ones, and those that scripts written for the upstream pipeline may use.

/// Another spelling of a command.
#[derive(Debug)]
pub struct Alias {
    /// The words with which it begins, between spaces.
    pub name: &'static str,
    /// The command that it stands for.
    pub words: [&'static str; 2],
    /// Options that go without saying.
    adds: &'static [&'static str],
    /// Options of which one must be given; any will do where there are none.
    needs: &'static [&'static str],
    options: &'static [(&'static str, Translation)],
}

/// Meaning of an option of another spelling.
#[derive(Debug)]
enum Translation {
    /// Option that takes the values of a comma-separated list one by one.
    Each(&'static str),
    /// Another option says the same.
    Same(&'static str),
    /// A flag that goes without saying.
    Nothing,
}

const PLAIN: Alias = Alias {
    name: "",
    words: ["", ""],
    adds: &[],
    needs: &[],
    options: &[],
};

/// All of them.
pub const ALIASES: [Alias; 9] = [
    Alias {
        name: "create_job",
        words: ["job", "create"],
        options: &[
            ("--volumes", Translation::Each("--volume")),
            ("--model", Translation::Each("--model")),
        ],
        ..PLAIN
    },
    Alias {
        name: "job_status",
        words: ["job", "status"],
        ..PLAIN
    },
    Alias {
        name: "job_list",
        words: ["job", "list"],
        ..PLAIN
    },
    Alias {
        name: "launch_workers",
        words: ["workers", "launch"],
        ..PLAIN
    },
    Alias {
        name: "scale_workers",
        words: ["workers", "scale"],
        ..PLAIN
    },
    Alias {
        name: "search",
        words: ["pages", "search"],
        ..PLAIN
    },
    Alias {
        name: "dead list",
        words: ["tasks", "list"],
        adds: &["--state=failed"],
        ..PLAIN
    },
    Alias {
        name: "dead show",
        words: ["tasks", "show"],
        ..PLAIN
    },
    Alias {
        name: "dead redrive",
        words: ["job", "rerun"],
        adds: &["--status=failed"],
        needs: &["--volume", "--cause", "--error", "--stage", "--all"],
        options: &[
            ("--stage", Translation::Same("--at")),
            ("--all", Translation::Nothing),
        ],
    },
];

impl Alias {
    /// True for a line that begins with it.
    pub fn begins(&self, line: &[impl AsRef<str>]) -> bool {
        let mut line = line.iter().map(AsRef::as_ref);
        self.name.split(' ').all(|word| line.next() == Some(word))
    }

    /// Words of its name.
    pub fn length(&self) -> usize {
        self.name.split(' ').count()
    }
}

/// The alias with which a line begins.
pub fn alias_of(line: &[impl AsRef<str>]) -> Option<&'static Alias> {
    ALIASES.iter().find(|alias| alias.begins(line))
}

/// The same command in the words of the table.
///
/// # Errors
///
/// With the reason, when it asks for what there is not.
pub fn expanded(given: Vec<String>) -> Result<Vec<String>, String> {
    let Some(alias) = alias_of(&given) else {
        return Ok(given);
    };
    let words = alias.words.iter().chain(alias.adds);
    let mut expanded: Vec<String> = words.map(ToString::to_string).collect();
    let mut is_needed = !alias.needs.is_empty();
    let mut given = given.into_iter().skip(alias.length());
    while let Some(word) = given.next() {
        let (option, value) = match word.split_once('=') {
            Some((option, value)) => (option, Some(value.to_owned())),
            None => (word.as_str(), None),
        };
        // Help must be shown even to somebody who has not given what is needed yet.
        is_needed &= !alias.needs.contains(&option) && !["--help", "-h"].contains(&option);
        let Some((_, translation)) = alias.options.iter().find(|(name, _)| *name == option) else {
            // Whatever the alias does not translate is an option of the command itself, whose parser checks
            // it.
            expanded.push(word);
            continue;
        };
        let mut value = || {
            let value = value.clone().or_else(|| given.next());
            value.ok_or_else(|| format!("{option} needs a value"))
        };
        match translation {
            Translation::Nothing => {}
            Translation::Same(other) => expanded.push(format!("{other}={}", value()?)),
            Translation::Each(other) => {
                let values = value()?;
                // An empty value, as behind a comma at the end, would be refused as the name of a volume.
                let mut values = values.split(',').filter(|value| !value.is_empty()).peekable();
                // Without the option, the command would take all that there is.
                if values.peek().is_none() {
                    return Err(format!("{option} names nothing"));
                }
                expanded.extend(values.map(|value| format!("{other}={value}")));
            }
        }
    }
    // Without a selection the command behind the alias would take every failed volume; `--all` says that this
    // is meant.
    if is_needed {
        return Err(format!("{} needs one of {}", alias.name, alias.needs.join(", ")));
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

    #[test]
    fn a_selection_of_nothing_is_not_all() {
        for line in [
            "create_job --volumes=",
            "create_job best --volumes ,",
            "create_job best --volumes ,,",
        ] {
            assert_eq!(
                expansion(line),
                Err("--volumes names nothing".to_owned()),
                "{line}"
            );
        }
    }

    /// Rows: 102, 107, 119.
    #[test]
    fn other_spellings_become_commands_of_the_table() {
        for (alias, command) in [
            (
                "create_job --op ocr --model M --volumes W1-I1,W1-I2",
                "job create --op ocr --model=M --volume=W1-I1 --volume=W1-I2",
            ),
            (
                "create_job --volumes=W1-I1, press --op=ocr --priority 3",
                "job create --volume=W1-I1 press --op=ocr --priority 3",
            ),
            ("job_status J123 --json", "job status J123 --json"),
            ("job_list", "job list"),
            ("search 'byang --exact", "pages search 'byang --exact"),
            (
                "launch_workers --job J123 --count 10 --instance-type g5.xlarge",
                "workers launch --job J123 --count 10 --instance-type g5.xlarge",
            ),
            (
                "scale_workers --job J123 --count 0",
                "workers scale --job J123 --count 0",
            ),
            ("job list", "job list"),
            (
                "dead list press --stage ocr",
                "tasks list --state=failed press --stage ocr",
            ),
            ("dead show press W1-I1", "tasks show press W1-I1"),
            (
                "dead redrive press --stage ocr --cause=x --dry-run",
                "job rerun --status=failed press --at=ocr --cause=x --dry-run",
            ),
            ("dead redrive press --all", "job rerun --status=failed press"),
        ] {
            assert_eq!(expansion(alias).as_deref(), Ok(command), "{alias}");
        }
    }

    #[test]
    fn what_there_is_not_is_refused_and_says_why() {
        for (line, reason) in [
            ("create_job --volumes", "--volumes needs a value"),
            (
                "dead redrive press --dry-run",
                "dead redrive needs one of --volume, --cause",
            ),
        ] {
            let refusal = expansion(line).unwrap_err();
            assert!(refusal.starts_with(reason), "{line}: {refusal}");
        }
    }

    #[test]
    fn every_alias_stands_for_a_command_and_hides_none() {
        for alias in &ALIASES {
            assert!(table().named(&alias.words).is_some(), "{alias:?}");
            let first = alias.name.split(' ').next().unwrap();
            let mut subjects = table().entries().iter().map(|entry| entry.name[0]);
            assert!(subjects.all(|subject| subject != first), "{alias:?}");
        }
    }
}
