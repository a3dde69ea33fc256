//! Refusal of a stage that there is not.

use super::suggestion::did_you_mean;

/// Name under which there is no stage. It lists the stages that there are, and suggests the nearest one.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("there is no stage {stage}{}; the stages are {}", did_you_mean(.stage, .known), .known.join(", "))]
pub struct UnknownStage {
    pub stage: String,
    /// Names of the stages that there are, in their order.
    pub known: Vec<String>,
}

impl UnknownStage {
    pub fn new(stage: impl Into<String>, known: impl IntoIterator<Item = impl ToString>) -> Self {
        Self {
            stage: stage.into(),
            known: known.into_iter().map(|stage| stage.to_string()).collect(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_nearest_stage_is_suggested_where_one_is_near() {
        let text = |name: &str| UnknownStage::new(name, ["ocr", "reduce"]).to_string();
        assert_eq!(
            text("orc"),
            "there is no stage orc (did you mean ocr?); the stages are ocr, reduce"
        );
        assert_eq!(
            text("print"),
            "there is no stage print; the stages are ocr, reduce"
        );
    }
}
