//! Names of volumes on the command line and in files.

use std::io::Read;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};
use clap::Args;
use parkhang_core::domain::VolumeId;
use parkhang_store::pages::{unpacked, volume_of_source};
use serde::Deserialize;
use serde_json::Value;

/// Largest number of faulty lines that a message shows.
const SHOWN: usize = 10;
/// Path that stands for standard input.
const STDIN: &str = "-";
/// Names of the first column, by which a line with the names of columns is recognised.
const HEADINGS: [&str; 5] = ["w_id", "bdrc_w_id", "volume_id", "volume", "w"];

#[derive(Debug, Clone, Default, Args)]
pub struct VolumeArgs {
    /// Only this volume (W-I); may be repeated.
    #[arg(long, value_name = "VOLUME")]
    pub volume: Vec<VolumeId>,
    /// Only the volumes in a file, one a line, as W-I or as W,I[,source[,version]] with commas or blanks; - is standard input. Empty lines, and
    /// text after a #, are ignored. JSON lists and gzipped files are read too.
    #[arg(long, value_name = "FILE", visible_alias = "file")]
    pub volumes_from: Option<PathBuf>,
}

impl VolumeArgs {
    /// Returns the named volumes, which may contain duplicates; `None` if no volumes are named.
    ///
    /// # Errors
    ///
    /// If the file cannot be read or names no valid volumes.
    pub fn named(&self) -> Result<Option<Vec<VolumeId>>> {
        if self.volume.is_empty() && self.volumes_from.is_none() {
            return Ok(None);
        }
        let mut volumes = self.volume.clone();
        if let Some(path) = &self.volumes_from {
            volumes.extend(read(path)?);
        }
        Ok(Some(volumes))
    }
}

fn read(path: &Path) -> Result<Vec<VolumeId>> {
    let (name, bytes) = if path.as_os_str() == STDIN {
        let mut bytes = Vec::new();
        let read = std::io::stdin().read_to_end(&mut bytes);
        ("standard input".to_owned(), read.map(|_| bytes))
    } else {
        (path.display().to_string(), std::fs::read(path))
    };
    let bytes = bytes.with_context(|| format!("cannot read {name}"))?;
    read_list(&bytes).with_context(|| name)
}

/// Parses a list of volumes, in its order.
///
/// # Errors
///
/// If it is not text, names no volumes, or has faulty entries; the message shows the first of these.
pub fn read_list(bytes: &[u8]) -> Result<Vec<VolumeId>> {
    // By the content and not by a name, which standard input and objects have not.
    let text = unpacked(bytes)?;
    let text = std::str::from_utf8(&text).context("is not text")?;
    let volumes = if text.trim_start().starts_with('[') {
        from_json(text)?
    } else {
        from_lines(text)?
    };
    if volumes.is_empty() {
        bail!("names no volumes");
    }
    Ok(volumes)
}

/// Entry of a JSON list.
#[derive(Deserialize)]
#[serde(untagged)]
enum Entry {
    Name(String),
    Volume {
        volume_id: VolumeId,
    },
    Parts {
        #[serde(alias = "bdrc_w_id")]
        w_id: String,
        #[serde(alias = "bdrc_i_id")]
        i_id: String,
        source: Option<String>,
        i_version: Option<String>,
    },
}

impl Entry {
    fn volume(self) -> Result<VolumeId, String> {
        match self {
            Self::Name(name) => name.parse().map_err(|error| format!("{error}")),
            Self::Volume { volume_id } => Ok(volume_id),
            Self::Parts {
                w_id,
                i_id,
                source,
                i_version,
            } => of_parts(&w_id, &i_id, source.as_deref(), i_version.as_deref()),
        }
    }
}

fn from_json(text: &str) -> Result<Vec<VolumeId>> {
    let entries: Vec<Value> = serde_json::from_str(text).context("is not a JSON list")?;
    let read = entries.into_iter().zip(1..).map(|(entry, number)| {
        let shown = entry.to_string();
        let volume = serde_json::from_value::<Entry>(entry)
            .map_err(|_| {
                format!("{shown} is neither a name W-I nor an object with volume_id, or w_id and i_id")
            })
            .and_then(Entry::volume);
        volume.map_err(|error| format!("entry {number}: {error}"))
    });
    all_good(read, "entries that name no volume")
}

fn from_lines(text: &str) -> Result<Vec<VolumeId>> {
    let lines = text.lines().zip(1..).filter_map(|(line, number)| {
        let line = line.trim();
        // In JSON a `#` may be a part of a string; `of_line` tells where the object ends.
        let line = match line.starts_with('{') {
            true => line,
            false => line.split('#').next().unwrap_or_default().trim_end(),
        };
        (!line.is_empty()).then_some((line, number))
    });
    let mut lines = lines.peekable();
    // Exports of tables begin with the names of their columns.
    lines.next_if(|(line, _)| {
        let first = fields(line).first().copied().unwrap_or_default();
        HEADINGS.iter().any(|heading| first.eq_ignore_ascii_case(heading))
    });
    let read = lines.map(|(line, number)| of_line(line).map_err(|error| format!("line {number}: {error}")));
    all_good(read, "lines that name no volume")
}

/// Splits a line at commas if it has any, else at blanks.
fn fields(line: &str) -> Vec<&str> {
    let fields: Vec<&str> = if line.contains(',') {
        line.split(',').collect()
    } else {
        line.split_whitespace().collect()
    };
    fields
        .into_iter()
        // Spreadsheets quote their cells; ids contain no quotation marks themselves.
        .map(|field| field.trim().trim_matches('"'))
        .collect()
}

/// Parses `W-I`, `W,I[,source[,version]]`, or a JSON object.
fn of_line(line: &str) -> Result<VolumeId, String> {
    if line.starts_with('{') {
        let no_object = || format!("{line} is no object with volume_id, or w_id and i_id");
        let mut objects = serde_json::Deserializer::from_str(line).into_iter::<Value>();
        let object = objects.next().and_then(Result::ok).ok_or_else(no_object)?;
        let rest = line[objects.byte_offset()..].trim_start();
        if !rest.is_empty() && !rest.starts_with('#') {
            return Err(no_object());
        }
        let entry: Entry = serde_json::from_value(object).map_err(|_| no_object())?;
        return entry.volume();
    }
    let fields = fields(line);
    let field = |place: usize| fields.get(place).copied().filter(|field| !field.is_empty());
    match (field(0), field(1)) {
        (Some(w_id), Some(i_id)) => of_parts(w_id, i_id, field(2), field(3)),
        (name, _) => name
            .unwrap_or_default()
            .parse()
            .map_err(|error| format!("{error}")),
    }
}

fn of_parts(w_id: &str, i_id: &str, source: Option<&str>, version: Option<&str>) -> Result<VolumeId, String> {
    volume_of_source(w_id, i_id, source, version).map_err(|error| error.to_string())
}

/// Returns all volumes, or an error with the places of those that are not valid.
fn all_good(read: impl Iterator<Item = Result<VolumeId, String>>, what: &str) -> Result<Vec<VolumeId>> {
    let (mut volumes, mut bad) = (Vec::new(), Vec::new());
    for volume in read {
        match volume {
            Ok(volume) => volumes.push(volume),
            Err(error) => bad.push(error),
        }
    }
    if bad.is_empty() {
        return Ok(volumes);
    }
    let more = bad.len().saturating_sub(SHOWN);
    // A file of another kind is faulty in every line, and would fill the terminal.
    bad.truncate(SHOWN);
    if more > 0 {
        bad.push(format!("and {more} more"));
    }
    bail!("{what}:\n  {}", bad.join("\n  "))
}

#[cfg(test)]
mod tests {
    use std::io::Write;

    use super::*;

    fn names(text: &str) -> Vec<String> {
        let volumes = read_list(text.as_bytes()).unwrap();
        volumes.iter().map(ToString::to_string).collect()
    }

    /// Rows: F8, F26, 98, U16.
    #[test]
    fn a_list_may_be_written_in_many_ways() {
        let lines = "# of today\nW1-I1\n\n  W22084-I0886-2  # twice bound\r\nW1-I1\n";
        assert_eq!(names(lines), ["W1-I1", "W22084-I0886-2", "W1-I1"]);
        let expected = ["W1-I1", "W22084-I0886"];
        for text in [
            "W1,I1\nW22084, I0886,bdrc\n",
            "W1,I1,,\nW22084-I0886,\n",
            "W1 I1\nW22084\tI0886 BDRC\n",
            "w_id,i_id,source,i_version\n\"W1\",\"I1\",,\nW22084,I0886,,\n",
            "{\"volume_id\":\"W1-I1\"}\n{\"w_id\":\"W22084\",\"i_id\":\"I0886\",\"source\":null}\n",
            "\u{feff}[\"W1-I1\", {\"volume_id\": \"W22084-I0886\"}]",
            "Volume\nW1-I1\nW22084-I0886",
            "\u{feff}w_id,i_id\nW1,I1\nW22084,I0886\n",
            "{\"volume_id\":\"W1-I1\",\"note\":\"shelf #7\"} # {}\n {\"volume_id\":\"W22084-I0886\"}#\n",
        ] {
            assert_eq!(names(text), expected, "{text}");
        }
        let benchmark = ["ocr_benchmark:W1-I1-2026-03"];
        assert_eq!(names("W1,I1,OCR_Benchmark,2026-03"), benchmark);
        let entry =
            "[{\"w_id\":\"W1\",\"i_id\":\"I1\",\"source\":\"ocr_benchmark\",\"i_version\":\"2026-03\"}]";
        assert_eq!(names(entry), benchmark);
        let mut gzipped = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
        gzipped.write_all(b"W1-I1\nW22084 I0886\n").unwrap();
        assert_eq!(read_list(&gzipped.finish().unwrap()).unwrap().len(), 2);
    }

    /// Rows: U16.
    #[test]
    fn bad_lines_are_told_by_number() {
        let message = |text: &str| read_list(text.as_bytes()).unwrap_err().to_string();
        let bad = message(
            "W1-I1\nW1/I2\n\nW1\nW1,I1,ocr_benchmark\n{\"volume\":1}\nW1,I1,elsewhere\n{\"volume_id\":\"W1-I1\"} W1-I2\n",
        );
        for line in [
            "lines that name no volume:\n  line 2: \"W1/I2\" is not a valid volume id",
            "\n  line 4: \"W1\"",
            "\n  line 5: a volume of ocr_benchmark needs a version",
            "\n  line 6: {\"volume\":1} is no object",
            "\n  line 7: there is no source elsewhere",
            "\n  line 8: {\"volume_id\":\"W1-I1\"} W1-I2 is no object",
        ] {
            assert!(bad.contains(line), "{bad}");
        }
        let many = message(&"?\n".repeat(SHOWN + 2));
        assert!(
            many.ends_with(
                "line 10: \"?\" is not a valid volume id: use W-I, such as W22084-I0886, of letters, digits, '.', '_' \
                 and ':'\n  and 2 more"
            ),
            "{many}"
        );
        assert!(message("[7, \"W1-I1\"]").contains("\n  entry 1: 7 is neither a name"));
        assert!(message("[\"W1-I1\"").starts_with("is not a JSON list"));
        assert_eq!(message("\n# W1-I1\n"), "names no volumes");
    }

    #[test]
    fn what_is_named_is_what_the_options_and_the_file_say() {
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
        assert_eq!(named("W1-I2\nW1-I1\n").unwrap(), 3);
        let error = format!("{:#}", named("# none\n").unwrap_err());
        assert!(error.ends_with("volumes.txt: names no volumes"), "{error}");
        assert_eq!(VolumeArgs::default().named().unwrap(), None);
    }

    #[test]
    fn fuzz_volume_lists() {
        let corpus = [
            "# volumes\nW22084-I0886\nW1,I2,bench,1.0  # a comment\n",
            r#"["W1-I1", {"w_id": "W1", "i_id": "I2"}, {"volume_id": "W1-I3"}]"#,
            "{\"bdrc_w_id\": \"W1\", \"bdrc_i_id\": \"I2\", \"source\": \"archive\"}\n{\"volume_id\": \"W1-I3\"}",
        ];
        parkhang_fuzz::Fuzz::of_texts("volume-lists", corpus).feeds(|bytes| drop(read_list(bytes)));
    }
}
