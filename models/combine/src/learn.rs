//! Trust that is learnt from pages of which the text is known.

use parkhang_algorithms::Trust;

use crate::curve::curve;
use crate::network::Network;
use crate::reading::Reading;
use crate::skeleton::Skeleton;

/// Weight that any reading has.
const MIN_WEIGHT: f32 = 0.1;
/// Knots of a curve at most.
const KNOTS: usize = 12;

/// Page of which the text is known.
#[derive(Debug, Clone)]
pub struct Lesson {
    /// Readings of the page, in the same order for all pages.
    pub readings: Vec<Reading>,
    /// Its text, a line for each line of the page.
    pub truth: String,
}

/// What is known of a reading.
#[derive(Debug, Clone, Default)]
struct Record {
    /// Confidence of each syllable, and whether it was right.
    outcomes: Vec<(f32, bool)>,
    /// Right and wrong syllables.
    syllables: [usize; 2],
    /// Right and wrong omissions.
    omissions: [usize; 2],
}

/// Learns how far each reading is to be trusted. Pages whose text is another's than what was read teach nothing.
pub fn learn(lessons: &[Lesson]) -> Vec<Trust> {
    let readings = lessons
        .iter()
        .map(|lesson| lesson.readings.len())
        .max()
        .unwrap_or(0);
    let mut records = vec![Record::default(); readings];
    for lesson in lessons {
        let truth = lesson.readings.len();
        let mut readings = lesson.readings.clone();
        readings.push(Reading::of_text(&lesson.truth));
        let skeleton = Skeleton::new(&readings);
        if skeleton.left_out.contains(&truth) {
            continue;
        }
        for line in &skeleton.lines {
            // A line that the truth does not have is none of the page.
            if line.readings[truth].is_none() {
                continue;
            }
            let network = Network::new(line.readings.iter().map(Option::as_deref));
            for (reading, record) in records.iter_mut().enumerate().take(truth) {
                if network.present[reading] {
                    record.add(&network, reading, truth);
                }
            }
        }
    }
    records.into_iter().map(Record::trust).collect()
}

impl Record {
    fn add(&mut self, network: &Network, reading: usize, truth: usize) {
        for slot in &network.slots {
            let right = slot.votes[truth].as_ref().map(|syllable| syllable.letters());
            match &slot.votes[reading] {
                Some(syllable) => {
                    let is_right = right == Some(syllable.letters());
                    self.syllables[usize::from(!is_right)] += 1;
                    self.outcomes
                        .extend(syllable.confidence.map(|confidence| (confidence, is_right)));
                }
                None => self.omissions[usize::from(right.is_some())] += 1,
            }
        }
    }

    fn trust(self) -> Trust {
        // As if one more had been right and one wrong.
        let share = |[right, wrong]: [usize; 2]| (right + 1) as f32 / (right + wrong + 2) as f32;
        if self.syllables == [0, 0] {
            return Trust::default();
        }
        let right = share(self.syllables);
        Trust {
            // The logarithm of the odds that it is right, by which independent voters are to be weighed (Nitzan and Paroush, "Optimal decision
            // rules in uncertain dichotomous choice situations", 1982); one that is mostly wrong is not taken for its opposite.
            weight: (right / (1.0 - right)).ln().max(MIN_WEIGHT),
            curve: curve(self.outcomes, KNOTS),
            unsaid: right,
            omission: share(self.omissions),
        }
    }
}

#[cfg(test)]
mod tests {
    use parkhang_algorithms::Combination;

    use super::*;
    use crate::decide::{Combined, combine};

    /// Readings of which two err together and say so, and one is right and unsure.
    fn lessons() -> Vec<Lesson> {
        let line = |text: &str, confidence: f32| {
            let mut reading = Reading::of_text(text);
            for syllable in &mut reading.lines[0].syllables {
                syllable.confidence = Some(confidence);
            }
            reading
        };
        let page = |number: usize| {
            let name = ["ཀ་", "ཁ་", "ག་", "ང་"][number % 4];
            let truth = format!("བདེ་བར་{name}གཤེགས་པ་དང་།");
            let wrong = truth.replace("བདེ", "བད").replace("གཤེགས", "གཤགས");
            Lesson {
                readings: vec![line(&wrong, 0.9), line(&wrong, 0.9), line(&truth, 0.5)],
                truth,
            }
        };
        (0..40).map(page).collect()
    }

    #[test]
    fn who_was_right_is_believed_whatever_it_says_of_itself() {
        let lessons = lessons();
        let trusts = learn(&lessons);
        assert!(trusts[2].of(Some(0.5)) > 0.98, "{:?}", trusts[2]);
        assert!((0.6..0.7).contains(&trusts[0].of(Some(0.9))), "{:?}", trusts[0]);
        let text = |trusts: &[Trust]| {
            let combined = combine(&Skeleton::new(&lessons[0].readings), trusts, Combination::Vote);
            combined.iter().map(Combined::text).collect::<String>()
        };
        assert_ne!(text(&[]), lessons[0].truth);
        assert_eq!(text(&trusts), lessons[0].truth);
        let kept = serde_json::to_string(&trusts).unwrap();
        assert_eq!(serde_json::from_str::<Vec<Trust>>(&kept).unwrap(), trusts);
    }

    #[test]
    fn pages_of_another_text_teach_nothing() {
        let mut lessons = lessons();
        let expected = learn(&lessons);
        lessons.push(Lesson {
            truth: "quite another page".to_owned(),
            ..lessons[0].clone()
        });
        assert_eq!(learn(&lessons), expected);
        assert_eq!(learn(&[]), []);
    }
}
