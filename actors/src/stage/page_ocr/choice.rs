//! Which of two engines has read a line.

use super::lines::{Bounds, ReadLine, area, is_tibetan, shared};

/// Confidence below which the engine for print may have met a script that it does not know.
const UNSURE: f32 = 0.8;
/// Share of the area of a page's lines that may be unsure without a look by the other engine: specks and drawings.
const UNSURE_SHARE: f32 = 0.05;
/// Least confidence of a line of Tibetan, which is taken where the engine for print sees nothing.
const LEAST: f32 = 0.5;
/// Least share of Tibetan letters of such a line.
const LETTERS: f32 = 0.5;
/// Share of a line that another one covers where both are readings of the same writing.
const COVERED: f32 = 0.5;

/// Decides whether a page that was read as print is worth a look by the engine for Tibetan.
pub(super) fn may_be_tibetan(print: &[ReadLine], layer_is_tibetan: bool) -> bool {
    if layer_is_tibetan || print.is_empty() {
        return true;
    }
    let sum = |unsure: bool| -> f32 {
        let lines = print.iter().filter(|line| !unsure || line.confidence < UNSURE);
        lines.map(|line| area(line.bounds)).sum()
    };
    sum(true) > UNSURE_SHARE * sum(false)
}

/// The lines of a page of which each engine gave its reading: where both have read the same writing, the reading of the surer one. Lines
/// of Tibetan stand at the place of the first line that they replace, and those that replace none between the lines above and below.
pub(super) fn surer(print: Vec<ReadLine>, tibetan: Vec<ReadLine>) -> Vec<ReadLine> {
    let mut print: Vec<Option<ReadLine>> = print.into_iter().map(Some).collect();
    // Behind which line of print each line of Tibetan stands.
    let mut behind: Vec<(usize, ReadLine)> = Vec::new();
    for line in tibetan {
        if line.confidence < LEAST || letters(&line) < LETTERS {
            continue;
        }
        let same: Vec<usize> = (0..print.len())
            .filter(|place| {
                let other = print[*place].as_ref();
                other.is_some_and(|other| are_same(other.bounds, line.bounds))
            })
            .collect();
        let rivals: Vec<&ReadLine> = same.iter().filter_map(|place| print[*place].as_ref()).collect();
        if mean_confidence(&rivals) >= line.confidence {
            continue;
        }
        let place = same
            .first()
            .copied()
            .unwrap_or_else(|| below(&print, line.bounds));
        for place in same {
            print[place] = None;
        }
        behind.push((place, line));
    }
    let mut lines = Vec::with_capacity(print.len() + behind.len());
    // The order of lines at the same place stays that of the engine.
    behind.sort_by_key(|(place, _)| *place);
    let mut behind = behind.into_iter().peekable();
    for (place, line) in print.into_iter().enumerate() {
        while let Some((_, tibetan)) = behind.next_if(|(at, _)| *at <= place) {
            lines.push(tibetan);
        }
        lines.extend(line);
    }
    lines.extend(behind.map(|(_, tibetan)| tibetan));
    lines
}

/// True for boxes of which one covers most of the other.
fn are_same(one: Bounds, other: Bounds) -> bool {
    let least = area(one).min(area(other));
    least > 0.0 && shared(one, other) > COVERED * least
}

fn mean_confidence(lines: &[&ReadLine]) -> f32 {
    let (mut sum, mut weights) = (0.0, 0.0);
    for line in lines {
        let weight = area(line.bounds);
        sum += weight * line.confidence;
        weights += weight;
    }
    if weights > 0.0 { sum / weights } else { 0.0 }
}

fn letters(line: &ReadLine) -> f32 {
    let letters = || line.words.iter().flat_map(|word| word.text.chars());
    let tibetan = letters().filter(|letter| is_tibetan(*letter)).count();
    tibetan as f32 / letters().count().max(1) as f32
}

/// Place of the first line that begins below the middle of a box.
fn below(print: &[Option<ReadLine>], bounds: Bounds) -> usize {
    let middle = (bounds[1] + bounds[3]) / 2.0;
    let is_below = |line: &Option<ReadLine>| line.as_ref().is_some_and(|line| line.bounds[1] > middle);
    print.iter().position(is_below).unwrap_or(print.len())
}

#[cfg(test)]
mod tests {
    use super::super::lines::{Engine, ReadWord};
    use super::*;

    fn line(engine: Engine, text: &str, row: u8, confidence: f32) -> ReadLine {
        let top = f32::from(row) * 10.0;
        let bounds = [0.0, top, 100.0, top + 8.0];
        ReadLine {
            words: vec![ReadWord {
                text: text.to_owned(),
                bounds,
                confidence,
            }],
            bounds,
            confidence,
            engine,
        }
    }

    fn print(text: &str, row: u8, confidence: f32) -> ReadLine {
        line(Engine::Print, text, row, confidence)
    }

    fn tibetan(text: &str, row: u8, confidence: f32) -> ReadLine {
        line(Engine::Tibetan, text, row, confidence)
    }

    fn texts(lines: Vec<ReadLine>) -> Vec<String> {
        let words = lines.into_iter().flat_map(|line| line.words);
        words.map(|word| word.text).collect()
    }

    #[test]
    fn a_page_that_is_read_surely_needs_no_second_look() {
        let sure = [print("Notes", 0, 0.99), print("to the accounts", 1, 0.97)];
        assert!(!may_be_tibetan(&sure, false));
        assert!(
            may_be_tibetan(&sure, true),
            "the page's own text has Tibetan letters"
        );
        assert!(may_be_tibetan(&[], false));
        let unsure = [print("Notes", 0, 0.99), print("q", 1, 0.3)];
        assert!(may_be_tibetan(&unsure, false));
    }

    #[test]
    fn of_two_readings_of_a_line_the_surer_one_stays() {
        let print = vec![
            print("Notes", 0, 0.99),
            print("qiw", 1, 0.4),
            print("to the accounts", 3, 0.97),
        ];
        let tibetan = vec![
            tibetan("ན་", 0, 0.8),
            tibetan("བཀྲ་ཤིས་", 1, 0.95),
            tibetan("བདེ་", 2, 0.9),
            tibetan("to the", 3, 0.98),
            tibetan("ལེགས།", 4, 0.3),
        ];
        assert_eq!(
            texts(surer(print, tibetan)),
            ["Notes", "བཀྲ་ཤིས་", "བདེ་", "to the accounts"]
        );
    }

    #[test]
    fn a_page_of_one_script_keeps_the_order_of_its_engine() {
        let lines = vec![tibetan("ཁ་", 5, 0.9), tibetan("ཀ་", 1, 0.9)];
        assert_eq!(texts(surer(Vec::new(), lines)), ["ཁ་", "ཀ་"]);
    }
}
