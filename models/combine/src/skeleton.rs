//! Lines of a page, and what each reading has on them.

use parkhang_answers::align::align;

use crate::reading::{Bounds, Line, Reading};
use crate::syllables::{Syllable, syllables};

/// Share of the lower of two lines that both must cover to be in one row.
const SAME_ROW: f32 = 0.5;
/// Share of the narrower one of them that both must cover to be in one place.
const SAME_PLACE: f32 = 0.1;

/// Line of a reading.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Place {
    pub reading: usize,
    pub line: usize,
}

/// Line of the page.
#[derive(Debug, Clone, PartialEq)]
pub struct SkeletonLine {
    /// The line that it was taken from.
    pub place: Place,
    /// By the number of the reading; `None` for one that does not have the line.
    pub readings: Vec<Option<Vec<Syllable>>>,
    /// Plausibility of each reading, where exactly one of its lines stands here.
    pub plausibilities: Vec<Option<f32>>,
}

/// Lines of a page. They are those of the first reading that has places, or of the first one with text, and lines of other readings
/// where none of them stands.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Skeleton {
    /// In reading order.
    pub lines: Vec<SkeletonLine>,
    /// Readings whose text is that of another page or too long to be aligned; they have no say.
    pub left_out: Vec<usize>,
}

/// Lines of a reading that stand where lines of the skeleton do: each in one place only.
#[derive(Debug, Default)]
struct Group {
    skeleton: Vec<usize>,
    lines: Vec<usize>,
}

impl Skeleton {
    /// Finds the lines of a page; readings that come first are preferred.
    pub fn new(readings: &[Reading]) -> Self {
        let has_places = |reading: &&Reading| reading.lines.iter().any(|line| line.bounds.is_some());
        let base = readings
            .iter()
            .position(|reading| has_places(&reading))
            .or_else(|| readings.iter().position(|reading| !reading.lines.is_empty()));
        let mut skeleton = Self::default();
        let Some(base) = base else {
            return skeleton;
        };
        for line in 0..readings[base].lines.len() {
            let line = skeleton.line(readings, Place { reading: base, line });
            skeleton.lines.push(line);
        }
        let (placed, unplaced): (Vec<usize>, Vec<usize>) = (0..readings.len())
            .filter(|reading| *reading != base)
            .partition(|reading| has_places(&&readings[*reading]));
        for reading in placed {
            skeleton.add_placed(readings, reading);
        }
        // Last, as they have to know of all lines.
        for reading in unplaced {
            let all = Group {
                skeleton: (0..skeleton.lines.len()).collect(),
                lines: (0..readings[reading].lines.len()).collect(),
            };
            skeleton.divide(readings, reading, &all);
        }
        skeleton.left_out.sort_unstable();
        skeleton.left_out.dedup();
        skeleton
    }

    fn line(&self, readings: &[Reading], place: Place) -> SkeletonLine {
        let mut line = SkeletonLine {
            place,
            readings: vec![None; readings.len()],
            plausibilities: vec![None; readings.len()],
        };
        let own = &readings[place.reading].lines[place.line];
        line.readings[place.reading] = said(own.syllables.clone());
        line.plausibilities[place.reading] = own.plausibility;
        line
    }

    /// Adds a reading with places: by these, and by the letters where lines are merged or split.
    fn add_placed(&mut self, readings: &[Reading], number: usize) {
        let lines = &readings[number].lines;
        let mut new = Vec::new();
        // Line of the skeleton after which a new one comes.
        let mut after = None;
        let groups = self.groups(readings, lines);
        for line in 0..lines.len() {
            let group = groups.iter().find(|group| group.lines.contains(&line));
            match group.and_then(|group| group.skeleton.iter().max()) {
                Some(last) => after = after.max(Some(*last)),
                None => new.push((after, line)),
            }
        }
        for group in &groups {
            match group.skeleton[..] {
                [] => {}
                [one] => self.join(lines, number, one, &group.lines),
                _ => self.divide(readings, number, group),
            }
        }
        for (after, line) in new.into_iter().rev() {
            let place = Place {
                reading: number,
                line,
            };
            let line = self.line(readings, place);
            self.lines.insert(after.map_or(0, |after| after + 1), line);
        }
    }

    /// Gives a line of the skeleton the lines of a reading that stand there.
    fn join(&mut self, lines: &[Line], number: usize, target: usize, these: &[usize]) {
        let mut joined: Vec<Syllable> = Vec::new();
        for line in these.iter().map(|line| &lines[*line]) {
            joined.extend(line.syllables.iter().cloned());
        }
        let target = &mut self.lines[target];
        target.readings[number] = said(joined);
        if let [one] = these {
            target.plausibilities[number] = lines[*one].plausibility;
        }
    }

    /// Divides lines of a reading among several of the skeleton by their letters.
    fn divide(&mut self, readings: &[Reading], number: usize, group: &Group) {
        let lines: Vec<&Line> = group
            .lines
            .iter()
            .map(|line| &readings[number].lines[*line])
            .collect();
        let known: Vec<String> = group.skeleton.iter().map(|line| self.text(*line)).collect();
        let text: Vec<String> = lines.iter().map(|line| line.text()).collect();
        match align(&text.join("\n"), &known) {
            Ok(alignment) if !alignment.is_poor() => {
                let parts: Vec<&str> = alignment.lines.iter().map(|line| line.text.as_str()).collect();
                let divided = with_confidences(&parts, lines.iter().flat_map(|line| &line.syllables));
                for (line, syllables) in group.skeleton.iter().zip(divided) {
                    self.lines[*line].readings[number] = said(syllables);
                }
            }
            _ => self.left_out.push(number),
        }
    }

    /// Text of a line by the reading that it was taken from.
    fn text(&self, line: usize) -> String {
        let line = &self.lines[line];
        let syllables = line.readings[line.place.reading].iter().flatten();
        syllables.map(|syllable| syllable.text.as_str()).collect()
    }

    /// Lines of a reading with the lines of the skeleton that stand in the same place.
    fn groups(&self, readings: &[Reading], lines: &[Line]) -> Vec<Group> {
        let mut groups: Vec<Group> = Vec::new();
        for (number, line) in lines.iter().enumerate() {
            let same = self.lines.iter().enumerate().filter(|(_, known)| {
                let known = readings[known.place.reading].lines[known.place.line].bounds;
                line.bounds
                    .zip(known)
                    .is_some_and(|(one, other)| is_same_place(one, other))
            });
            let mut group = Group {
                skeleton: same.map(|(number, _)| number).collect(),
                lines: vec![number],
            };
            // A line in the place of two joins their groups.
            for other in std::mem::take(&mut groups) {
                if other.skeleton.iter().any(|line| group.skeleton.contains(line)) {
                    group.skeleton.extend(other.skeleton);
                    group.lines.extend(other.lines);
                } else {
                    groups.push(other);
                }
            }
            group.skeleton.sort_unstable();
            group.skeleton.dedup();
            group.lines.sort_unstable();
            groups.push(group);
        }
        groups
    }
}

/// A reading that says something.
fn said(syllables: Vec<Syllable>) -> Option<Vec<Syllable>> {
    let is_blank = syllables.iter().all(|syllable| syllable.text.trim().is_empty());
    (!is_blank).then_some(syllables)
}

fn is_same_place(one: Bounds, other: Bounds) -> bool {
    let shares = |(start, end): (f32, f32), (from, to): (f32, f32), share: f32| {
        let smaller = (end - start).min(to - from);
        smaller > 0.0 && end.min(to) - start.max(from) >= share * smaller
    };
    shares((one.top, one.bottom), (other.top, other.bottom), SAME_ROW)
        && shares((one.left, one.right), (other.left, other.right), SAME_PLACE)
}

/// Syllables of the parts that a text was divided into, each with the least confidence of the syllables of the text that its letters come from.
fn with_confidences<'a>(parts: &[&str], whole: impl Iterator<Item = &'a Syllable>) -> Vec<Vec<Syllable>> {
    let letters = |text: &str| text.chars().filter(|c| !c.is_whitespace()).count();
    let mut confidences =
        whole.flat_map(|syllable| std::iter::repeat_n(syllable.confidence, letters(&syllable.text)));
    let mut with_confidence = |mut syllable: Syllable| {
        let own = confidences.by_ref().take(letters(&syllable.text)).flatten();
        syllable.confidence = own.reduce(f32::min);
        syllable
    };
    let parts = parts.iter();
    parts
        .map(|part| syllables(part).into_iter().map(&mut with_confidence).collect())
        .collect()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn line(text: &str, bounds: Option<[f32; 4]>) -> Line {
        Line {
            syllables: syllables(text),
            bounds: bounds.map(|[left, top, right, bottom]| Bounds {
                left,
                top,
                right,
                bottom,
            }),
            plausibility: None,
        }
    }

    fn reading(lines: &[(&str, [f32; 4])]) -> Reading {
        let lines = lines.iter().map(|(text, bounds)| line(text, Some(*bounds)));
        Reading {
            lines: lines.collect(),
        }
    }

    /// What each reading has on each line.
    fn texts(readings: &[Reading]) -> Vec<Vec<Option<String>>> {
        let skeleton = Skeleton::new(readings);
        let text = |syllables: &Vec<Syllable>| syllables.iter().map(|s| s.text.as_str()).collect::<String>();
        let line = |line: &SkeletonLine| {
            line.readings
                .iter()
                .map(|reading| reading.as_ref().map(text))
                .collect()
        };
        skeleton.lines.iter().map(line).collect()
    }

    fn row(readings: &[&str]) -> Vec<Option<String>> {
        let text = |text: &&str| (!text.is_empty()).then(|| (*text).to_owned());
        readings.iter().map(text).collect()
    }

    const TOP: [f32; 4] = [0.0, 0.0, 900.0, 40.0];
    const MIDDLE: [f32; 4] = [0.0, 50.0, 900.0, 90.0];
    const LOW: [f32; 4] = [0.0, 100.0, 900.0, 140.0];

    #[test]
    fn lines_of_other_crops_and_another_order_are_matched_by_their_places() {
        let one = reading(&[("ཀ་ཀ་ཀ།", TOP), ("ཁ་ཁ་ཁ།", MIDDLE)]);
        let other = reading(&[
            ("ཁ་ཁ།", [20.0, 45.0, 890.0, 100.0]),
            ("ཀ་ཀ།", [10.0, -5.0, 910.0, 44.0]),
        ]);
        assert_eq!(
            texts(&[one, other]),
            [row(&["ཀ་ཀ་ཀ།", "ཀ་ཀ།"]), row(&["ཁ་ཁ་ཁ།", "ཁ་ཁ།"])]
        );
    }

    #[test]
    fn split_lines_are_joined_and_merged_ones_divided() {
        let whole = reading(&[("ཀ་ཁ་ག་ང་།", TOP), ("ཅ་ཆ་ཇ་ཉ་།", MIDDLE)]);
        let split = reading(&[
            ("ཀ་ཁ་", [0.0, 0.0, 400.0, 40.0]),
            ("ག་ང་།", [420.0, 0.0, 900.0, 40.0]),
            ("ཅ་ཆ་ཇ་ཉ་།", MIDDLE),
        ]);
        assert_eq!(
            texts(&[whole.clone(), split])[0],
            row(&["ཀ་ཁ་ག་ང་།", "ཀ་ཁ་ག་ང་།"])
        );
        let merged = reading(&[("ཀ་ཁ་ག་ང་།ཅ་ཆ་ཇ་ཉ་།", [0.0, 0.0, 900.0, 90.0])]);
        assert_eq!(
            texts(&[whole, merged]),
            [row(&["ཀ་ཁ་ག་ང་།", "ཀ་ཁ་ག་ང་།"]), row(&["ཅ་ཆ་ཇ་ཉ་།", "ཅ་ཆ་ཇ་ཉ་།"])]
        );
    }

    #[test]
    fn a_line_that_the_first_reading_missed_is_put_where_it_stands() {
        let first = reading(&[("ཀ་", TOP), ("ག་", LOW)]);
        let second = reading(&[("ཀ་", TOP), ("ཁ་", MIDDLE), ("ག་", LOW)]);
        assert_eq!(
            texts(&[first.clone(), second.clone()]),
            [row(&["ཀ་", "ཀ་"]), row(&["", "ཁ་"]), row(&["ག་", "ག་"])]
        );
        assert_eq!(texts(&[second, first])[1], row(&["ཁ་", ""]));
    }

    #[test]
    fn a_text_without_places_is_divided_among_the_lines() {
        let placed = reading(&[("བདེ་བར་གཤེགས་", TOP), ("པ་དང་བྱང་ཆུབ།", MIDDLE)]);
        let text = Reading::of_text("བདེ་བར་གཤེགས་པ་དང་བྱང་ཆུབ།");
        let other = Reading::of_text("an altogether other page");
        let readings = [text, placed, other];
        assert_eq!(
            texts(&readings),
            [
                row(&["བདེ་བར་གཤེགས་", "བདེ་བར་གཤེགས་", ""]),
                row(&["པ་དང་བྱང་ཆུབ།", "པ་དང་བྱང་ཆུབ།", ""])
            ]
        );
        let skeleton = Skeleton::new(&readings);
        assert_eq!(skeleton.left_out, [2]);
        assert_eq!(skeleton.lines[0].place, Place { reading: 1, line: 0 });
        assert_eq!(Skeleton::new(&[]), Skeleton::default());
    }

    #[test]
    fn confidences_go_with_their_letters() {
        let mut whole = syllables("ཀ་ཁག་ང");
        for (syllable, confidence) in whole.iter_mut().zip([Some(0.9), Some(0.4), None]) {
            syllable.confidence = confidence;
        }
        let parts = with_confidences(&["ཀ་ཁ", "ག་ང"], whole.iter());
        let confidences = |part: &[Syllable]| part.iter().map(|s| s.confidence).collect::<Vec<_>>();
        assert_eq!(confidences(&parts[0]), [Some(0.9), Some(0.4)]);
        assert_eq!(confidences(&parts[1]), [Some(0.4), None]);
    }

    fn any_reading() -> impl Strategy<Value = Reading> {
        let bounds = (0.0..100.0_f32, 0.0..100.0_f32, -5.0..100.0_f32, -5.0..50.0_f32)
            .prop_map(|(left, top, width, height)| [left, top, left + width, top + height]);
        let any_line =
            ("[ཀཁག་། ]{0,12}", prop::option::of(bounds)).prop_map(|(text, bounds)| line(&text, bounds));
        prop::collection::vec(any_line, 0..5).prop_map(|lines| Reading { lines })
    }

    proptest! {
        #[test]
        fn letters_of_a_reading_are_given_once_or_not_at_all(readings in prop::collection::vec(any_reading(), 0..4)) {
            let skeleton = Skeleton::new(&readings);
            let letters = |text: &str| {
                let mut letters: Vec<char> = text.chars().filter(|c| !c.is_whitespace()).collect();
                letters.sort_unstable();
                letters
            };
            for (number, reading) in readings.iter().enumerate() {
                let given: String = skeleton
                    .lines
                    .iter()
                    .flat_map(|line| line.readings[number].iter().flatten())
                    .map(|syllable| syllable.text.as_str())
                    .collect();
                let whole: String = reading.lines.iter().map(Line::text).collect();
                if !skeleton.left_out.contains(&number) {
                    prop_assert_eq!(letters(&given), letters(&whole));
                }
            }
        }
    }
}
