//! Budgets of jobs: when a job may spend nothing more at services.

use crate::domain::{Amount, Job, JobStatus, Spending};

/// True if a job with the budget may spend nothing more; a budget of zero is none.
pub fn is_used_up(budget: Amount, spent: Amount) -> bool {
    !budget.is_zero() && spent >= budget
}

/// Amount that a job has spent, if that is why it is paused.
pub fn paused_for(job: &Job, spending: &[Spending]) -> Option<Amount> {
    let spent = Spending::total(spending.iter().filter(|spending| spending.job == job.id));
    let is_so = job.status == JobStatus::Paused && is_used_up(job.config.budget, spent);
    is_so.then_some(spent)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::domain::testing::job;
    use crate::domain::{JobConfig, JobId, Usage};

    #[test]
    fn a_job_without_a_budget_is_never_out_of_it() {
        let amount = Amount::from_nanos;
        assert!(!is_used_up(Amount::ZERO, amount(u64::MAX)));
        assert!(!is_used_up(amount(2), amount(1)) && is_used_up(amount(2), amount(2)));
    }

    #[test]
    fn a_pause_is_of_the_budget_if_that_is_used_up_by_the_job_itself() {
        let paused = Job {
            status: JobStatus::Paused,
            config: JobConfig {
                budget: Amount::from_nanos(10),
                ..JobConfig::default()
            },
            ..job()
        };
        let spent = |job, nanos| Spending {
            job,
            service: "vision".to_owned(),
            usage: Usage::CALL,
            cost: Amount::from_nanos(nanos),
        };
        let others = JobId(paused.id.0 + 1);
        let spending = [spent(paused.id, 6), spent(others, 50), spent(paused.id, 5)];
        assert_eq!(paused_for(&paused, &spending), Some(Amount::from_nanos(11)));
        assert_eq!(paused_for(&paused, &spending[..2]), None);
        let running = Job {
            status: JobStatus::Running,
            ..paused
        };
        assert_eq!(paused_for(&running, &spending), None);
    }
}
