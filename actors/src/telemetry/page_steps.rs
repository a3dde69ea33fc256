//! Step of each page of a stage run at this moment, so that the log says where a page hangs.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Instant;

use chrono::{DateTime, TimeDelta, Utc};

use parkhang_core::domain::{PageAtWork, PageStep};

/// Limit on the pages that are reported: those that have been at their step for longest.
const TOLD: usize = 8;

tokio::task_local! {
    static PAGE: Page;
}

/// Takes note that the page which this task works on has reached a step. Does nothing in a task that works on none.
pub(crate) fn at_step(step: PageStep) {
    // Fails in a task without a page, such as one that tests a device.
    let _ = PAGE.try_with(|page| page.steps.set(&page.name, step));
}

/// Pages of a run that are worked on; clones share them.
#[derive(Debug, Clone, Default)]
pub(super) struct PageSteps(Arc<Mutex<HashMap<String, (PageStep, Instant)>>>);

/// Guard of a page that a task works on.
struct Page {
    steps: PageSteps,
    name: String,
}

impl PageSteps {
    /// Runs the work of a page, which begins by waiting for its input.
    pub(super) async fn follow<T>(&self, page: &str, work: impl Future<Output = T>) -> T {
        let page = Page {
            steps: self.clone(),
            name: page.to_owned(),
        };
        self.set(&page.name, PageStep::Fetching);
        PAGE.scope(page, work).await
    }

    /// Pages at work as of `now`, first the one that has been at its step for longest.
    pub(super) fn at_work(&self, now: DateTime<Utc>) -> Vec<PageAtWork> {
        let mut pages: Vec<(String, PageStep, Instant)> = self
            .lock()
            .iter()
            .map(|(name, (step, since))| (name.clone(), *step, *since))
            .collect();
        pages.sort_by(|one, other| (one.2, &one.0).cmp(&(other.2, &other.0)));
        pages.truncate(TOLD);
        pages
            .into_iter()
            .map(|(page, step, since)| PageAtWork {
                page,
                step,
                since: TimeDelta::from_std(since.elapsed()).map_or(now, |ago| now - ago),
            })
            .collect()
    }

    /// True if pages are at work, and all of them at this step.
    pub(super) fn are_all_at(&self, step: PageStep) -> bool {
        let pages = self.lock();
        !pages.is_empty() && pages.values().all(|(at, _)| *at == step)
    }

    fn set(&self, page: &str, step: PageStep) {
        self.lock().insert(page.to_owned(), (step, Instant::now()));
    }

    /// The pages. Every change of them is a single step, so a panic of another thread leaves them whole.
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

    fn published(steps: &PageSteps) -> Vec<(String, PageStep)> {
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
        assert_eq!(published(&steps), [("slow".to_owned(), PageStep::Fetching)]);
        let mut quick = Box::pin(steps.follow("quick", std::future::pending::<()>()));
        assert_eq!(quick.as_mut().now_or_never(), None);
        go_on.notify_one();
        assert_eq!(slow.as_mut().now_or_never(), None);
        // The other has been at its step for longer by now.
        let both = [("quick", PageStep::Fetching), ("slow", PageStep::Inferring)];
        assert_eq!(
            published(&steps),
            both.map(|(page, step)| (page.to_owned(), step))
        );
        assert!(!steps.are_all_at(PageStep::Inferring));
        drop(quick);
        assert!(
            steps.are_all_at(PageStep::Inferring) && !PageSteps::default().are_all_at(PageStep::Inferring)
        );
        go_on.notify_one();
        slow.await;
        assert_eq!(published(&steps), []);
    }
}
