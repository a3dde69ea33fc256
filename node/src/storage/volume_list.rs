//! Which volumes a job is to have, as a command names them.

use std::io::Read;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};
use clap::Args;
use parkhang_actors::domain::VolumeId;

use crate::words::counted;

/// Bad lines that a message shows.
const SHOWN: usize = 10;
/// The path that means standard input.
const STDIN: &str = "-";

#[derive(Debug, Clone, Default, Args)]
pub struct VolumeArgs {
    /// Only this volume (W-I); may be repeated.
    #[arg(long, value_name = "VOLUME")]
    pub volume: Vec<VolumeId>,
    /// Only the volumes that a file names, one a line; - is standard input. Empty lines, and what follows a #, are left out.
    #[arg(long, value_name = "FILE")]
    pub volumes_from: Option<PathBuf>,
}

impl VolumeArgs {
    /// The volumes that are named, none twice; `None` where none is asked for by name.
    pub fn named(&self) -> Result<Option<Vec<VolumeId>>> {
        if self.volume.is_empty() && self.volumes_from.is_none() {
            return Ok(None);
        }
        let mut volumes = self.volume.clone();
        if let Some(path) = &self.volumes_from {
            volumes.extend(read(path)?);
        }
        let mut seen = std::collections::HashSet::new();
        volumes.retain(|volume| seen.insert(volume.clone()));
        Ok(Some(volumes))
    }
}

fn read(path: &Path) -> Result<Vec<VolumeId>> {
    let (name, text) = match path.as_os_str() == STDIN {
        true => {
            let mut text = String::new();
            let read = std::io::stdin().read_to_string(&mut text);
            ("standard input".to_owned(), read.map(|_| text))
        }
        false => (path.display().to_string(), std::fs::read_to_string(path)),
    };
    let text = text.with_context(|| format!("cannot read {name}"))?;
    let volumes = parse(&text).with_context(|| name.clone())?;
    if volumes.is_empty() {
        bail!("{name} names no volumes");
    }
    Ok(volumes)
}

fn parse(text: &str) -> Result<Vec<VolumeId>> {
    let mut volumes = Vec::new();
    let mut bad = Vec::new();
    for (line, number) in text.lines().zip(1..) {
        let name = line.split('#').next().unwrap_or_default().trim();
        if name.is_empty() {
            continue;
        }
        match name.parse::<VolumeId>() {
            Ok(volume) => volumes.push(volume),
            Err(error) => bad.push(format!("line {number}: {error}")),
        }
    }
    if bad.is_empty() {
        return Ok(volumes);
    }
    let more = bad.len().saturating_sub(SHOWN);
    bad.truncate(SHOWN);
    if more > 0 {
        bad.push(format!("and {}", counted(more, "more line")));
    }
    bail!("lines that name no volume:\n  {}", bad.join("\n  "))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_list_has_one_volume_a_line() {
        let volumes = parse("# of today\nW1-I1\n\n  W22084-I0886-2  # twice bound\r\nW1-I1\n").unwrap();
        let names: Vec<String> = volumes.iter().map(ToString::to_string).collect();
        assert_eq!(names, ["W1-I1", "W22084-I0886-2", "W1-I1"]);
        assert_eq!(parse("\n#W1-I1\n").unwrap(), []);
    }

    #[test]
    fn bad_lines_are_told_by_number() {
        let told = parse("W1-I1\nW1/I2\n\nW1 I3\n").unwrap_err().to_string();
        assert!(
            told.contains("\n  line 2: \"W1/I2\" is not a valid volume id"),
            "{told}"
        );
        assert!(told.contains("\n  line 4: \"W1 I3\""), "{told}");
        let many = parse(&"?\n".repeat(SHOWN + 2)).unwrap_err().to_string();
        assert!(
            many.ends_with(
                "line 10: \"?\" is not a valid volume id: use letters, digits, '.', '_', ':' (and '-' where \
            allowed), not starting with '.'\n  and 2 more lines"
            ),
            "{many}"
        );
    }

    #[test]
    fn no_volume_is_named_twice_and_an_empty_list_is_none_at_all() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("volumes.txt");
        let named = |text: &str| {
            std::fs::write(&file, text).unwrap();
            let arguments = VolumeArgs {
                volume: vec!["W1-I1".parse().unwrap()],
                volumes_from: Some(file.clone()),
            };
            arguments.named().map(|named| named.unwrap().len())
        };
        assert_eq!(named("W1-I2\nW1-I1\nW1-I2\n").unwrap(), 2);
        assert!(
            named("# none\n")
                .unwrap_err()
                .to_string()
                .ends_with("volumes.txt names no volumes")
        );
        assert_eq!(VolumeArgs::default().named().unwrap(), None);
    }
}
