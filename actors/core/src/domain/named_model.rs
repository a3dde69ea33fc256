//! Models that a job names for its stages.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

use super::StageName;
use super::listed::Listed;

/// Model that a stage of a job is to be run with, written `STAGE=NAME`.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct NamedModel {
    pub stage: StageName,
    pub model: String,
}

/// Models that a job names. A stage without one is run with the models that its node has loaded.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "Listed", into = "Vec<NamedModel>")]
pub struct NamedModels(Vec<NamedModel>);

/// Text that names no model of a stage.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0:?} is not STAGE=NAME")]
pub struct InvalidModel(String);

impl NamedModels {
    /// The models in order, each once.
    pub fn new(models: impl IntoIterator<Item = NamedModel>) -> Self {
        let mut models: Vec<NamedModel> = models.into_iter().collect();
        models.sort();
        models.dedup();
        Self(models)
    }

    /// Models in the order of stages and names.
    pub fn iter(&self) -> impl Iterator<Item = &NamedModel> {
        self.0.iter()
    }

    /// True if the job names no model.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Names of the models for a stage.
    pub fn of<'a>(&'a self, stage: &'a StageName) -> impl Iterator<Item = &'a str> {
        let of_stage = self.0.iter().filter(move |named| named.stage == *stage);
        of_stage.map(|named| named.model.as_str())
    }

    /// True if a pool of the stage with these models loaded has all that are named for it.
    pub fn are_loaded(&self, stage: &StageName, loaded: &[String]) -> bool {
        self.of(stage)
            .all(|model| loaded.iter().any(|loaded| loaded == model))
    }
}

impl FromStr for NamedModel {
    type Err = InvalidModel;

    fn from_str(text: &str) -> Result<Self, InvalidModel> {
        let invalid = || InvalidModel(text.to_owned());
        let (stage, model) = text.split_once('=').ok_or_else(invalid)?;
        let model = model.trim();
        // A comma separates models.
        if model.is_empty() || model.contains(',') {
            return Err(invalid());
        }
        Ok(Self {
            stage: StageName::new(stage.trim()).map_err(|_| invalid())?,
            model: model.to_owned(),
        })
    }
}

impl TryFrom<String> for NamedModel {
    type Error = InvalidModel;

    fn try_from(text: String) -> Result<Self, InvalidModel> {
        text.parse()
    }
}

impl fmt::Display for NamedModel {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}={}", self.stage, self.model)
    }
}

impl From<NamedModel> for String {
    fn from(model: NamedModel) -> Self {
        model.to_string()
    }
}

impl TryFrom<Listed> for NamedModels {
    type Error = InvalidModel;

    fn try_from(listed: Listed) -> Result<Self, InvalidModel> {
        let models = listed.texts().map(|text| text.parse());
        Ok(Self::new(models.collect::<Result<Vec<_>, _>>()?))
    }
}

impl From<NamedModels> for Vec<NamedModel> {
    fn from(models: NamedModels) -> Self {
        models.0
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::domain::JobConfig;
    use crate::domain::testing::stage;

    #[test]
    fn a_job_is_told_its_models_as_a_list_or_in_one_line() {
        let of = |pair| JobConfig::default().with_overrides([pair]);
        let both = of(r#"models=["ocr=reader","line_detection=finder"]"#).unwrap();
        assert_eq!(
            of("models=line_detection=finder, ocr=reader,ocr=reader").unwrap(),
            both
        );
        assert_eq!(
            both.keys()["models"],
            serde_json::json!(["line_detection=finder", "ocr=reader"])
        );
        assert!(of("models=").unwrap().models.is_empty());
        for wrong in [
            "models=reader",
            "models==reader",
            "models=ocr=",
            "models=3",
            "models=OCR=x",
        ] {
            let refusal = of(wrong).unwrap_err().to_string();
            assert!(refusal.starts_with("models must be STAGE=NAME"), "{refusal}");
        }
    }

    #[test]
    fn a_pool_suits_that_has_every_model_named_for_its_stage() {
        let of = |text: &str| -> NamedModels { serde_json::from_value(text.into()).unwrap() };
        let loaded = ["a".to_owned(), "b".to_owned()];
        assert!(of("").are_loaded(&stage("ocr"), &[]));
        assert!(of("ocr=a,ocr=b").are_loaded(&stage("ocr"), &loaded));
        assert!(!of("ocr=a,ocr=c").are_loaded(&stage("ocr"), &loaded));
        assert!(of("ocr=c").are_loaded(&stage("reduce"), &[]), "of another stage");
    }
}
