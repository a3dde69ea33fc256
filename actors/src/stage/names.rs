//! Names of the stages that come with the program.

use parkhang_core::domain::{Pipeline, StageName};

#[expect(
    clippy::expect_used,
    reason = "the names below are legal, which a test checks"
)]
fn named(name: &str) -> StageName {
    StageName::new(name).expect("a built-in stage name is legal")
}

pub(crate) fn line_detection() -> StageName {
    named("line_detection")
}

pub(crate) fn line_extraction() -> StageName {
    named("line_extraction")
}

pub(crate) fn ocr() -> StageName {
    named("ocr")
}

pub(crate) fn reduce() -> StageName {
    named("reduce")
}

/// Whether a volume is done with one of the models that a node has loaded for the stage, rather than with all of them.
pub fn chooses_a_model(stage: &StageName) -> bool {
    *stage == ocr()
}

/// Whether nodes load models for the stage.
pub fn has_models(stage: &StageName) -> bool {
    [line_detection(), ocr()].contains(stage)
}

/// The stages of the `ocr` operation.
#[expect(
    clippy::expect_used,
    reason = "four different stages are a pipeline, which a test checks"
)]
pub fn ocr_pipeline() -> Pipeline {
    Pipeline::new(vec![line_detection(), line_extraction(), ocr(), reduce()]).expect("the stages differ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_ocr_pipeline_is_legal() {
        assert_eq!(ocr_pipeline().stages().len(), 4);
    }
}
