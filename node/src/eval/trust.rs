//! Trust in the readings of jobs, learnt from pages with a known text, for jobs that combine them.

use std::process::ExitCode;

use anyhow::{Context, Result, bail};
use comfy_table::presets::UTF8_FULL_CONDENSED;
use comfy_table::{Cell, CellAlignment, Table};
use parkhang_actors::stage::{ReadingsError, read_readings};
use parkhang_combine::{Combination, Combined, Lesson, Reading, Skeleton, Trust, combine, learn};
use parkhang_core::domain::{Input, InputTrust, Inputs, Trusts};
use parkhang_state::StateStore;
use serde::Serialize;

use super::EvalArgs;
use super::score::{ErrorCount, character_errors};
use super::truth::TruePage;
use crate::config::Loaded;
use crate::database::database_for_command;
use crate::storage::artifacts;
use crate::words::pluralize;

/// Parts that the pages are divided into: each is combined with what the others teach.
const FOLDS: usize = 5;

/// What was learnt.
#[derive(Debug, Serialize)]
struct Learnt {
    pages: usize,
    trust: Trusts,
    readings: Vec<ReadingReport>,
    combined: Vec<CombinedReport>,
}

#[derive(Debug, Serialize)]
struct ReadingReport {
    input: Input,
    weight: f32,
    /// Character error rate of the reading alone.
    cer: f64,
}

/// Character error rates of a way to combine the readings.
#[derive(Debug, Serialize)]
struct CombinedReport {
    how: &'static str,
    /// With every reading trusted alike.
    cer_untaught: f64,
    /// With what was learnt from pages other than the one that is scored.
    cer_taught: f64,
}

/// Learns trust in the readings of jobs, and prints the key of the configuration that has it.
///
/// # Errors
///
/// If a job is not there, its tables cannot be read, or no page with a known text was read by all of them.
pub(super) async fn run(arguments: &EvalArgs, inputs: &Inputs, truth: &[TruePage]) -> Result<ExitCode> {
    let loaded = Loaded::read(&arguments.settings)?.validated()?;
    let lessons = lessons(&loaded, inputs, truth).await?;
    if lessons.is_empty() {
        let names: Vec<String> = inputs.iter().map(Input::to_string).collect();
        bail!(
            "{} has no page with a known text that all of {} have read",
            arguments.folder.display(),
            names.join(", ")
        );
    }
    let learnt = Learnt::new(inputs, &lessons)?;
    if arguments.json {
        println!("{}", serde_json::to_string_pretty(&learnt)?);
    } else {
        // The key goes to a command line, and what a person reads does not.
        eprint!("{}", learnt.table());
        println!("trust={}", serde_json::to_string(&learnt.trust)?);
    }
    Ok(ExitCode::SUCCESS)
}

/// Pages that all inputs have read and whose text is known.
async fn lessons(loaded: &Loaded, inputs: &Inputs, truth: &[TruePage]) -> Result<Vec<Lesson>> {
    let store = artifacts(loaded).await?;
    let database = database_for_command(loaded, false).await?;
    let first = inputs
        .first()
        .context("name the jobs whose readings are compared")?;
    let job = database.store.job(first).await?;
    let job = job.with_context(|| format!("there is no job {first} in {}", database.place))?;
    let mut pages = Vec::new();
    for task in database.store.tasks(job.id).await? {
        match read_readings(store.as_ref(), &task.volume, job.config.layout, inputs).await {
            Ok(read) => pages.extend(read),
            Err(ReadingsError::Unread { .. }) => {}
            Err(error) => return Err(error).with_context(|| task.volume.to_string()),
        }
    }
    let mut lessons = Vec::new();
    for TruePage { image, text, .. } in truth {
        let Some(text) = text else {
            continue;
        };
        let mut of_scan = pages.iter().filter(|page| page.source_name == *image);
        let Some(page) = of_scan.next() else {
            continue;
        };
        if of_scan.next().is_some() {
            bail!("two volumes have a scan {image}, and the truth does not say which of them it is for");
        }
        lessons.push(Lesson {
            readings: page.readings(),
            truth: text.clone(),
        });
    }
    Ok(lessons)
}

impl Learnt {
    fn new(inputs: &Inputs, lessons: &[Lesson]) -> Result<Self> {
        let trusts = rounded(learn(lessons));
        let readings = inputs
            .iter()
            .zip(&trusts)
            .enumerate()
            .map(|(place, (input, trust))| ReadingReport {
                input: input.clone(),
                weight: trust.weight,
                cer: rate(lessons, |lesson| text_of(&lesson.readings[place])),
            })
            .collect();
        let taught_by_others: Vec<Vec<Trust>> = (0..FOLDS)
            .map(|fold| {
                let others = lessons.iter().enumerate();
                let others = others.filter(|(place, _)| place % FOLDS != fold);
                learn(&others.map(|(_, lesson)| lesson.clone()).collect::<Vec<_>>())
            })
            .collect();
        let skeletons: Vec<Skeleton> = lessons
            .iter()
            .map(|lesson| Skeleton::new(&lesson.readings))
            .collect();
        let combined = Combination::ALL
            .into_iter()
            .filter(|how| *how != Combination::First)
            .map(|how| CombinedReport {
                how: how.as_str(),
                cer_untaught: cer(lessons, &skeletons, how, |_| &[]),
                cer_taught: cer(lessons, &skeletons, how, |place| &taught_by_others[place % FOLDS]),
            })
            .collect();
        let trusts = inputs.iter().zip(trusts).map(|(input, trust)| InputTrust {
            input: input.clone(),
            trust,
        });
        Ok(Self {
            pages: lessons.len(),
            trust: trusts.collect::<Vec<_>>().try_into()?,
            readings,
            combined,
        })
    }

    fn table(&self) -> String {
        let number = |text: String| Cell::new(text).set_alignment(CellAlignment::Right);
        let mut readings = Table::new();
        readings.load_preset(UTF8_FULL_CONDENSED);
        readings.set_header(["reading", "CER", "weight"]);
        for ReadingReport { input, weight, cer } in &self.readings {
            let row = [
                Cell::new(input),
                number(format!("{cer:.4}")),
                number(format!("{weight:.2}")),
            ];
            readings.add_row(row);
        }
        let mut combined = Table::new();
        combined.load_preset(UTF8_FULL_CONDENSED);
        combined.set_header(["how", "CER, all trusted alike", "CER, taught by other pages"]);
        for report in &self.combined {
            let row = [
                Cell::new(report.how),
                number(format!("{:.4}", report.cer_untaught)),
                number(format!("{:.4}", report.cer_taught)),
            ];
            combined.add_row(row);
        }
        let pages = pluralize(self.pages, "page");
        format!("learnt from {pages}\n{readings}\n{combined}\n")
    }
}

/// Character error rate of pages that are combined, each with trusts of its own.
fn cer<'t>(
    lessons: &[Lesson],
    skeletons: &[Skeleton],
    how: Combination,
    trusts: impl Fn(usize) -> &'t [Trust],
) -> f64 {
    let pages = lessons.iter().zip(skeletons).enumerate();
    sum(pages.map(|(place, (lesson, skeleton))| {
        let lines = combine(skeleton, trusts(place), how);
        let lines: Vec<String> = lines.iter().map(Combined::text).collect();
        character_errors(&lesson.truth, &lines.join("\n"))
    }))
}

fn text_of(reading: &Reading) -> String {
    let lines: Vec<String> = reading.lines.iter().map(parkhang_combine::Line::text).collect();
    lines.join("\n")
}

fn rate(lessons: &[Lesson], text: impl Fn(&Lesson) -> String) -> f64 {
    sum(lessons
        .iter()
        .map(|lesson| character_errors(&lesson.truth, &text(lesson))))
}

fn sum(counts: impl Iterator<Item = ErrorCount>) -> f64 {
    let mut all = ErrorCount::default();
    counts.for_each(|count| all += count);
    all.rate()
}

/// Numbers with four digits: more are not known, and a person has to pass them on.
fn rounded(mut trusts: Vec<Trust>) -> Vec<Trust> {
    let round = |number: &mut f32| *number = (*number * 1e4).round() / 1e4;
    for trust in &mut trusts {
        for number in [&mut trust.weight, &mut trust.unsaid, &mut trust.omission] {
            round(number);
        }
        for knot in &mut trust.curve {
            round(&mut knot.confidence);
            round(&mut knot.probability);
        }
        // Two that have become one are one.
        trust
            .curve
            .dedup_by(|later, earlier| later.confidence <= earlier.confidence);
    }
    trusts
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Two readings that err together, and one that is right.
    fn lessons() -> Vec<Lesson> {
        (0..10)
            .map(|number| {
                let truth = format!("བདེ་བར་{}གཤེགས་པ་དང་།", ["ཀ་", "ཁ་"][number % 2]);
                let wrong = truth.replace("བདེ", "བད").replace("གཤེགས", "གཤགས");
                let readings = [&wrong, &wrong, &truth].map(|text| Reading::of_text(text));
                Lesson {
                    readings: readings.into(),
                    truth,
                }
            })
            .collect()
    }

    #[test]
    fn what_is_learnt_is_a_key_of_the_configuration_and_says_what_it_gains() {
        let inputs: Inputs = serde_json::from_str(r#""a,b,c""#).unwrap();
        let learnt = Learnt::new(&inputs, &lessons()).unwrap();
        let vote = learnt
            .combined
            .iter()
            .find(|report| report.how == "vote")
            .unwrap();
        assert!(vote.cer_untaught > 0.05 && vote.cer_taught == 0.0, "{vote:?}");
        assert_eq!((learnt.pages, learnt.readings[2].cer), (10, 0.0));
        let pair = format!("trust={}", serde_json::to_string(&learnt.trust).unwrap());
        let config = parkhang_core::domain::JobConfig::default();
        let config = config.with_overrides(["inputs=a,b,c", pair.as_str()]).unwrap();
        assert_eq!(config.trust, learnt.trust);
        assert!(learnt.table().contains("0.0000"), "{}", learnt.table());
    }
}
