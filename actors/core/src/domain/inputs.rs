//! Readings that a job combines.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

use super::JobKey;
use super::listed::Listed;

/// Reading of volumes that a job takes as an input.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub enum Input {
    /// Reading of another job.
    Job(JobKey),
    /// Reading of a program of the archive, which has texts without the places of lines.
    Archive(ArchiveReading),
}

/// Program of the archive that has read volumes, by the folder of its tables in the artifact store.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum ArchiveReading {
    /// Google Vision.
    Vision,
    /// A language model that sees pages.
    Chat,
}

impl ArchiveReading {
    pub const ALL: [Self; 2] = [Self::Vision, Self::Chat];

    /// Folder of its tables, which is its name in the archive as well.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Vision => "gv",
            Self::Chat => "ocr_qwen_v1",
        }
    }
}

/// Beginning of the name of an archive's reading.
const ARCHIVE: &str = "archive:";

impl FromStr for Input {
    type Err = InvalidInputs;

    fn from_str(text: &str) -> Result<Self, InvalidInputs> {
        let Some(name) = text.strip_prefix(ARCHIVE) else {
            let job = JobKey::new(text).map_err(|_| InvalidInputs::NoJob(text.to_owned()))?;
            return Ok(Self::Job(job));
        };
        let reading = ArchiveReading::ALL
            .into_iter()
            .find(|known| known.as_str() == name);
        reading
            .map(Self::Archive)
            .ok_or_else(|| InvalidInputs::NoArchive(name.to_owned()))
    }
}

impl TryFrom<String> for Input {
    type Error = InvalidInputs;

    fn try_from(text: String) -> Result<Self, InvalidInputs> {
        text.parse()
    }
}

impl From<Input> for String {
    fn from(input: Input) -> Self {
        input.to_string()
    }
}

impl fmt::Display for Input {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Job(job) => job.fmt(f),
            Self::Archive(reading) => write!(f, "{ARCHIVE}{}", reading.as_str()),
        }
    }
}

/// Readings that a job combines, each once, the preferred one first. Lines have the places that they have in the first one, which is
/// that of a job.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "Listed", into = "Vec<Input>")]
pub struct Inputs(Vec<Input>);

/// Text that names no readings to combine.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum InvalidInputs {
    #[error("{0:?} is not the name of a job")]
    NoJob(String),
    #[error(
        "the archive has no readings of {0:?} that are known here, only archive:gv and archive:ocr_qwen_v1"
    )]
    NoArchive(String),
    #[error("{0} is named twice")]
    Twice(Input),
    #[error("{0} has no places of lines: name a job before it")]
    NoPlaces(Input),
    #[error("{0} readings are more than {MOST_INPUTS}")]
    TooMany(usize),
}

/// Readings that one job combines at most.
pub const MOST_INPUTS: usize = 16;

impl Inputs {
    /// Readings in the order of preference.
    pub fn iter(&self) -> impl Iterator<Item = &Input> {
        self.0.iter()
    }

    /// The jobs among them.
    pub fn jobs(&self) -> impl Iterator<Item = &JobKey> {
        self.iter().filter_map(|input| match input {
            Input::Job(job) => Some(job),
            Input::Archive(_) => None,
        })
    }

    /// The job whose places lines have; `None` for a job that combines nothing.
    pub fn first(&self) -> Option<&JobKey> {
        self.jobs().next()
    }

    /// True for a job that combines nothing.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

impl TryFrom<Listed> for Inputs {
    type Error = InvalidInputs;

    fn try_from(listed: Listed) -> Result<Self, InvalidInputs> {
        let mut inputs: Vec<Input> = Vec::new();
        for text in listed.texts() {
            let input: Input = text.parse()?;
            if inputs.contains(&input) {
                return Err(InvalidInputs::Twice(input));
            }
            if inputs.is_empty() && matches!(input, Input::Archive(_)) {
                return Err(InvalidInputs::NoPlaces(input));
            }
            inputs.push(input);
        }
        if inputs.len() > MOST_INPUTS {
            return Err(InvalidInputs::TooMany(inputs.len()));
        }
        Ok(Self(inputs))
    }
}

impl FromStr for Inputs {
    type Err = InvalidInputs;

    fn from_str(text: &str) -> Result<Self, InvalidInputs> {
        Listed::Line(text.to_owned()).try_into()
    }
}

impl From<Inputs> for Vec<Input> {
    fn from(inputs: Inputs) -> Self {
        inputs.0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(json: &str) -> Result<Inputs, String> {
        serde_json::from_str(json).map_err(|error| error.to_string())
    }

    #[test]
    fn readings_are_named_in_the_order_of_preference() {
        let inputs = read("\"ocr-8, archive:gv,ocr-7\"").unwrap();
        let names: Vec<String> = inputs.iter().map(Input::to_string).collect();
        assert_eq!(names, ["ocr-8", "archive:gv", "ocr-7"]);
        let jobs: Vec<&str> = inputs.jobs().map(JobKey::as_str).collect();
        assert_eq!(jobs, ["ocr-8", "ocr-7"]);
        assert_eq!(inputs.first().map(JobKey::as_str), Some("ocr-8"));
        let written = serde_json::to_string(&inputs).unwrap();
        assert_eq!(written, r#"["ocr-8","archive:gv","ocr-7"]"#);
        assert_eq!(read(&written), Ok(inputs));
        assert!(read("\"\"").unwrap().is_empty());
        for (json, reason) in [
            ("[\"a\",\"a\"]", "twice"),
            ("\"a/b\"", "not the name of a job"),
            ("\"a,archive:b\"", "only archive:gv and archive:ocr_qwen_v1"),
            ("\"archive:gv,a\"", "name a job before it"),
        ] {
            let refusal = read(json).unwrap_err();
            assert!(refusal.contains(reason), "{refusal}");
        }
        let many: Vec<String> = (0..17).map(|n| format!("j{n}")).collect();
        let refusal = read(&serde_json::to_string(&many).unwrap()).unwrap_err();
        assert!(refusal.contains("17 readings"), "{refusal}");
    }
}
