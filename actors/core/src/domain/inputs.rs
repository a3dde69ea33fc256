//! Jobs whose readings another job combines.

use serde::{Deserialize, Serialize};

use super::JobKey;
use super::listed::Listed;

/// Jobs whose readings a job combines, each once, the preferred one first. Lines have the places that they have in the first one.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "Listed", into = "Vec<JobKey>")]
pub struct Inputs(Vec<JobKey>);

/// Text that names no jobs to combine.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum InvalidInputs {
    #[error("{0:?} is not the name of a job")]
    NoJob(String),
    #[error("job {0} is named twice")]
    Twice(JobKey),
    #[error("{0} jobs are more than {MOST_INPUTS}")]
    TooMany(usize),
}

/// Jobs that one job combines at most.
pub const MOST_INPUTS: usize = 16;

impl Inputs {
    /// Jobs in the order of preference.
    pub fn iter(&self) -> impl Iterator<Item = &JobKey> {
        self.0.iter()
    }

    /// The job whose places lines have; `None` for a job that combines nothing.
    pub fn first(&self) -> Option<&JobKey> {
        self.0.first()
    }

    /// Number of jobs.
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// True for a job that combines nothing.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

impl TryFrom<Listed> for Inputs {
    type Error = InvalidInputs;

    fn try_from(listed: Listed) -> Result<Self, InvalidInputs> {
        let mut jobs: Vec<JobKey> = Vec::new();
        for text in listed.texts() {
            let job = JobKey::new(text.as_str()).map_err(|_| InvalidInputs::NoJob(text))?;
            if jobs.contains(&job) {
                return Err(InvalidInputs::Twice(job));
            }
            jobs.push(job);
        }
        if jobs.len() > MOST_INPUTS {
            return Err(InvalidInputs::TooMany(jobs.len()));
        }
        Ok(Self(jobs))
    }
}

impl From<Inputs> for Vec<JobKey> {
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
    fn jobs_are_named_in_the_order_of_preference() {
        let inputs = read("\"ocr-8, vision,ocr-7\"").unwrap();
        let names: Vec<&str> = inputs.iter().map(JobKey::as_str).collect();
        assert_eq!(names, ["ocr-8", "vision", "ocr-7"]);
        assert_eq!(inputs.first().map(JobKey::as_str), Some("ocr-8"));
        let written = serde_json::to_string(&inputs).unwrap();
        assert_eq!(written, r#"["ocr-8","vision","ocr-7"]"#);
        assert_eq!(read(&written), Ok(inputs));
        assert!(read("\"\"").unwrap().is_empty());
        assert!(read("[\"a\",\"a\"]").unwrap_err().contains("twice"));
        assert!(read("\"a/b\"").unwrap_err().contains("not the name of a job"));
        let many: Vec<String> = (0..17).map(|n| format!("j{n}")).collect();
        assert!(
            read(&serde_json::to_string(&many).unwrap())
                .unwrap_err()
                .contains("17 jobs")
        );
    }
}
