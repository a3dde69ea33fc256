//! Jobs of a run: the volumes of one kind go through one pipeline, under the name of one job.

use anyhow::{Context, Result, bail};
use parkhang_actors::stage::{OCR, PAGE_OCR, Pipelines};
use parkhang_core::domain::{Pipeline, StageName};

use super::arguments::OcrArgs;
use super::input::{Input, InputVolume};

/// A job of a run, and the volumes that it reads.
#[derive(Debug)]
pub struct RunJob {
    pub name: String,
    /// Name of the pipeline.
    pub operation: String,
    pub pipeline: Pipeline,
    pub input: Input,
}

/// Divides the volumes of a run: PDFs go through `page_ocr` and all others through `ocr`, unless a pipeline is named for all.
///
/// # Errors
///
/// If there is no such pipeline, or it has no such stages.
pub fn jobs_of(arguments: &OcrArgs, input: Input) -> Result<Vec<RunJob>> {
    let groups: Vec<(&str, Input)> = match &arguments.pipeline {
        Some(pipeline) => vec![(pipeline, input)],
        None => {
            let (pdfs, others) = divide(input, |volume| volume.is_pdf);
            let groups = [(OCR, others), (PAGE_OCR, pdfs)];
            groups
                .into_iter()
                .filter(|(_, input)| !input.volumes.is_empty())
                .collect()
        }
    };
    let several = groups.len() > 1;
    let jobs = groups.into_iter().map(|(operation, input)| {
        Ok(RunJob {
            name: job_name(arguments.job.as_deref(), operation, several),
            operation: operation.to_owned(),
            pipeline: select_stages(operation, arguments.stages.as_deref())?,
            input,
        })
    });
    jobs.collect()
}

/// Name of a job: that of its pipeline, or the one that the user gives, which two jobs cannot share.
fn job_name(given: Option<&str>, operation: &str, several: bool) -> String {
    match given {
        None => operation.to_owned(),
        Some(name) if several && operation != OCR => format!("{name}-{operation}"),
        Some(name) => name.to_owned(),
    }
}

fn divide(input: Input, first: impl Fn(&InputVolume) -> bool) -> (Input, Input) {
    let (one, other) = input.volumes.iter().cloned().partition(first);
    let with = |volumes| Input {
        volumes,
        ..input.clone()
    };
    (with(one), with(other))
}

/// Returns the stages `FIRST..LAST` of the pipeline; either end may be left out.
fn select_stages(pipeline: &str, range: Option<&str>) -> Result<Pipeline> {
    let pipelines = Pipelines::built_in();
    let all = pipelines.get(pipeline)?;
    let Some(range) = range else {
        return Ok(all.clone());
    };
    // A single name stands for a range of one stage.
    let (first, last) = range.split_once("..").unwrap_or((range, range));
    let place = |name: &str, default: usize| {
        if name.is_empty() {
            return Ok(default);
        }
        all.place_of(name).with_context(|| {
            let having: Vec<&str> = pipelines.having(name).collect();
            match having[..] {
                [] => "--stages".to_owned(),
                [..] => format!(
                    "--stages {range} of the pipeline {pipeline}: {name} is a stage of {}: add --pipeline {}",
                    having.join(" and "),
                    having.join(" or --pipeline ")
                ),
            }
        })
    };
    let (first, last) = (place(first, 0)?, place(last, all.stages().len() - 1)?);
    if first > last {
        bail!(
            "--stages {range}: the first stage comes after the last; the order is {}",
            all.stages()
                .iter()
                .map(StageName::as_str)
                .collect::<Vec<_>>()
                .join(", ")
        );
    }
    Ok(Pipeline::new(all.stages()[first..=last].to_vec())?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranges_of_stages() {
        let stages = |range: &str| -> Vec<String> {
            select_stages(OCR, Some(range))
                .unwrap()
                .stages()
                .iter()
                .map(ToString::to_string)
                .collect()
        };
        assert_eq!(stages("ocr..reduce"), ["ocr", "reduce"]);
        assert_eq!(stages("..line_extraction"), ["line_detection", "line_extraction"]);
        assert_eq!(stages("ocr"), ["ocr"]);
        assert!(select_stages(OCR, Some("reduce..ocr")).is_err());
        let refused = |pipeline| {
            let refused = select_stages(pipeline, Some("ocr..print")).unwrap_err();
            format!("{refused:#}")
        };
        assert!(refused(OCR).contains("line_detection"));
        assert!(refused(PAGE_OCR).contains("page_text"));
        assert!(refused("page-ocr").contains("did you mean page_ocr?"));
        let elsewhere = format!("{:#}", select_stages(PAGE_OCR, Some("chunk")).unwrap_err());
        assert!(
            elsewhere.starts_with(
                "--stages chunk of the pipeline page_ocr: chunk is a stage of documents and ocr_documents: \
                 add --pipeline documents or --pipeline ocr_documents: "
            ),
            "{elsewhere}"
        );
    }

    #[test]
    fn two_jobs_of_a_run_have_two_names() {
        for (given, operation, several, name) in [
            (None, OCR, true, "ocr"),
            (None, PAGE_OCR, false, "page_ocr"),
            (Some("J1"), PAGE_OCR, false, "J1"),
            (Some("J1"), OCR, true, "J1"),
            (Some("J1"), PAGE_OCR, true, "J1-page_ocr"),
        ] {
            assert_eq!(job_name(given, operation, several), name);
        }
    }
}
