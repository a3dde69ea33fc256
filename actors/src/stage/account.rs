//! Account of what a run of a stage spends at services. The state keeps it, and says whether the job may spend more.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use async_trait::async_trait;
use parkhang_core::domain::{Amount, Expense, Fence, Prices, SpendReply, Usage};
use tokio::time::sleep;
use tokio_util::sync::CancellationToken;

/// Pause before an expense that was not recorded is sent again.
const RECORD_AGAIN: Duration = Duration::from_millis(500);

/// Receiver of expenses, who writes them into the state.
#[async_trait]
pub trait ExpenseRecorder: Send + Sync + fmt::Debug {
    /// Writes what was spent under a lease so far.
    async fn record_expense(&self, expense: &Expense) -> SpendReply;
}

/// Account of one lease. Clones are the same one.
#[derive(Debug, Clone)]
pub struct Account(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    /// `None` where nothing is to be spent.
    recorder: Option<Arc<dyn ExpenseRecorder>>,
    fence: Fence,
    /// Use that was made of each service so far, and its cost.
    totals: Mutex<BTreeMap<String, (Usage, Amount)>>,
    /// Use that the state knows of. Held while it is told, so that pages which end together are told of at once.
    recorded: tokio::sync::Mutex<BTreeMap<String, Usage>>,
    /// True once the state has told whether the budget is used up.
    is_known: AtomicBool,
    /// True if the budget was used up when the state last told.
    is_used_up: AtomicBool,
}

impl Account {
    pub fn new(recorder: Arc<dyn ExpenseRecorder>, fence: Fence) -> Self {
        Self::of(Some(recorder), fence)
    }

    /// Account that admits nothing, for what is done about a volume outside a run.
    pub fn closed(fence: Fence) -> Self {
        Self::of(None, fence)
    }

    fn of(recorder: Option<Arc<dyn ExpenseRecorder>>, fence: Fence) -> Self {
        Self(Arc::new(Inner {
            recorder,
            fence,
            totals: Mutex::default(),
            recorded: tokio::sync::Mutex::default(),
            is_known: AtomicBool::new(false),
            is_used_up: AtomicBool::new(false),
        }))
    }

    /// Returns whether the job may spend something at a service now. The state is asked before the first expense, and behind the last one
    /// that the budget had room for; it pauses the job then. Others tell by themselves. Nothing is
    /// admitted if the run is to stop before the state answers.
    pub(crate) async fn admits(&self, service: &str, halt: &CancellationToken) -> bool {
        if self.0.recorder.is_none() {
            return false;
        }
        let is_first = !self.0.is_known.load(Ordering::Relaxed);
        if is_first || self.0.is_used_up.load(Ordering::Relaxed) {
            let nothing = self.expense(service, Usage::default(), Amount::ZERO);
            if !self.record(&nothing, halt).await {
                return false;
            }
        }
        !self.0.is_used_up.load(Ordering::Relaxed)
    }

    /// Adds to what was spent at a service, and waits until the state knows it, or the run is to stop.
    pub(crate) async fn charge(
        &self,
        service: &str,
        usage: Usage,
        prices: &Prices,
        halt: &CancellationToken,
    ) {
        // An expense of nothing asks whether more may be spent, which may pause the job.
        if usage == Usage::default() {
            return;
        }
        {
            let mut totals = self.totals();
            let (total, cost) = totals.entry(service.to_owned()).or_default();
            *total = total.plus(usage);
            *cost = prices.cost(total);
        }
        self.tell(service, halt).await;
    }

    async fn tell(&self, service: &str, halt: &CancellationToken) {
        let mut recorded = self.0.recorded.lock().await;
        let (usage, cost) = self.totals().get(service).copied().unwrap_or_default();
        // Others may have told of it together with their own.
        let is_new = recorded.get(service) != Some(&usage);
        if is_new && self.record(&self.expense(service, usage, cost), halt).await {
            recorded.insert(service.to_owned(), usage);
        }
    }

    fn expense(&self, service: &str, usage: Usage, cost: Amount) -> Expense {
        Expense {
            fence: self.0.fence.clone(),
            service: service.to_owned(),
            usage,
            cost,
        }
    }

    /// Sends an expense until the state has it; returns false if the run is to stop first.
    async fn record(&self, expense: &Expense, halt: &CancellationToken) -> bool {
        let Some(recorder) = &self.0.recorder else {
            return false;
        };
        loop {
            let reply = recorder.record_expense(expense).await;
            if reply != SpendReply::Unrecorded {
                let is_used_up = reply == SpendReply::UsedUp;
                self.0.is_used_up.store(is_used_up, Ordering::Relaxed);
                self.0.is_known.store(true, Ordering::Relaxed);
                return true;
            }
            // Without the state nobody knows whether more may be spent.
            tokio::select! {
                () = sleep(RECORD_AGAIN) => {}
                () = halt.cancelled() => return false,
            }
        }
    }

    fn totals(&self) -> MutexGuard<'_, BTreeMap<String, (Usage, Amount)>> {
        // Sums cannot be left half changed.
        self.0.totals.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use futures::future::join_all;
    use parkhang_core::domain::testing::fence;

    use super::*;

    /// Recorder that is away for some time, and then lets a job spend so many calls.
    #[derive(Debug)]
    struct Books {
        away: Mutex<u32>,
        budget: u64,
        told: Mutex<Vec<u64>>,
    }

    #[async_trait]
    impl ExpenseRecorder for Books {
        async fn record_expense(&self, expense: &Expense) -> SpendReply {
            tokio::task::yield_now().await;
            let mut away = self.away.lock().unwrap();
            if *away > 0 {
                *away -= 1;
                return SpendReply::Unrecorded;
            }
            assert_eq!(
                expense.cost,
                "0.1".parse::<Amount>().unwrap().times(expense.usage.calls, 1)
            );
            let mut told = self.told.lock().unwrap();
            told.push(expense.usage.calls);
            let most = told.iter().max().copied().unwrap_or_default();
            match most < self.budget {
                true => SpendReply::Recorded,
                false => SpendReply::UsedUp,
            }
        }
    }

    fn books(away: u32, budget: u64) -> (Arc<Books>, Account) {
        let books = Arc::new(Books {
            away: Mutex::new(away),
            budget,
            told: Mutex::default(),
        });
        (books.clone(), Account::new(books, fence(1, "ocr")))
    }

    fn prices() -> Prices {
        Prices {
            call: "0.1".parse().unwrap(),
            ..Prices::default()
        }
    }

    #[tokio::test(start_paused = true)]
    async fn every_page_is_told_of_once_the_state_is_there() {
        let (books, account) = books(3, 100);
        let halt = CancellationToken::new();
        assert!(account.admits("vision", &halt).await);
        let prices = prices();
        join_all((0..20).map(|_| account.charge("vision", Usage::CALL, &prices, &halt))).await;
        let told = books.told.lock().unwrap().clone();
        assert!(
            told.is_sorted() && told[0] == 0 && told.last() == Some(&20),
            "{told:?}"
        );
    }

    #[tokio::test(start_paused = true)]
    async fn nothing_is_admitted_beyond_the_budget_or_by_a_closed_account() {
        let (_, account) = books(0, 2);
        let halt = CancellationToken::new();
        let mut calls = 0;
        while account.admits("vision", &halt).await {
            calls += 1;
            account.charge("vision", Usage::CALL, &prices(), &halt).await;
        }
        assert_eq!(calls, 2);
        assert!(!Account::closed(fence(1, "ocr")).admits("vision", &halt).await);
    }

    #[tokio::test(start_paused = true)]
    async fn a_run_that_is_to_stop_does_not_wait_for_the_state() {
        let (books, account) = books(u32::MAX, 2);
        let halt = CancellationToken::new();
        halt.cancel();
        account.charge("vision", Usage::CALL, &prices(), &halt).await;
        assert!(!account.admits("vision", &halt).await);
        assert!(books.told.lock().unwrap().is_empty());
    }

    #[tokio::test]
    async fn the_state_is_not_told_of_what_cost_nothing() {
        let (books, account) = books(0, 2);
        let halt = CancellationToken::new();
        account.charge("vision", Usage::default(), &prices(), &halt).await;
        assert!(books.told.lock().unwrap().is_empty());
    }
}
