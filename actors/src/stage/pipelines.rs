//! Pipelines that jobs name: those that are built in, and those of a configuration.

use std::collections::BTreeMap;

use parkhang_core::domain::{Pipeline, StageName};

use super::table::{PipelineError, StageDefinition, StageTable};
use super::{
    chunk, combine, doctags, embed, index, line_blocks, line_detection, line_extraction, ocr, page_ocr,
    page_text, reduce,
};

/// Name of the pipeline of a job that names none.
pub const OCR: &str = "ocr";

/// Name of the pipeline that gives pages of any print, and of PDFs, their words with boxes.
pub const PAGE_OCR: &str = "page_ocr";

/// Name of the pipeline that makes documents of such pages: blocks in order, tables, chunks with their vectors.
pub const DOCUMENTS: &str = "documents";

/// Name of the pipeline that makes documents of what [`OCR`] reads.
pub const OCR_DOCUMENTS: &str = "ocr_documents";

/// Name of the pipeline that makes one text of what several jobs have read.
pub const COMBINE: &str = "combine";

/// The stages of the pipeline [`COMBINE`], from readings to text.
pub fn combine_pipeline() -> Pipeline {
    pipeline(&[combine::STAGE, reduce::STAGE])
}

/// The stages of the pipeline [`OCR`], from scans to text.
pub fn ocr_pipeline() -> Pipeline {
    pipeline(&[
        line_detection::STAGE,
        line_extraction::STAGE,
        ocr::STAGE,
        reduce::STAGE,
    ])
}

/// The stages of the pipeline [`PAGE_OCR`], from pages to words.
pub fn page_ocr_pipeline() -> Pipeline {
    pipeline(&[page_text::STAGE, page_ocr::STAGE, reduce::STAGE])
}

/// The stages of the pipeline [`DOCUMENTS`], from pages to documents.
pub fn documents_pipeline() -> Pipeline {
    pipeline(&[
        page_text::STAGE,
        page_ocr::STAGE,
        doctags::STAGE,
        chunk::STAGE,
        embed::STAGE,
        index::STAGE,
        reduce::STAGE,
    ])
}

/// The stages of the pipeline [`OCR_DOCUMENTS`], from scans to documents.
pub fn ocr_documents_pipeline() -> Pipeline {
    pipeline(&[
        line_detection::STAGE,
        line_extraction::STAGE,
        ocr::STAGE,
        line_blocks::STAGE,
        chunk::STAGE,
        embed::STAGE,
        index::STAGE,
        reduce::STAGE,
    ])
}

#[expect(
    clippy::expect_used,
    reason = "a built-in pipeline has stages, all of them different, which a test checks"
)]
fn pipeline(stages: &[StageDefinition]) -> Pipeline {
    let names = stages.iter().map(StageDefinition::name);
    Pipeline::new(names.collect()).expect("the stages differ")
}

/// Pipelines by name.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Pipelines(BTreeMap<String, Pipeline>);

impl Pipelines {
    /// The pipelines that come with the program.
    pub fn built_in() -> Self {
        Self(BTreeMap::from([
            (OCR.to_owned(), ocr_pipeline()),
            (PAGE_OCR.to_owned(), page_ocr_pipeline()),
            (DOCUMENTS.to_owned(), documents_pipeline()),
            (OCR_DOCUMENTS.to_owned(), ocr_documents_pipeline()),
            (COMBINE.to_owned(), combine_pipeline()),
        ]))
    }

    /// Adds a pipeline of stages of the table.
    ///
    /// # Errors
    ///
    /// [`PipelineError`] if its name is taken by a built-in one or illegal, or if its stages are not a pipeline.
    pub fn define(
        &mut self,
        name: &str,
        stages: &[impl AsRef<str>],
        table: &StageTable,
    ) -> Result<(), PipelineError> {
        if Self::built_in().0.contains_key(name) {
            return Err(PipelineError::BuiltIn(name.to_owned()));
        }
        // The rule for names of stages: they make keys of the configuration and variables of the environment alike.
        if StageName::new(name).is_err() {
            return Err(PipelineError::IllegalName(name.to_owned()));
        }
        self.0.insert(name.to_owned(), table.pipeline(stages)?);
        Ok(())
    }

    /// Names of the pipelines that have a stage.
    pub fn having(&self, stage: &str) -> impl Iterator<Item = &str> {
        let having = self
            .0
            .iter()
            .filter(move |(_, pipeline)| pipeline.place_of(stage).is_ok());
        having.map(|(name, _)| name.as_str())
    }

    /// The pipeline of a name.
    ///
    /// # Errors
    ///
    /// [`PipelineError::UnknownPipeline`] if there is none.
    pub fn get(&self, name: &str) -> Result<&Pipeline, PipelineError> {
        self.0.get(name).ok_or_else(|| PipelineError::UnknownPipeline {
            pipeline: name.to_owned(),
            known: self.0.keys().cloned().collect(),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_built_in_pipelines_pass_their_own_check() {
        let table = StageTable::built_in();
        for pipeline in Pipelines::built_in().0.values() {
            let names: Vec<&str> = pipeline.stages().iter().map(StageName::as_str).collect();
            assert_eq!(table.pipeline(&names).as_ref(), Ok(pipeline));
        }
    }

    /// Rows: U19.
    #[test]
    fn a_pipeline_is_found_by_its_name_alone() {
        let mut pipelines = Pipelines::built_in();
        let table = StageTable::built_in();
        let stages = ["line_detection", "line_extraction"];
        pipelines.define("lines", &stages, &table).unwrap();
        let found: Vec<String> = pipelines
            .get("lines")
            .unwrap()
            .stages()
            .iter()
            .map(ToString::to_string)
            .collect();
        assert_eq!(found, stages);
        assert_eq!(pipelines.get(OCR), Ok(&ocr_pipeline()));
        assert_eq!(
            pipelines.get("line").unwrap_err().to_string(),
            "there is no pipeline line (did you mean lines?); the pipelines are combine, documents, lines, ocr, ocr_documents, page_ocr"
        );
        for (name, stages, message) in [
            (
                OCR,
                &stages[..],
                "pipeline ocr is built in: give this one another name",
            ),
            ("Lines", &stages[..], "\"Lines\" cannot be the name of a pipeline"),
            ("none", &stages[..0], "a pipeline needs at least one stage"),
        ] {
            let refused = pipelines.define(name, stages, &table).unwrap_err().to_string();
            assert!(refused.starts_with(message), "{refused}");
        }
    }
}
