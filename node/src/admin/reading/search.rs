//! `pages search`: pages that match a query, of one job or of all.

use std::collections::BTreeSet;
use std::time::Duration;

use async_trait::async_trait;
use clap::Args;
use parkhang_core::domain::{Job, JobKey};
use parkhang_search::Snapshot;
use parkhang_state::StateStore;

use super::indexes::Freshness;
use crate::admin::command::{Access, Answer, Command, Verb};
use crate::admin::jobs::find;
use crate::admin::{Admin, Refusal};
use crate::search::{Found, Hit, Question, ask};

/// A search waits a little for what was read up to a little before it.
const USUAL: Freshness = Freshness {
    age: Duration::from_secs(5),
    patience: Duration::from_secs(2),
};
/// With `--wait`, for all that was read, within the time that a command may take.
const NEWEST: Freshness = Freshness {
    age: Duration::ZERO,
    patience: Duration::from_secs(50),
};

/// Search the text of jobs.
///
/// A page matches if it has the words of QUERY, wherever its lines end, or if it is about the same, where a job has embedded its pages. Misread letters are forgiven, and Wylie is read as Tibetan. "Some words" in
/// quotation marks must be in a row; +word must and -word must not be there; title:word looks in headings; volume:W1-I1, lang:bo
/// and page:NAME bound the search. With --out OUT the output folder of `node ocr` is searched instead of jobs. Example: `node search 'byang chub sems' --job kangyur`.
#[derive(Debug, Args)]
pub struct Search {
    #[command(flatten)]
    question: Question,
    /// Search this job only; may be repeated. All jobs by default.
    #[arg(long, value_name = "JOB")]
    job: Vec<JobKey>,
    /// Wait until the index has all that was read, for up to 50 seconds.
    #[arg(long)]
    wait: bool,
}

#[async_trait]
impl Command for Search {
    const NAME: [&'static str; 2] = ["pages", "search"];
    const ACCESS: Access = Access::Read;
    const VERB: Verb = Verb::Get;
    const PATH: &'static str = "/search";
    type Answer = Found;

    async fn run(self, admin: &Admin) -> Result<Found, Refusal> {
        self.question
            .check()
            .map_err(|reason| Refusal::Invalid(reason.to_owned()))?;
        let jobs = self.jobs(admin).await?;
        let wanted = if self.wait { NEWEST } else { USUAL };
        let views = jobs.iter().map(|job| admin.indexes.of_job(admin, job, wanted));
        let views = futures::future::try_join_all(views).await?;
        let volumes = views.iter().map(|view| view.indexed).sum();
        let behind = views.iter().map(|view| view.behind).sum();
        let is_updating = views.iter().any(|view| view.is_updating);
        let troubles = jobs.iter().zip(&views).filter_map(|(job, view)| {
            let trouble = view.trouble.as_ref()?;
            Some(format!("job {}: {trouble}", job.key))
        });
        let mut found = Found {
            total: 0,
            hits: Vec::new(),
            volumes,
            behind,
            is_updating,
            troubles: troubles.collect(),
        };
        if volumes == 0 {
            return Ok(found);
        }
        let (searched, snapshots): (Vec<JobKey>, Vec<Snapshot>) = jobs
            .into_iter()
            .zip(views)
            .filter_map(|(job, view)| Some((job.key, view.snapshot?)))
            .unzip();
        let folder = admin.loaded.config.models.dir.as_deref();
        let turn = admin.indexes.turn().await;
        let asked = ask(&self.question, snapshots, admin.indexes.models(), folder, turn).await?;
        found.troubles.extend(asked.trouble);
        let pages = asked.found;
        found.total = pages.total;
        let hits = pages
            .hits
            .into_iter()
            .filter_map(|hit| Some(Hit::of(searched.get(hit.index)?.as_str(), hit)));
        found.hits = hits.collect();
        Ok(found)
    }
}

impl Search {
    async fn jobs(&self, admin: &Admin) -> Result<Vec<Job>, Refusal> {
        if self.job.is_empty() {
            let jobs = admin.store.jobs().await?;
            admin.indexes.forget(&jobs)?;
            return Ok(jobs);
        }
        let mut jobs = Vec::new();
        // One that is named again is the same one: its index is searched once.
        for key in self.job.iter().collect::<BTreeSet<_>>() {
            jobs.push(find(admin, key).await?);
        }
        Ok(jobs)
    }
}

impl Answer for Found {
    fn text(&self) -> String {
        Self::text(self)
    }
}
