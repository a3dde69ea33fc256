//! A run of `node pages detect`: filing by filing, chunk by chunk.

use std::collections::BTreeMap;
use std::ops::Range;
use std::process::ExitCode;
use std::sync::Arc;

use anyhow::Result;
use chrono::Utc;
use futures::{StreamExt, stream};
use parkhang_actors::stage::PAGE_OCR;
use parkhang_core::domain::VolumeId;

use super::arguments::DetectArgs;
use super::effects::Effects;
use super::filing::{Filing, is_address};
use super::inline::Reading;
use super::journal::ChunkRecords;
use super::judge::{Judge, Judged, failure};
use super::progress::{Bar, Counts};
use super::report::Report;
use super::settings::Reader;
use super::sources::Buckets;
use super::work::{Item, Plan, Work};
use crate::config::Loaded;
use crate::networks::cores;
use crate::ocr::INTERRUPTED;
use crate::words::pluralize;

/// PDFs that are looked at concurrently, and in memory.
const FILINGS: usize = 4;

/// Runs the command. The exit status is 1 if a filing, or a page of one, cannot be dealt with.
///
/// # Errors
///
/// If the run cannot begin, or this machine fails.
pub async fn run(arguments: DetectArgs) -> Result<ExitCode> {
    let loaded = Arc::new(configuration(&arguments)?);
    let buckets = Arc::new(Buckets::new(loaded.config.pages.s3.clone()));
    let work = Work::of(&arguments, &loaded, &buckets).await?;
    let effects = effects(&arguments, &work, loaded, buckets.clone()).await?;
    let mut run = Run {
        judge: Judge::new(buckets, cores().get()),
        effects,
        report: Report::new(arguments.json),
        failures: Vec::new(),
    };
    let interrupted = match &work.plan {
        None => run.all(&work.items).await?,
        Some(plan) => run.chunks(plan, &work.items, arguments.again).await?,
    };
    for failure in &run.failures {
        eprintln!("error: {failure}");
    }
    Ok(match (interrupted, run.failures.is_empty()) {
        (true, _) => ExitCode::from(INTERRUPTED),
        (false, true) => ExitCode::SUCCESS,
        (false, false) => ExitCode::FAILURE,
    })
}

/// The configuration, of which files of this machine need nothing.
fn configuration(arguments: &DetectArgs) -> Result<Loaded> {
    let mut files = arguments.files.iter();
    let has_address = files.any(|file| file.to_str().is_some_and(is_address));
    if arguments.manifest_key.is_some() || arguments.exchange.is_some() || has_address {
        return Ok(Loaded::read(&arguments.config)?.validated()?);
    }
    Loaded::apart(&arguments.config.buckets)
}

async fn effects(
    arguments: &DetectArgs,
    work: &Work,
    loaded: Arc<Loaded>,
    buckets: Arc<Buckets>,
) -> Result<Effects> {
    if !work.has_documents() {
        return Effects::none(Utc::now).await;
    }
    let queues = &loaded.config.intake.queues;
    let configured = queues.iter().rev().find(|queue| queue.job.as_str() == PAGE_OCR);
    let configured = configured.map(|queue| queue.queue.clone());
    let reader = Reader::of(&arguments.reading, configured.as_deref())?;
    let database = arguments.database_url.as_deref();
    let models = arguments.reading.models_dir.clone();
    Effects::open(reader, database, buckets, loaded, models, Utc::now).await
}

struct Run {
    judge: Judge,
    effects: Effects,
    report: Report,
    failures: Vec<String>,
}

impl Run {
    /// Does the filings that the command line names; returns true if the operator stopped it.
    async fn all(&mut self, items: &[Item]) -> Result<bool> {
        let bar = Bar::new(items.len(), None);
        let (_, interrupted) = self.some(items, 0..items.len(), None, &bar).await?;
        self.warn_of_unknown();
        Ok(interrupted)
    }

    /// Does the chunks of a manifest; returns true if the operator stopped it.
    async fn chunks(&mut self, plan: &Plan, items: &[Item], again: bool) -> Result<bool> {
        let count = plan.chunks.count();
        if let (true, Some(journal)) = (again, &plan.journal) {
            journal.forget()?;
        }
        if plan.chosen.is_empty() {
            eprintln!(
                "nothing to do: the manifest has {}, and this is number {} of the array",
                pluralize(count, "chunk"),
                plan.chosen.start
            );
        }
        let mut ended: Vec<ChunkRecords> = Vec::new();
        for chunk in plan.chosen.clone() {
            let entries = plan.chunks.entries(chunk);
            let name = format!("chunk {} of {count}", chunk + 1);
            let mut records = plan.journal.as_ref().map(|journal| journal.chunk(&entries));
            let before = records.as_ref().map_or(0, ChunkRecords::len);
            if before > 0 {
                let all = pluralize(entries.len(), "filing");
                eprintln!("{name} goes on: {before} of {all} were done before; --again does all of them");
            }
            let bar = Bar::new(entries.len() - before.min(entries.len()), Some(&name));
            let (counts, interrupted) = self.some(items, entries, records.as_mut(), &bar).await?;
            eprintln!("{name}: {counts}");
            ended.extend(records);
            if interrupted {
                return Ok(true);
            }
        }
        self.warn_of_unknown();
        if self.failures.is_empty() {
            ended.into_iter().for_each(ChunkRecords::forget);
        } else if !ended.is_empty() {
            eprintln!("the same command does what has failed, and what is left; --again does all filings");
        }
        Ok(false)
    }

    /// Does some of the items, in their order.
    async fn some(
        &mut self,
        items: &[Item],
        entries: Range<usize>,
        mut records: Option<&mut ChunkRecords>,
        bar: &Bar,
    ) -> Result<(Counts, bool)> {
        let mut counts = Counts::default();
        let mut waiting: BTreeMap<VolumeId, Vec<usize>> = BTreeMap::new();
        let is_done = |entry: &usize| records.as_ref().is_some_and(|records| records.has(*entry));
        let left = entries.filter(|entry| !is_done(entry));
        let left: Vec<(usize, Item)> = left
            .filter_map(|entry| Some((entry, items.get(entry)?.clone())))
            .collect();
        let judge = self.judge.clone();
        let mut judged = stream::iter(left)
            .map(|(entry, item)| {
                let judge = judge.clone();
                // A task of its own goes on while the filings before it are dealt with.
                tokio::spawn(async move {
                    let judged = match &item {
                        Ok(filing) => judge.judge(filing).await,
                        Err(_) => Judged::default(),
                    };
                    (entry, item, judged)
                })
            })
            .buffered(FILINGS);
        while let Some(ended) = judged.next().await {
            let (entry, item, judged) = ended?;
            counts.filings += 1;
            let filing = match item {
                Ok(filing) => filing,
                Err(reason) => {
                    counts.failed += 1;
                    self.failures.push(reason);
                    bar.advance();
                    continue;
                }
            };
            let before = self.failures.len();
            self.deal(&filing, judged, &mut counts, bar).await?;
            if self.failures.len() > before {
                counts.failed += 1;
            } else if let Some(document) = filing.document {
                waiting.entry(document).or_default().push(entry);
            }
            // A page that is read here is done at the end of the chunk only.
            if !self.effects.is_inline()
                && let Some(records) = records.as_deref_mut()
            {
                waiting.values().flatten().for_each(|entry| records.add(*entry));
                waiting.clear();
            }
            bar.advance();
        }
        bar.end();
        self.report.end_table()?;
        let Reading {
            failures,
            interrupted,
        } = self.effects.read_waiting().await?;
        for (document, reasons) in failures {
            if waiting.remove(&document).is_some() {
                counts.failed += 1;
            }
            let named = |reason| format!("{document}: {reason}");
            self.failures.extend(reasons.into_iter().map(named));
        }
        if let (Some(records), false) = (records, interrupted) {
            waiting.values().flatten().for_each(|entry| records.add(*entry));
        }
        Ok((counts, interrupted))
    }

    /// Reports on a filing, records its list and asks for its pages.
    async fn deal(&mut self, filing: &Filing, judged: Judged, counts: &mut Counts, bar: &Bar) -> Result<()> {
        let broken = judged.broken();
        bar.aside(|| self.report.add(&filing.place, &judged.pages))?;
        let is_judged = !judged.pages.is_empty();
        self.failures.extend(judged.failures);
        counts.pages += judged.pages.len();
        counts.broken += broken.len();
        let Some(document) = filing.document.as_ref().filter(|_| is_judged) else {
            return Ok(());
        };
        match self.effects.deal(document, &filing.place, &broken).await {
            Ok(requests) => {
                counts.requests += requests;
                bar.filing(&filing.place, judged.pages.len(), broken.len(), requests);
            }
            Err(error) => self.failures.push(failure(&filing.place, &format!("{error:#}"))),
        }
        Ok(())
    }

    fn warn_of_unknown(&self) {
        let unknown = self.effects.unknown();
        if unknown > 0 {
            let filings = pluralize(unknown, "filing");
            eprintln!(
                "warning: the table filings does not have {filings} of these; their broken pages are not recorded"
            );
        }
    }
}
