use serde::{Deserialize, Serialize};

/// An empirical distribution: observed values, of which each is as likely as the next, with linear interpolation between them.
/// So the values may as well be quantiles at equal steps.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(try_from = "Vec<f64>", into = "Vec<f64>")]
pub struct Distribution(Vec<f64>);

/// Error of a list of values that is no distribution.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("a distribution needs at least one value, and values that are finite and not negative")]
pub struct NotADistribution;

impl Distribution {
    /// The distribution of these values.
    ///
    /// # Errors
    ///
    /// When there are none, or some are negative or not finite.
    pub fn new(mut values: Vec<f64>) -> Result<Self, NotADistribution> {
        if values.is_empty() || !values.iter().all(|value| value.is_finite() && *value >= 0.0) {
            return Err(NotADistribution);
        }
        values.sort_by(f64::total_cmp);
        Ok(Self(values))
    }

    /// Value below which this share of all values lies; `share` is from 0 to 1.
    pub fn quantile(&self, share: f64) -> f64 {
        // `new` refuses an empty list, so there is a last value.
        let place = share.clamp(0.0, 1.0) * (self.0.len() - 1) as f64;
        let below = place.floor() as usize;
        let above = (below + 1).min(self.0.len() - 1);
        self.0[below] + (self.0[above] - self.0[below]) * place.fract()
    }

    /// Mean of the values that [`Distribution::quantile`] gives for shares drawn evenly.
    pub fn mean(&self) -> f64 {
        if self.0.len() == 1 {
            return self.0[0];
        }
        // Each step between two values is as likely as the next, and its mean is its middle.
        let middles = self.0.windows(2).map(|pair| (pair[0] + pair[1]) / 2.0);
        middles.sum::<f64>() / (self.0.len() - 1) as f64
    }
}

impl TryFrom<Vec<f64>> for Distribution {
    type Error = NotADistribution;

    fn try_from(values: Vec<f64>) -> Result<Self, NotADistribution> {
        Self::new(values)
    }
}

impl From<Distribution> for Vec<f64> {
    fn from(distribution: Distribution) -> Self {
        distribution.0
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn values_are_interpolated() {
        let distribution = Distribution::new(vec![4.0, 1.0, 2.0]).unwrap();
        let at = |share| distribution.quantile(share);
        assert_eq!(
            [at(0.0), at(0.25), at(0.5), at(0.75), at(1.0)],
            [1.0, 1.5, 2.0, 3.0, 4.0]
        );
        assert_eq!(distribution.mean(), 2.25);
        assert_eq!(Distribution::new(vec![7.0]).unwrap().quantile(0.3), 7.0);
    }

    #[test]
    fn what_is_no_number_is_no_distribution() {
        for values in [vec![], vec![1.0, f64::NAN], vec![-1.0], vec![f64::INFINITY]] {
            assert_eq!(Distribution::new(values), Err(NotADistribution));
        }
    }

    proptest! {
        #[test]
        fn the_mean_is_that_of_even_draws(values in prop::collection::vec(0.0..100.0_f64, 1..20)) {
            let distribution = Distribution::new(values).unwrap();
            let draws = 20_000;
            let sum: f64 = (0..draws).map(|n| distribution.quantile((f64::from(n) + 0.5) / f64::from(draws))).sum();
            prop_assert!((sum / f64::from(draws) - distribution.mean()).abs() < 0.01);
        }
    }
}
