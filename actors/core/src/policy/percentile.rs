//! The percentile that every p50 and p95 of a stage is taken by.

/// Nearest-rank percentile of `values`: the smallest of them that at least `percent` of every hundred do not exceed. 0 where
/// there are no values.
pub fn percentile(values: &[f64], percent: f64) -> f64 {
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    let rank = (percent.clamp(0.0, 100.0) / 100.0 * sorted.len() as f64).ceil() as usize;
    sorted.get(rank.saturating_sub(1)).copied().unwrap_or(0.0)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn ranks_are_nearest() {
        let values = [50.0, 15.0, 40.0, 20.0, 35.0];
        for (percent, expected) in [
            (0.0, 15.0),
            (5.0, 15.0),
            (30.0, 20.0),
            (40.0, 20.0),
            (50.0, 35.0),
            (95.0, 50.0),
        ] {
            assert_eq!(percentile(&values, percent), expected, "{percent}");
        }
        assert_eq!(percentile(&[], 50.0), 0.0);
    }

    proptest! {
        #[test]
        fn enough_values_are_not_above(values in prop::collection::vec(-1e9..1e9_f64, 1..50), percent in 0.0..=100.0_f64) {
            let found = percentile(&values, percent);
            prop_assert!(values.contains(&found));
            let not_above = values.iter().filter(|value| **value <= found).count();
            prop_assert!(not_above as f64 >= percent / 100.0 * values.len() as f64 - 1e-9);
        }
    }
}
