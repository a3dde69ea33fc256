//! What is being done to each page of a stage run at this moment, for the one that hangs to say where.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Instant;

use chrono::{DateTime, TimeDelta, Utc};

use parkhang_core::domain::{PageAtWork, PageStep};

/// Pages that are told of; those that have been at their step for longest.
const TOLD: usize = 8;

tokio::task_local! {
    static PAGE: Page;
}

/// Takes note that the page which this task works on has come to a step. Does nothing in a task that works on none.
pub(crate) fn at_step(step: PageStep) {
    // A task without a page is none of a stage's.
    let _ = PAGE.try_with(|page| page.steps.set(&page.name, step));
}

/// The pages of a run that are worked on; clones share them.
#[derive(Debug, Clone, Default)]
pub(super) struct PageSteps(Arc<Mutex<HashMap<String, (PageStep, Instant)>>>);

/// A page for as long as a task works on it.
struct Page {
    steps: PageSteps,
    name: String,
}

impl PageSteps {
    /// Does the work of a page, which begins by waiting for what is read of it.
    pub(super) async fn follow<T>(&self, page: &str, work: impl Future<Output = T>) -> T {
        let page = Page {
            steps: self.clone(),
            name: page.to_owned(),
        };
        self.set(&page.name, PageStep::Fetching);
        PAGE.scope(page, work).await
    }

    /// As of `now`, the one that has been at its step for longest first.
    pub(super) fn at_work(&self, now: DateTime<Utc>) -> Vec<PageAtWork> {
        let mut pages: Vec<(String, PageStep, Instant)> = self
            .lock()
            .iter()
            .map(|(name, (step, since))| (name.clone(), *step, *since))
            .collect();
        pages.sort_by(|one, other| (one.2, &one.0).cmp(&(other.2, &other.0)));
        pages.truncate(TOLD);
        let pages = pages.into_iter().map(|(page, step, since)| PageAtWork {
            page,
            step,
            since: TimeDelta::from_std(since.elapsed()).map_or(now, |ago| now - ago),
        });
        pages.collect()
    }

    fn set(&self, page: &str, step: PageStep) {
        self.lock().insert(page.to_owned(), (step, Instant::now()));
    }

    /// Each change is whole before anything can fail.
    fn lock(&self) -> MutexGuard<'_, HashMap<String, (PageStep, Instant)>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Page {
    fn drop(&mut self) {
        self.steps.lock().remove(&self.name);
    }
}

#[cfg(test)]
mod tests {
    use futures::FutureExt;
    use tokio::sync::Notify;

    use super::*;

    fn told(steps: &PageSteps) -> Vec<(String, PageStep)> {
        let pages = steps.at_work(Utc::now()).into_iter();
        pages.map(|page| (page.page, page.step)).collect()
    }

    /// Rows: F39.
    #[tokio::test]
    async fn a_page_is_told_of_with_its_step_for_as_long_as_it_is_worked_on() {
        let (steps, go_on) = (PageSteps::default(), Notify::new());
        at_step(PageStep::Computing);
        let mut slow = Box::pin(steps.follow("slow", async {
            go_on.notified().await;
            at_step(PageStep::Inferring);
            go_on.notified().await;
        }));
        assert_eq!(slow.as_mut().now_or_never(), None);
        assert_eq!(told(&steps), [("slow".to_owned(), PageStep::Fetching)]);
        let mut quick = Box::pin(steps.follow("quick", std::future::pending::<()>()));
        assert_eq!(quick.as_mut().now_or_never(), None);
        go_on.notify_one();
        assert_eq!(slow.as_mut().now_or_never(), None);
        // The other has been at its step for longer by now.
        let both = [("quick", PageStep::Fetching), ("slow", PageStep::Inferring)];
        assert_eq!(told(&steps), both.map(|(page, step)| (page.to_owned(), step)));
        drop(quick);
        go_on.notify_one();
        slow.await;
        assert_eq!(told(&steps), []);
    }
}
