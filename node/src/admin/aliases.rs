//! Other spellings of commands, for the hands that know them.

/// A command by one word.
#[derive(Debug)]
pub struct Alias {
    pub name: &'static str,
    /// The command that it stands for.
    pub words: [&'static str; 2],
    /// Options that take a list with commas, each with the one that takes these values one by one.
    lists: &'static [(&'static str, &'static str)],
}

/// All of them.
pub const ALIASES: [Alias; 5] = [
    Alias {
        name: "create_job",
        words: ["job", "create"],
        lists: &[("--volumes", "--volume"), ("--model", "--model")],
    },
    Alias {
        name: "job_status",
        words: ["job", "status"],
        lists: &[],
    },
    Alias {
        name: "job_list",
        words: ["job", "list"],
        lists: &[],
    },
    Alias {
        name: "launch_workers",
        words: ["workers", "launch"],
        lists: &[],
    },
    Alias {
        name: "scale_workers",
        words: ["workers", "scale"],
        lists: &[],
    },
];

/// The same command in the words of the table. Fails, and says why, if it asks for what there is not.
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
        let Some((_, other)) = alias.lists.iter().find(|(name, _)| *name == option) else {
            expanded.push(word);
            continue;
        };
        let value = value.or_else(|| given.next());
        let value = value.ok_or_else(|| format!("{option} needs a value"))?;
        let values = value.split(',').filter(|value| !value.is_empty());
        expanded.extend(values.map(|value| format!("{other}={value}")));
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
                "job create --op ocr --model=M --volume=W1-I1 --volume=W1-I2",
            ),
            (
                "create_job --volumes=W1-I1, press --op=ocr --priority 3",
                "job create --volume=W1-I1 press --op=ocr --priority 3",
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
        let refusal = expansion("create_job --volumes").unwrap_err();
        assert!(refusal.starts_with("--volumes needs a value"), "{refusal}");
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
