//! Profile of the work: times of stages and sizes of volumes, recorded from real runs.

use std::collections::{BTreeMap, HashMap};

use serde::{Deserialize, Serialize};

use super::{Distribution, NotADistribution};
use parkhang_core::domain::{Hardware, Pipeline, StageName, StageRun, StageRunStatus, TaskId, VolumeResults};

const BUILT_IN: &str = include_str!("profile.json");

/// Profile of the work.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Profile {
    /// Origin of the numbers, for people.
    pub about: String,
    /// Pages of the volumes.
    pub pages_per_volume: Distribution,
    /// The stages, in the order of the pipeline.
    pub stages: Vec<StageProfile>,
}

/// Profile of a stage.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct StageProfile {
    /// Name of the stage.
    pub stage: StageName,
    /// Hardware that the stage needs.
    pub hardware: Hardware,
    /// Seconds that a slot was taken, from lease to verdict, divided by the pages of the volume; a value for each volume.
    pub seconds_per_page: Distribution,
}

/// Reason why there is no profile.
#[derive(Debug, thiserror::Error)]
pub enum ProfileError {
    /// The text is not the JSON of a profile.
    #[error("the profile cannot be read: {0}")]
    Unreadable(#[from] serde_json::Error),
    /// The history has no complete run of the stage.
    #[error("no run of stage {0} is recorded that read all pages of its volume")]
    Unrecorded(StageName),
    /// The numbers are no distribution.
    #[error(transparent)]
    Distribution(#[from] NotADistribution),
}

impl Profile {
    /// The profile that comes with the program; its `about` says what was recorded.
    ///
    /// # Errors
    ///
    /// None in practice, as a test reads it.
    pub fn built_in() -> Result<Self, ProfileError> {
        Self::parse(BUILT_IN)
    }

    /// Reads a profile.
    ///
    /// # Errors
    ///
    /// When the text is not the JSON of one.
    pub fn parse(json: &str) -> Result<Self, ProfileError> {
        Ok(serde_json::from_str(json)?)
    }

    /// The profile as JSON.
    ///
    /// # Errors
    ///
    /// None in practice, as every value of a profile has a JSON form.
    pub fn to_json(&self) -> Result<String, ProfileError> {
        Ok(serde_json::to_string_pretty(self)? + "\n")
    }

    /// Records the stage times of a job's history. Runs that skipped pages do not tell the time of a page, and are left out; so
    /// are volumes without results.
    ///
    /// # Errors
    ///
    /// [`ProfileError::Unrecorded`] for a stage without a complete run.
    pub fn record(
        about: String,
        pages_per_volume: Distribution,
        pipeline: &Pipeline,
        hardware: &HashMap<StageName, Hardware>,
        history: &BTreeMap<TaskId, (VolumeResults, Vec<StageRun>)>,
    ) -> Result<Self, ProfileError> {
        let stages = pipeline.stages().iter().map(|stage| {
            let recorded: Vec<f64> = history
                .values()
                .filter_map(|(results, runs)| {
                    let run = runs
                        .iter()
                        .find(|run| run.fence.stage == *stage && is_whole(run))?;
                    let took = (run.ended_at? - run.started_at).num_microseconds()? as f64 / 1e6;
                    (results.total_images > 0).then(|| took / f64::from(results.total_images))
                })
                .collect();
            if recorded.is_empty() {
                return Err(ProfileError::Unrecorded(stage.clone()));
            }
            Ok(StageProfile {
                stage: stage.clone(),
                hardware: hardware.get(stage).copied().unwrap_or(Hardware::Cpu),
                seconds_per_page: Distribution::new(recorded)?,
            })
        });
        Ok(Self {
            about,
            pages_per_volume,
            stages: stages.collect::<Result<_, _>>()?,
        })
    }
}

/// Returns whether the run worked on all pages of its volume.
fn is_whole(run: &StageRun) -> bool {
    let skipped = run.metrics.get("skipped").and_then(serde_json::Value::as_u64);
    run.status == StageRunStatus::Done && skipped.unwrap_or(0) == 0
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use parkhang_actors::stage::ocr_pipeline;
    use parkhang_core::domain::testing::{pipeline, stage, stage_run};

    #[test]
    fn the_built_in_profile_is_of_the_ocr_pipeline_and_says_where_it_is_from() {
        let profile = Profile::built_in().unwrap();
        let stages: Vec<&StageName> = profile.stages.iter().map(|stage| &stage.stage).collect();
        assert_eq!(stages, ocr_pipeline().stages().iter().collect::<Vec<_>>());
        assert!(!profile.about.is_empty());
        let mean = profile.pages_per_volume.mean();
        assert!(
            (mean - 25_000_000.0 / 70_000.0).abs() < 1.0,
            "{mean} pages a volume"
        );
        assert_eq!(Profile::parse(&profile.to_json().unwrap()).unwrap(), profile);
    }

    fn run(stage: &str, seconds: i64, skipped: u64) -> StageRun {
        stage_run(stage, seconds, json!({ "skipped": skipped }))
    }

    fn recorded(runs: Vec<StageRun>) -> Result<Profile, ProfileError> {
        let results = VolumeResults {
            total_images: 10,
            ..VolumeResults::default()
        };
        Profile::record(
            "a test".to_owned(),
            Distribution::new(vec![10.0]).unwrap(),
            &pipeline(&["find", "read"]),
            &HashMap::from([(stage("read"), Hardware::Gpu)]),
            &BTreeMap::from([(TaskId(1), (results, runs))]),
        )
    }

    #[test]
    fn a_record_divides_the_time_of_a_slot_by_the_pages() {
        let profile = recorded(vec![run("find", 20, 0), run("read", 50, 0)]).unwrap();
        let per_page: Vec<(Hardware, f64)> = profile
            .stages
            .iter()
            .map(|stage| (stage.hardware, stage.seconds_per_page.mean()))
            .collect();
        assert_eq!(per_page, [(Hardware::Cpu, 2.0), (Hardware::Gpu, 5.0)]);
    }

    #[test]
    fn a_run_that_found_pages_done_is_no_record() {
        let refused = recorded(vec![run("find", 20, 0), run("read", 1, 9)]);
        assert!(matches!(refused, Err(ProfileError::Unrecorded(stage)) if stage.as_str() == "read"));
    }
}
