//! Numbers of items that may fail.

use crate::domain::{ErrorCategory, OnItemError};

/// True if a stage stops starting items, since more have failed than `budget` allows. A budget of 0 has no limit.
pub const fn is_exhausted(budget: usize, failed: usize) -> bool {
    budget > 0 && failed > budget
}

/// True if a stage as a whole has failed, once `failed` of its `total` items have.
///
/// With [`OnItemError::Fail`] one item is enough; otherwise it takes a share above `max_error_rate`.
pub fn fails_stage(on_item_error: OnItemError, max_error_rate: f32, failed: usize, total: usize) -> bool {
    match on_item_error {
        OnItemError::Fail => failed > 0,
        OnItemError::Skip | OnItemError::Blank => total > 0 && failed as f32 / total as f32 > max_error_rate,
    }
}

/// True if a stage has nothing to show but failures, none of them for a reason that lies in its input. `done` items have a
/// result, of this run or an earlier one. Such a stage has failed however many items may.
pub fn came_to_nothing(done: usize, failures: impl IntoIterator<Item = ErrorCategory>) -> bool {
    let mut failures = failures.into_iter().peekable();
    done == 0 && failures.peek().is_some() && failures.all(|category| category != ErrorCategory::Input)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn the_budget_is_what_may_fail() {
        assert!(!is_exhausted(2, 2));
        assert!(is_exhausted(2, 3));
        assert!(!is_exhausted(0, usize::MAX));
    }

    #[test]
    fn one_failure_is_enough_only_for_fail() {
        assert!(fails_stage(OnItemError::Fail, 1.0, 1, 100));
        assert!(!fails_stage(OnItemError::Fail, 0.0, 0, 100));
        assert!(!fails_stage(OnItemError::Skip, 1.0, 100, 100));
        assert!(fails_stage(OnItemError::Skip, 0.0, 1, 100));
        assert!(!fails_stage(OnItemError::Blank, 0.25, 25, 100));
        assert!(fails_stage(OnItemError::Blank, 0.25, 26, 100));
        assert!(!fails_stage(OnItemError::Skip, 0.7, 70, 100));
        assert!(!fails_stage(OnItemError::Skip, 0.0, 0, 0));
    }

    #[test]
    fn a_stage_that_failed_on_every_page_by_itself_is_not_done() {
        use ErrorCategory::{Input, Runtime, Timeout};
        assert!(came_to_nothing(0, [Runtime, Timeout, Runtime]));
        assert!(!came_to_nothing(1, [Runtime; 3]), "something was read");
        assert!(!came_to_nothing(0, [Runtime, Input]), "a page is broken");
        assert!(!came_to_nothing(0, []), "there was nothing to do");
    }

    proptest! {
        #[test]
        fn more_failures_never_turn_failure_into_success(
            rate in 0.0..=1.0_f32, failed in 0_usize..100, total in 0_usize..100, budget in 0_usize..100,
        ) {
            for on_error in [OnItemError::Fail, OnItemError::Skip, OnItemError::Blank] {
                let fails = |failed| fails_stage(on_error, rate, failed, total);
                prop_assert!(!fails(failed) || fails(failed + 1));
            }
            prop_assert!(!is_exhausted(budget, failed) || is_exhausted(budget, failed + 1));
        }
    }
}
