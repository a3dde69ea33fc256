//! Order in which waiting items are started.

use crate::domain::SchedulingOrder;

/// Positions of items of these costs in starting order. Equals keep their order, and so do all items under FIFO. A cost that
/// is not a number counts as 0.
///
/// `ageing` is the cost that a place in the queue outweighs: of two items, the one that was there first is started first
/// unless the other is better by more than `ageing` for each place between them. So nothing that came early starves behind
/// what came after it. With 0 cost alone counts; the larger it is, the nearer the order is to FIFO.
pub fn starting_order(order: SchedulingOrder, costs: &[f64], ageing: f64) -> Vec<usize> {
    let mut positions: Vec<usize> = (0..costs.len()).collect();
    let rank = |position: &usize| {
        let cost = costs[*position];
        let cost = if cost.is_nan() { 0.0 } else { cost };
        let handicap = *position as f64 * ageing;
        match order {
            SchedulingOrder::Fifo => 0.0,
            SchedulingOrder::Sjf => handicap + cost,
            SchedulingOrder::Lpt => handicap - cost,
        }
    };
    positions.sort_by(|a, b| rank(a).total_cmp(&rank(b)));
    positions
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// Rows: 189, 190.
    #[test]
    fn each_order_is_stable() {
        let costs = [3.0, 1.0, 2.0, 1.0, 3.0, f64::NAN];
        assert_eq!(
            starting_order(SchedulingOrder::Fifo, &costs, 0.0),
            [0, 1, 2, 3, 4, 5]
        );
        assert_eq!(
            starting_order(SchedulingOrder::Sjf, &costs, 0.0),
            [5, 1, 3, 2, 0, 4]
        );
        assert_eq!(
            starting_order(SchedulingOrder::Lpt, &costs, 0.0),
            [0, 4, 2, 1, 3, 5]
        );
    }

    /// Rows: 190.
    #[test]
    fn an_item_that_came_early_enough_goes_first() {
        for (order, costs) in [
            (SchedulingOrder::Sjf, [100.0, 50.0, 1.0]),
            (SchedulingOrder::Lpt, [1.0, 51.0, 100.0]),
        ] {
            assert_eq!(starting_order(order, &costs, 0.0), [2, 1, 0], "{order:?}");
            assert_eq!(starting_order(order, &costs, 49.4), [1, 2, 0], "{order:?}");
            assert_eq!(starting_order(order, &costs, 51.0), [0, 1, 2], "{order:?}");
        }
    }

    proptest! {
        #[test]
        fn every_item_is_started_once(
            costs in prop::collection::vec(prop::num::f64::ANY, 0..40),
            order in prop::sample::select(vec![SchedulingOrder::Fifo, SchedulingOrder::Sjf, SchedulingOrder::Lpt]),
            ageing in 0.0..10.0_f64,
        ) {
            let mut positions = starting_order(order, &costs, ageing);
            positions.sort_unstable();
            prop_assert_eq!(positions, (0..costs.len()).collect::<Vec<_>>());
        }

        #[test]
        fn costs_are_in_order(costs in prop::collection::vec(0.0..100.0_f64, 1..40)) {
            let by = |order| -> Vec<f64> {
                starting_order(order, &costs, 0.0).into_iter().map(|position| costs[position]).collect()
            };
            prop_assert!(by(SchedulingOrder::Sjf).is_sorted());
            prop_assert!(by(SchedulingOrder::Lpt).iter().rev().is_sorted());
        }

        #[test]
        fn nobody_is_passed_by_more_than_ageing_allows(
            costs in prop::collection::vec(0.0..100.0_f64, 1..40), ageing in 0.1..50.0_f64,
        ) {
            // Costs differ by less than 100, so what came so many places later cannot go first.
            let reach = (100.0 / ageing).ceil() as usize;
            for order in [SchedulingOrder::Sjf, SchedulingOrder::Lpt] {
                for (started, position) in starting_order(order, &costs, ageing).into_iter().enumerate() {
                    prop_assert!(started <= position + reach, "{} as number {}", position, started);
                }
            }
        }
    }
}
