//! Check that the models which a job names can be names of models of its stages.

use parkhang_actors::stage::{StageModels, StageTable};
use parkhang_core::domain::{JobConfig, Pipeline, StageName};

use crate::admin::Refusal;

/// Refuses what cannot be the name of a model of the pipeline.
pub fn check(config: &JobConfig, pipeline: &Pipeline, table: &StageTable) -> Result<(), Refusal> {
    let has_models = |stage: &StageName| table.models_of(stage) != StageModels::None;
    for named in config.models.iter() {
        let place = pipeline.place_of(named.stage.as_str());
        place.map_err(|unknown| Refusal::Invalid(format!("{named}: {unknown}")))?;
        if !has_models(&named.stage) {
            let stages = pipeline.stages().iter().filter(|&stage| has_models(stage));
            let stages: Vec<&str> = stages.map(StageName::as_str).collect();
            return Err(Refusal::Invalid(format!(
                "{named}: {} has no model; stages that have are {}",
                named.stage,
                stages.join(" and ")
            )));
        }
        // A path would wait for ever: nodes report the names of their models and not where these lie.
        if named.model.contains('/') {
            let path = &named.model;
            return Err(Refusal::Invalid(format!(
                "{path} is a path: a job names its models as `name` of their model.json does; nodes load them from folders (node.models)"
            )));
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use parkhang_actors::stage::ocr_pipeline;

    use super::*;

    #[test]
    fn a_name_that_is_a_path_or_of_no_stage_with_a_model_is_refused() {
        let check = |models: &str| {
            let config = JobConfig::default().with_overrides([models]).unwrap();
            check(&config, &ocr_pipeline(), &StageTable::built_in()).map_err(|refusal| refusal.to_string())
        };
        assert_eq!(check("models=ocr=older"), Ok(()));
        let path = check("models=ocr=/srv/models/older").unwrap_err();
        assert!(path.starts_with("/srv/models/older is a path"), "{path}");
        assert_eq!(
            check("models=orc=x").unwrap_err(),
            "orc=x: there is no stage orc (did you mean ocr?); the stages are line_detection, line_extraction, ocr, reduce"
        );
        assert_eq!(
            check("models=reduce=x").unwrap_err(),
            "reduce=x: reduce has no model; stages that have are line_detection and ocr"
        );
    }
}
