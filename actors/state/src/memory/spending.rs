//! Spending of jobs, in the memory store.

use std::collections::{BTreeMap, HashMap};

use parkhang_core::domain::{Expense, Fence, JobId, Spending};

/// Latest expense of each lease at each service, with its job.
#[derive(Debug, Default)]
pub(super) struct Expenses(HashMap<(Fence, String), (JobId, Expense)>);

impl Expenses {
    /// Keeps the larger of an expense and of what was written before.
    pub(super) fn write(&mut self, job: JobId, expense: &Expense) {
        let place = (expense.fence.clone(), expense.service.clone());
        let (_, known) = self.0.entry(place).or_insert_with(|| (job, expense.clone()));
        known.usage = known.usage.max(expense.usage);
        known.cost = known.cost.max(expense.cost);
    }

    pub(super) fn of(&self, job: Option<JobId>) -> Vec<Spending> {
        let mut sums: BTreeMap<(JobId, &str), Spending> = BTreeMap::new();
        for (of, expense) in self.0.values() {
            if job.is_some_and(|job| job != *of) || expense.usage == Default::default() {
                continue;
            }
            let sum = sums.entry((*of, &expense.service)).or_insert_with(|| Spending {
                job: *of,
                service: expense.service.clone(),
                usage: Default::default(),
                cost: Default::default(),
            });
            sum.usage = sum.usage.plus(expense.usage);
            sum.cost = sum.cost.plus(expense.cost);
        }
        sums.into_values().collect()
    }
}
