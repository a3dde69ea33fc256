//! Alignment of the readings of a line, syllable by syllable.

use parkhang_answers::align::likeness;

use crate::syllables::Syllable;

/// Cost of a syllable that stands against nothing. One for another costs up to 1, so two that are wholly unlike are still taken for
/// readings of the same place rather than for an omission and an addition.
const GAP: f32 = 0.6;
/// Syllables of a line at most that are aligned; what comes after them is left out of the network.
const MOST: usize = 2000;

/// Place of a line where one syllable stands, or none: what each reading has there.
#[derive(Debug, Clone, PartialEq)]
pub struct Slot {
    /// By the number of the reading; `None` for one that has nothing there.
    pub votes: Vec<Option<Syllable>>,
}

impl Slot {
    /// Cost of a syllable here: 0 where somebody has the same letters.
    fn cost(&self, syllable: &Syllable) -> f32 {
        let votes = self.votes.iter().flatten();
        let likenesses = votes.map(|vote| match vote.letters() == syllable.letters() {
            true => 1.0,
            false => likeness(vote.letters(), syllable.letters()),
        });
        1.0 - likenesses.fold(0.0, f32::max)
    }
}

/// Readings of a line, aligned.
#[derive(Debug, Clone, PartialEq)]
pub struct Network {
    pub slots: Vec<Slot>,
    /// True for the readings that have the line at all; the others have no say in it.
    pub present: Vec<bool>,
}

/// Step to a cell of the table.
#[derive(Debug, Clone, Copy)]
enum Step {
    Both,
    /// A slot that the reading passes over.
    Slot,
    /// A syllable that no slot is for.
    Syllable,
}

impl Network {
    /// Aligns the readings of a line one after the other with those before; `None` for a reading that does not have it.
    pub fn new<'a>(readings: impl IntoIterator<Item = Option<&'a [Syllable]>>) -> Self {
        let mut network = Self {
            slots: Vec::new(),
            present: Vec::new(),
        };
        for reading in readings {
            network.add(reading);
        }
        network
    }

    fn add(&mut self, reading: Option<&[Syllable]>) {
        let readings = self.present.len();
        self.present.push(reading.is_some());
        let syllables = reading.unwrap_or_default();
        let syllables = &syllables[..syllables.len().min(MOST)];
        let steps = self.steps(syllables);
        let width = syllables.len() + 1;
        let (mut row, mut column) = (self.slots.len(), syllables.len());
        let mut slots = Vec::with_capacity(row.max(column));
        let mut rest = std::mem::take(&mut self.slots);
        while row > 0 || column > 0 {
            let step = steps[row * width + column];
            let slot = match step {
                Step::Both | Step::Slot => rest.pop(),
                Step::Syllable => None,
            };
            let mut slot = slot.unwrap_or_else(|| Slot {
                votes: vec![None; readings],
            });
            slot.votes.push(match step {
                Step::Both | Step::Syllable => column.checked_sub(1).map(|last| syllables[last].clone()),
                Step::Slot => None,
            });
            slots.push(slot);
            row -= usize::from(!matches!(step, Step::Syllable));
            column -= usize::from(!matches!(step, Step::Slot));
        }
        slots.reverse();
        self.slots = slots;
    }

    /// Table of the last steps of the cheapest ways, row by row; a row for each slot.
    fn steps(&self, syllables: &[Syllable]) -> Vec<Step> {
        let width = syllables.len() + 1;
        let mut steps = vec![Step::Syllable; width * (self.slots.len() + 1)];
        let mut above: Vec<f32> = (0..width).map(|column| column as f32 * GAP).collect();
        let mut current = vec![0.0; width];
        for (index, slot) in self.slots.iter().enumerate() {
            let row = (index + 1) * width;
            steps[row] = Step::Slot;
            current[0] = above[0] + GAP;
            for (place, syllable) in syllables.iter().enumerate() {
                let column = place + 1;
                let both = above[place] + slot.cost(syllable);
                let (less, more) = (above[column] + GAP, current[place] + GAP);
                let least = both.min(less).min(more);
                current[column] = least;
                steps[row + column] = match least {
                    _ if least == both => Step::Both,
                    _ if least == less => Step::Slot,
                    _ => Step::Syllable,
                };
            }
            std::mem::swap(&mut above, &mut current);
        }
        steps
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::syllables::syllables;

    fn network(lines: &[Option<&str>]) -> Network {
        let readings: Vec<Option<Vec<Syllable>>> = lines.iter().map(|line| line.map(syllables)).collect();
        Network::new(readings.iter().map(|reading| reading.as_deref()))
    }

    fn votes(network: &Network) -> Vec<Vec<&str>> {
        network
            .slots
            .iter()
            .map(|slot| {
                let votes = slot.votes.iter();
                votes
                    .map(|vote| vote.as_ref().map_or("", Syllable::letters))
                    .collect()
            })
            .collect()
    }

    #[test]
    fn syllables_stand_beside_those_that_are_like_them() {
        let found = network(&[Some("བདེ་བར་གཤེགས་པ།"), Some("བད་བར་པ།"), Some("བདེ་བར་གཤགས་པ་དང་།")]);
        assert_eq!(
            votes(&found),
            [
                ["བདེ", "བད", "བདེ"],
                ["བར", "བར", "བར"],
                ["གཤེགས", "", "གཤགས"],
                ["པ", "པ", "པ"],
                ["", "", "དང"]
            ]
        );
    }

    #[test]
    fn a_reading_without_the_line_is_not_one_that_left_all_of_it_out() {
        let found = network(&[Some("ཀ་ཁ"), None, Some("")]);
        assert_eq!(found.present, [true, false, true]);
        assert_eq!(votes(&found), [["ཀ", "", ""], ["ཁ", "", ""]]);
        assert_eq!(network(&[None]).slots, []);
    }

    proptest! {
        #[test]
        fn each_reading_is_there_as_it_was(lines in prop::collection::vec(prop::option::of("[ཀཁག་ །]{0,16}"), 0..5)) {
            let lines: Vec<Option<&str>> = lines.iter().map(|line| line.as_deref()).collect();
            let network = network(&lines);
            for (reading, line) in lines.iter().enumerate() {
                let votes = network.slots.iter().filter_map(|slot| slot.votes[reading].as_ref());
                let text: String = votes.map(|vote| vote.text.as_str()).collect();
                prop_assert_eq!(text, line.unwrap_or_default());
                prop_assert_eq!(network.present[reading], line.is_some());
            }
            prop_assert!(network.slots.iter().all(|slot| slot.votes.iter().any(Option::is_some)));
        }
    }
}
