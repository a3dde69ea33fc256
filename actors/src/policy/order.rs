//! Order in which waiting items are started.

use crate::domain::ItemOrder;

/// Item that waits: its expected cost, in any unit, and the seconds for which it has waited.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Waiting {
    pub cost: f64,
    pub waited_s: f64,
}

/// Positions of `items` in starting order. Equals keep their order, and so do all items under FIFO.
///
/// `ageing` is the cost that a second of waiting outweighs, so that nothing starves while new items come in; 0 goes by
/// cost alone. A cost that is not a number counts as 0.
pub fn starting_order(order: ItemOrder, items: &[Waiting], ageing: f64) -> Vec<usize> {
    let mut positions: Vec<usize> = (0..items.len()).collect();
    let rank = |position: &usize| {
        let item = items[*position];
        let cost = if item.cost.is_nan() { 0.0 } else { item.cost };
        let head_start = item.waited_s * ageing;
        match order {
            ItemOrder::Fifo => 0.0,
            ItemOrder::Sjf => cost - head_start,
            ItemOrder::Lpt => -(cost + head_start),
        }
    };
    positions.sort_by(|a, b| rank(a).total_cmp(&rank(b)));
    positions
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn waiting(costs: &[f64]) -> Vec<Waiting> {
        costs
            .iter()
            .map(|cost| Waiting {
                cost: *cost,
                waited_s: 0.0,
            })
            .collect()
    }

    #[test]
    fn each_order_is_stable() {
        let items = waiting(&[3.0, 1.0, 2.0, 1.0, 3.0, f64::NAN]);
        assert_eq!(starting_order(ItemOrder::Fifo, &items, 0.0), [0, 1, 2, 3, 4, 5]);
        assert_eq!(starting_order(ItemOrder::Sjf, &items, 0.0), [5, 1, 3, 2, 0, 4]);
        assert_eq!(starting_order(ItemOrder::Lpt, &items, 0.0), [0, 4, 2, 1, 3, 5]);
    }

    #[test]
    fn an_item_that_waited_long_enough_goes_first() {
        for order in [ItemOrder::Sjf, ItemOrder::Lpt] {
            let last_by_cost = if order == ItemOrder::Sjf { 100.0 } else { 0.0 };
            let mut items = waiting(&[50.0, last_by_cost]);
            items[1].waited_s = 101.0;
            assert_eq!(starting_order(order, &items, 0.0), [0, 1]);
            assert_eq!(starting_order(order, &items, 1.0), [1, 0]);
        }
    }

    proptest! {
        #[test]
        fn every_item_is_started_once(
            costs in prop::collection::vec(prop::num::f64::ANY, 0..40),
            order in prop::sample::select(vec![ItemOrder::Fifo, ItemOrder::Sjf, ItemOrder::Lpt]),
        ) {
            let mut positions = starting_order(order, &waiting(&costs), 0.0);
            positions.sort_unstable();
            prop_assert_eq!(positions, (0..costs.len()).collect::<Vec<_>>());
        }

        #[test]
        fn costs_are_in_order(costs in prop::collection::vec(0.0..100.0_f64, 1..40)) {
            let items = waiting(&costs);
            let by = |order| -> Vec<f64> {
                starting_order(order, &items, 0.0).into_iter().map(|position| costs[position]).collect()
            };
            prop_assert!(by(ItemOrder::Sjf).is_sorted());
            prop_assert!(by(ItemOrder::Lpt).iter().rev().is_sorted());
        }
    }
}
