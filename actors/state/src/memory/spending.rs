//! Spending of jobs, in the memory store.

use std::collections::{BTreeMap, HashMap};

use parkhang_core::domain::{Expense, Fence, JobId, JobStatus, Spending, Usage};
use parkhang_core::policy::spending::is_used_up;

use super::tables::Tables;
use crate::StateError;

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

impl Tables {
    pub(super) fn spend(&mut self, expense: &Expense) -> Result<bool, StateError> {
        let Some(id) = self.tasks.get(&expense.fence.task).map(|task| task.job_id) else {
            return Ok(false);
        };
        self.spending.write(id, expense);
        let job = self.job(id)?;
        let (budget, is_running) = (job.config.budget, job.status == JobStatus::Running);
        let is_used_up = is_used_up(budget, Spending::total(&self.spending.of(Some(id))));
        let asks = expense.usage == Usage::default();
        if is_used_up && asks && is_running {
            self.set_status(id, JobStatus::Paused)?;
        }
        Ok(!is_used_up)
    }
}
