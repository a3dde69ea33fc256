//! A look at the picture of a page whose own text seems good: a few lines of the text are compared with what the engine for print reads
//! where they are said to stand. Text of another page, or of none, is plausible by itself and is found out by nothing else.
//!
//! Lines in scripts that the engine does not know, Tibetan among them, are not compared.

use parkhang_pdf::Rect;
use parkhang_words::{Quad, read_lines};
use rapidfuzz::distance::levenshtein;
use unicode_normalization::UnicodeNormalization;

use super::super::page_stage::VolumeRun;
use super::PageOcr;
use super::lines::Bounds;
use super::read::Picture;
use parkhang_core::domain::StageError;
use parkhang_store::artifact::{LayerWord, PageTextRow};

/// Lines of a page that are compared.
const LINES: usize = 3;
/// Lines among them that must be contradicted.
const CONTRADICTED: usize = 2;
/// Fewest letters and digits of a line that is compared.
const LETTERS: usize = 8;
/// Share of them that the engine must know.
const KNOWN: f32 = 0.9;
/// Confidence below which a reading says nothing.
const SURE: f32 = 0.8;
/// Character error rate between text and reading above which they contradict each other.
const OTHER_TEXT: f64 = 0.4;

/// Line of a page's own text.
#[derive(Debug, Clone, PartialEq)]
struct LayerLine {
    /// Letters and digits, folded.
    letters: Vec<char>,
    /// In points of the displayed page.
    bounds: Bounds,
}

impl PageOcr {
    /// Returns whether the picture of a page contradicts the text that its file holds.
    ///
    /// # Errors
    ///
    /// When a network gives no answer.
    pub(super) async fn contradicts(
        &self,
        run: &VolumeRun,
        row: &PageTextRow,
        picture: &Picture,
    ) -> Result<bool, StageError> {
        let lines = chosen(&row.words, |letter| self.print.charset.knows(letter));
        if lines.len() < CONTRADICTED {
            return Ok(false);
        }
        let map = picture.map;
        let boxes: Vec<Quad> = lines
            .iter()
            .map(|line| {
                let [x0, y0, x1, y1] = line.bounds;
                let points = Rect { x0, y0, x1, y1 };
                let place = map.map_or(points, |map| map.rect_to_pixels(points));
                Quad::upright(place.x0, place.y0, place.x1, place.y1)
            })
            .collect();
        let ask = move |page: &_, networks: &_| read_lines(page, &boxes, networks);
        let readings = self.ask_print(run, picture.page.clone(), ask).await?;
        let texts = readings.iter().map(|reading| {
            let reading = reading.as_ref()?;
            Some((reading.text.as_str(), reading.confidence))
        });
        Ok(are_contradicted(&lines, texts))
    }
}

/// The lines that are compared: of the upper, the middle and the lower third of those that can be, the longest.
fn chosen(words: &[LayerWord], is_known: impl Fn(char) -> bool) -> Vec<LayerLine> {
    let lines = words.chunk_by(|one, next| one.line == next.line);
    let lines: Vec<LayerLine> = lines
        .map(|words| LayerLine {
            letters: words.iter().flat_map(|word| letters(&word.text)).collect(),
            bounds: words.iter().map(|word| word.bounds).fold(NOWHERE, around),
        })
        .filter(|line| {
            let known = line.letters.iter().filter(|letter| is_known(**letter)).count();
            line.letters.len() >= LETTERS && known as f32 >= KNOWN * line.letters.len() as f32
        })
        .collect();
    let third = lines.len().div_ceil(LINES).max(1);
    let longest = |lines: &[LayerLine]| {
        // The first one wins where several are equally long.
        let longest = lines.iter().rev().max_by_key(|line| line.letters.len());
        longest.cloned()
    };
    lines.chunks(third).filter_map(longest).collect()
}

/// Decides by the readings of lines, each with its confidence, whether they say something else than the lines.
fn are_contradicted<'r>(lines: &[LayerLine], readings: impl Iterator<Item = Option<(&'r str, f32)>>) -> bool {
    let contradicted = lines.iter().zip(readings).filter(|(line, reading)| {
        let Some((text, confidence)) = reading else {
            return false;
        };
        let read: Vec<char> = letters(text).collect();
        let wrong = levenshtein::distance(line.letters.iter(), read.iter()) as f64;
        let length = line.letters.len().max(read.len()) as f64;
        *confidence >= SURE && wrong > OTHER_TEXT * length
    });
    contradicted.count() >= CONTRADICTED
}

/// Letters and digits of a text, those that look alike or stand for each other folded into one. Signs are left out: leaders and rules are
/// of any length.
fn letters(text: &str) -> impl Iterator<Item = char> {
    let folded = text.nfkc().flat_map(char::to_lowercase);
    folded.filter(|letter| letter.is_alphanumeric())
}

const NOWHERE: Bounds = [f32::INFINITY, f32::INFINITY, f32::NEG_INFINITY, f32::NEG_INFINITY];

/// Box around two boxes.
fn around(one: Bounds, other: Bounds) -> Bounds {
    [
        one[0].min(other[0]),
        one[1].min(other[1]),
        one[2].max(other[2]),
        one[3].max(other[3]),
    ]
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// A text layer of these lines, each of words of a tenth of the page's width.
    fn layer(lines: &[&str]) -> Vec<LayerWord> {
        let words = lines.iter().zip(0_u8..).flat_map(|(line, number)| {
            line.split(' ').zip(0_u8..).map(move |(word, place)| {
                let (left, top) = (f32::from(place) * 10.0, f32::from(number) * 12.0);
                LayerWord {
                    text: word.to_owned(),
                    bounds: [left, top, left + 9.0, top + 10.0],
                    line: i32::from(number),
                }
            })
        });
        words.collect()
    }

    fn texts(lines: &[LayerLine]) -> Vec<String> {
        lines.iter().map(|line| line.letters.iter().collect()).collect()
    }

    fn contradicted(lines: &[&str], readings: &[(&str, f32)]) -> bool {
        let lines = chosen(&layer(lines), |_| true);
        are_contradicted(&lines, readings.iter().map(|reading| Some(*reading)))
    }

    #[test]
    fn the_longest_lines_of_each_third_are_compared() {
        let layer = layer(&[
            "Annual Report 2023",
            "of the company",
            "Page 3",
            "Income of the group",
            "Income and costs",
            "གང་གིས་རྟེན་ཅིང་འབྲེལ་བར་འབྱུང",
            "The auditors have",
            "agreed to all of this",
        ]);
        let lines = chosen(&layer, |letter| letter.is_ascii_alphanumeric());
        assert_eq!(
            texts(&lines),
            ["annualreport2023", "incomeofthegroup", "agreedtoallofthis"],
            "Tibetan is not known, and a number of a page is no line"
        );
        assert_eq!(lines[1].bounds, [0.0, 36.0, 39.0, 46.0]);
    }

    #[test]
    fn another_text_is_contradicted_and_an_imperfect_reading_is_not() {
        let lines = [
            "Notes to the accounts",
            "Auditors and directors",
            "Salaries of employees",
        ];
        let other = [
            ("The quick brown fox", 0.97),
            ("jumps over lazy dogs", 0.98),
            ("Salaries of employees", 0.99),
        ];
        assert!(contradicted(&lines, &other), "two of three say something else");
        let unsure = other.map(|(text, _)| (text, 0.7));
        assert!(!contradicted(&lines, &unsure));
        let one = [("Notes to the accounts", 0.9), other[1], other[2]];
        assert!(!contradicted(&lines, &one), "one of three");
        let imperfect = [
            ("NOTES TO THE ACCCUNTS ....", 0.9),
            ("Auditors and direct", 0.9),
            ("Salaries o employes", 0.9),
        ];
        assert!(!contradicted(&lines, &imperfect));
    }

    #[test]
    fn lines_where_nothing_is_read_say_nothing() {
        let lines = chosen(
            &layer(&["Notes to the accounts", "Auditors and directors"]),
            |_| true,
        );
        assert!(!are_contradicted(&lines, [None, None].into_iter()));
    }

    proptest! {
        #[test]
        fn a_page_read_as_its_text_says_is_never_contradicted(words in prop::collection::vec("[A-Za-z0-9一-十ﬁＡ.,]{1,9}", 1..60)) {
            let lines: Vec<String> = words.chunks(5).map(|words| words.join(" ")).collect();
            let layer = layer(&lines.iter().map(String::as_str).collect::<Vec<_>>());
            let lines = chosen(&layer, |_| true);
            let texts = texts(&lines);
            prop_assert!(lines.len() <= LINES);
            let readings = texts.iter().map(|text| Some((text.as_str(), 1.0)));
            prop_assert!(!are_contradicted(&lines, readings));
        }
    }
}
