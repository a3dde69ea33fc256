//! Trust in a reading: probabilities made of its confidences.

use serde::{Deserialize, Serialize};

/// Least and greatest probability that is believed of a syllable, whatever its reading says.
const RANGE: (f32, f32) = (0.02, 0.995);

/// Greatest weight of a reading, and most points of its curve.
const MOST_WEIGHT: f32 = 100.0;
const MOST_KNOTS: usize = 64;

/// Reason for which a trust cannot be reckoned with.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
pub enum InvalidTrust {
    #[error("{0} is no weight from 0 to {MOST_WEIGHT}")]
    Weight(f32),
    #[error("{0} is no probability from 0 to 1")]
    Share(f32),
    #[error("{0} points of a curve are more than {MOST_KNOTS}")]
    Knots(usize),
    #[error("the confidences of a curve do not rise")]
    Order,
}

/// Trust in a reading: how probably a syllable is right that it gives with a confidence, and one that it leaves out.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Trust {
    /// Weight of its votes.
    pub weight: f32,
    /// Probability of being right at some confidences, which rise with them. Between two of them it is interpolated, beyond the
    /// first and the last it stays. Without any a confidence is taken for the probability.
    pub curve: Vec<Knot>,
    /// Of a syllable without confidence.
    pub unsaid: f32,
    /// Of an omission, where another reading has a syllable.
    pub omission: f32,
}

/// Point of the curve of a [`Trust`].
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Knot {
    pub confidence: f32,
    pub probability: f32,
}

impl Default for Trust {
    /// Trust in a reading of which nothing is known.
    fn default() -> Self {
        Self {
            weight: 1.0,
            curve: Vec::new(),
            unsaid: 0.7,
            omission: 0.8,
        }
    }
}

impl Trust {
    /// Probability that a syllable is right.
    pub fn of(&self, confidence: Option<f32>) -> f32 {
        let Some(confidence) = confidence.filter(|confidence| !confidence.is_nan()) else {
            return bounded(self.unsaid);
        };
        let after = self.curve.partition_point(|knot| knot.confidence < confidence);
        let probability = match (
            after.checked_sub(1).map(|before| self.curve[before]),
            self.curve.get(after),
        ) {
            (None, None) => confidence,
            (Some(last), None) => last.probability,
            (None, Some(first)) => first.probability,
            (Some(before), Some(after)) => {
                let share = (confidence - before.confidence) / (after.confidence - before.confidence);
                before.probability + share * (after.probability - before.probability)
            }
        };
        bounded(probability)
    }

    /// Probability that an omission is right.
    pub fn of_omission(&self) -> f32 {
        bounded(self.omission)
    }
}

impl Trust {
    /// The same trust, if it can be reckoned with.
    ///
    /// # Errors
    ///
    /// [`InvalidTrust`] for the first thing that is wrong.
    pub fn validated(self) -> Result<Self, InvalidTrust> {
        let probabilities = [self.unsaid, self.omission];
        let knots = self.curve.iter();
        let shares = knots.flat_map(|knot| [knot.confidence, knot.probability]);
        if !(0.0..=MOST_WEIGHT).contains(&self.weight) {
            return Err(InvalidTrust::Weight(self.weight));
        }
        if let Some(share) = shares
            .chain(probabilities)
            .find(|share| !(0.0..=1.0).contains(share))
        {
            return Err(InvalidTrust::Share(share));
        }
        if self.curve.len() > MOST_KNOTS {
            return Err(InvalidTrust::Knots(self.curve.len()));
        }
        match self
            .curve
            .windows(2)
            .all(|pair| pair[0].confidence < pair[1].confidence)
        {
            true => Ok(self),
            false => Err(InvalidTrust::Order),
        }
    }
}

fn bounded(probability: f32) -> f32 {
    probability.clamp(RANGE.0, RANGE.1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_probability_lies_between_those_of_its_neighbours() {
        let knot = |confidence, probability| Knot {
            confidence,
            probability,
        };
        let trust = Trust {
            curve: vec![knot(0.2, 0.4), knot(0.6, 0.8)],
            ..Trust::default()
        };
        let near = |confidence, probability: f32| {
            let found = trust.of(Some(confidence));
            assert!((found - probability).abs() < 1e-6, "{confidence}: {found}");
        };
        near(0.0, 0.4);
        near(0.2, 0.4);
        near(0.3, 0.5);
        near(0.9, 0.8);
        assert_eq!(trust.of(None), 0.7);
        assert_eq!(trust.of(Some(f32::NAN)), 0.7);
        assert_eq!(
            Trust::default().of(Some(1.0)),
            0.995,
            "nobody is believed for certain"
        );
    }

    #[test]
    fn what_cannot_be_reckoned_with_is_refused() {
        let with = |change: fn(&mut Trust)| {
            let mut trust = Trust::default();
            change(&mut trust);
            trust.validated().map_err(|error| error.to_string())
        };
        let knot = |confidence| Knot {
            confidence,
            probability: 0.5,
        };
        assert!(with(|trust| trust.weight = 0.0).is_ok());
        let mut rising = Trust {
            curve: vec![knot(0.1), knot(0.2)],
            ..Trust::default()
        };
        assert_eq!(rising.clone().validated(), Ok(rising.clone()));
        rising.curve.push(knot(0.2));
        assert_eq!(rising.validated(), Err(InvalidTrust::Order));
        for (refused, reason) in [
            (with(|trust| trust.weight = f32::NAN), "NaN is no weight"),
            (with(|trust| trust.omission = 1.5), "1.5 is no probability"),
            (
                with(|trust| {
                    trust.curve = vec![
                        Knot {
                            confidence: 0.5,
                            probability: 0.5
                        };
                        65
                    ]
                }),
                "65 points",
            ),
        ] {
            let refused = refused.unwrap_err();
            assert!(refused.starts_with(reason), "{refused}");
        }
    }
}
