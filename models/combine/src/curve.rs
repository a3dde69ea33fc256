//! Curves from confidences to probabilities.

use parkhang_algorithms::Knot;

/// Bin of outcomes, or several that were pooled.
#[derive(Debug, Clone, Copy)]
struct Pool {
    confidences: f32,
    right: usize,
    number: usize,
}

impl Pool {
    fn knot(&self) -> Knot {
        Knot {
            confidence: self.confidences / self.number as f32,
            // As if one more had been right and one wrong: few outcomes prove little.
            probability: (self.right + 1) as f32 / (self.number + 2) as f32,
        }
    }

    fn with(self, other: Self) -> Self {
        Self {
            confidences: self.confidences + other.confidences,
            right: self.right + other.right,
            number: self.number + other.number,
        }
    }
}

/// Curve of at most so many knots that rises with the confidence and fits the outcomes: they are put into bins of equal size, and neighbours are
/// pooled as long as the later one is right no more often (pool adjacent violators; Ayer et al., "An empirical distribution function
/// for sampling with incomplete information", 1955).
pub(crate) fn curve(mut outcomes: Vec<(f32, bool)>, knots: usize) -> Vec<Knot> {
    outcomes.retain(|(confidence, _)| !confidence.is_nan());
    outcomes.sort_by(|one, other| one.0.total_cmp(&other.0));
    let size = outcomes.len().div_ceil(knots.max(1)).max(1);
    let mut pools: Vec<Pool> = Vec::new();
    for bin in outcomes.chunks(size) {
        let mut pool = Pool {
            confidences: bin.iter().map(|(confidence, _)| confidence).sum(),
            right: bin.iter().filter(|(_, is_right)| *is_right).count(),
            number: bin.len(),
        };
        while let Some(before) = pools.pop_if(|before| !rises(before.knot(), pool.knot())) {
            pool = before.with(pool);
        }
        pools.push(pool);
    }
    pools.iter().map(Pool::knot).collect()
}

fn rises(before: Knot, after: Knot) -> bool {
    before.confidence < after.confidence && before.probability < after.probability
}

#[cfg(test)]
mod tests {
    use parkhang_algorithms::Trust;
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn a_confidence_that_says_too_much_is_corrected() {
        let outcomes = (0..4000).map(|n| {
            let confidence = n as f32 / 4000.0;
            // Right with a probability of the square of the confidence.
            (
                confidence,
                (n * 37 % 1000) as f32 / 1000.0 < confidence * confidence,
            )
        });
        let trust = Trust {
            curve: curve(outcomes.collect(), 12),
            ..Trust::default()
        };
        for confidence in [0.3_f32, 0.5, 0.7, 0.9] {
            let error = trust.of(Some(confidence)) - confidence * confidence;
            assert!(error.abs() < 0.06, "{confidence}: {error}");
        }
    }

    proptest! {
        #[test]
        fn a_curve_rises(
            outcomes in prop::collection::vec((prop_oneof![0.0..1.0_f32, Just(0.5), Just(f32::NAN)], any::<bool>()), 0..80),
            knots in 0..12_usize,
        ) {
            let curve = curve(outcomes, knots);
            prop_assert!(curve.windows(2).all(|pair| rises(pair[0], pair[1])));
            let trust = Trust { curve, ..Trust::default() };
            let probabilities: Vec<f32> = (0..=20).map(|n| trust.of(Some(n as f32 / 20.0))).collect();
            prop_assert!(probabilities.windows(2).all(|pair| pair[0] <= pair[1] + 1e-6), "{:?}", probabilities);
            prop_assert!(probabilities.iter().all(|p| (0.0..=1.0).contains(p)));
        }
    }
}
