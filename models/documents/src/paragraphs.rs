//! Paragraphs: lines that follow each other in a column and belong together.

use crate::block::{Block, Role};
use crate::geometry::{Bounds, around, common, median, middle, width};
use crate::layout::LayoutClass;
use crate::lines::TextLine;
use crate::markers::{Marker, ends_sentence, is_formula, marker};
use crate::roles::Neighbourhood;

/// Distance between the middles of lines that belong together, in heights of a line, where a page does not show its own.
const USUAL_PITCH: f32 = 1.2;
/// Distance beyond which lines are not taken for those of one paragraph when the page's own is looked for.
const WIDEST_PITCH: f32 = 2.2;
/// Share of the distances of a page that are alike where lines of paragraphs are: the least such distance is that within paragraphs, as
/// gaps between paragraphs are wider, and may be most of them.
const COMMON: f32 = 0.2;
/// Ratio up to which distances are alike.
const ALIKE_STEPS: f32 = 1.12;
/// Largest number of distances that are looked at for each line.
const MAX_STEPS: usize = 300;
/// Ratio of letter heights up to which the distances of lines compare.
const ALIKE: f32 = 1.15;
/// Ratio to the distance of the lines before from which a line stands apart.
const APART: f32 = 1.18;
/// Distance of the middles of parts of one row, in heights of their letters.
const SAME_ROW: f32 = 0.4;
/// Widest gap between a label and what is written beside it, in heights of the letters. Columns of text are no rows: they come one after
/// the other.
const ROW_GAP: f32 = 15.0;
/// Lines of a paragraph that the next one is compared with.
const LINES_BEFORE: usize = 12;
/// Distance up to which centred lines belong together, in heights of their letters.
const CENTRED: f32 = 1.8;
/// Ratio up to which a line stands as close as those before.
const NEAR: f32 = 1.06;
/// Ratio of letter heights from which lines are of different kinds, and for lines that stand as close as those of a paragraph: ink
/// shows fewer of the letters' parts in some lines.
const OTHER_SIZE: f32 = 1.25;
const OTHER_SIZE_NEAR: f32 = 1.6;
/// Share of the narrower line's width that lines of a column have in common.
const IN_COLUMN: f32 = 0.4;
/// Indentation of a first line, in heights of it.
const INDENT: f32 = 0.7;
/// Share of the width of a paragraph that a line lacks at its end from which it is the last one, if it ends a sentence.
const SHORT: f32 = 0.25;

/// The paragraphs of lines in reading order.
pub(crate) fn paragraphs(lines: Vec<TextLine>, pitch: &Pitch, page: &Neighbourhood<'_>) -> Vec<Block> {
    let mut blocks = Vec::new();
    let mut open: Vec<TextLine> = Vec::new();
    for line in lines {
        if !open.is_empty() && !belongs(&open, &line, pitch, page) {
            blocks.extend(block(std::mem::take(&mut open)));
        }
        open.push(line);
    }
    blocks.extend(block(open));
    blocks
}

fn block(lines: Vec<TextLine>) -> Option<Block> {
    let bounds = around(lines.iter().map(|line| &line.bounds))?;
    let size = median(lines.iter().map(|line| line.size).collect())?;
    Some(Block {
        role: Role::Text,
        bounds,
        words: lines.iter().flat_map(|line| line.words.iter().copied()).collect(),
        lines: lines.into_iter().map(|line| line.text).collect(),
        size,
        table: None,
    })
}

/// Distances of the lines of a page that follow each other in a column.
#[derive(Debug, Default)]
pub(crate) struct Pitch {
    /// Height of the letters and distance, both in points.
    steps: Vec<(f32, f32)>,
}

impl Pitch {
    /// Distances of lines in reading order.
    pub(crate) fn of<'l>(lines: impl IntoIterator<Item = &'l TextLine>) -> Self {
        let mut steps = Vec::new();
        let mut before: Option<&TextLine> = None;
        for line in lines {
            if let Some(before) = before {
                let size = before.size.max(line.size);
                let step = below(&before.bounds, &line.bounds);
                let in_column = common(&before.bounds, &line.bounds, 0) > 0.0;
                if in_column && step > 0.5 * size && step < WIDEST_PITCH * size {
                    steps.push((size, step));
                }
            }
            before = Some(line);
        }
        // A page of very many lines shows its distances in a part of them.
        let stride = steps.len().div_ceil(MAX_STEPS).max(1);
        Self {
            steps: steps.into_iter().step_by(stride).collect(),
        }
    }

    /// Distance within paragraphs of letters of a height.
    fn usual(&self, size: f32) -> f32 {
        let alike = self
            .steps
            .iter()
            .filter(|(other, _)| other.max(size) <= ALIKE * other.min(size));
        let mut alike: Vec<f32> = alike.map(|(_, step)| *step).collect();
        if alike.len() < 3 {
            // Too few to tell lines from paragraphs: those of all sizes, by their ratio.
            alike = self
                .steps
                .iter()
                .map(|(other, step)| step * size / other)
                .collect();
        }
        least_common(alike).unwrap_or(USUAL_PITCH * size)
    }
}

/// The least of distances that a good part of all are near to: the middle one of those; `None` of none.
fn least_common(mut steps: Vec<f32>) -> Option<f32> {
    steps.sort_by(f32::total_cmp);
    let enough = ((COMMON * steps.len() as f32).ceil() as usize).clamp(1, steps.len().max(1));
    let near = |first: usize| {
        let reach = steps[first] * ALIKE_STEPS;
        steps[first..].iter().take_while(|step| **step <= reach).count()
    };
    let first = (0..steps.len()).find(|&first| near(first) >= enough.max(2))?;
    steps.get(first + near(first) / 2).copied()
}

/// Distance of the middle of a line below that of another.
fn below(one: &Bounds, other: &Bounds) -> f32 {
    middle(other, 1) - middle(one, 1)
}

/// True if a line goes on the paragraph of the lines before.
fn belongs(open: &[TextLine], line: &TextLine, pitch: &Pitch, page: &Neighbourhood<'_>) -> bool {
    let [.., last] = open else { return false };
    let narrower = width(&last.bounds).min(width(&line.bounds));
    let size = last.size.max(line.size);
    let ratio = size / last.size.min(line.size).max(f32::MIN_POSITIVE);
    let step = below(&last.bounds, &line.bounds);
    if step.abs() < SAME_ROW * size {
        let gap = line.bounds[0] - last.bounds[2];
        return gap > 0.0 && gap < ROW_GAP * size;
    }
    let usual = step_before(open, pitch.usual(size));
    let other_size = if step <= NEAR * usual {
        OTHER_SIZE_NEAR
    } else {
        OTHER_SIZE
    };
    // Lines of titles stand further apart than those of the text.
    let widest = if is_centred(last, line) {
        (APART * usual).max(CENTRED * size)
    } else {
        APART * usual
    };
    if common(&last.bounds, &line.bounds, 0) < IN_COLUMN * narrower
        || ratio > other_size
        || step < 0.0
        || step > widest
        || is_formula(&last.text)
        || is_formula(&line.text)
    {
        return false;
    }
    let kinds = [last, line].map(|line| page.region_of(&line.bounds).map(|region| purpose(region.kind)));
    if let [Some(one), Some(other)] = kinds
        && one != other
    {
        return false;
    }
    !begins(open, last, line)
}

/// Distance of the last lines of a paragraph; `usual` for one of a single line.
fn step_before(open: &[TextLine], usual: f32) -> f32 {
    let last = &open[open.len().saturating_sub(LINES_BEFORE)..];
    let steps = last
        .windows(2)
        .map(|pair| below(&pair[0].bounds, &pair[1].bounds));
    // A second line that stands closer than is usual says little of the third.
    median(steps.collect()).map_or(usual, |step| step.max(0.9 * usual))
}

/// The kind that stands for a region where paragraphs are concerned: regions of one purpose may share one.
fn purpose(kind: LayoutClass) -> LayoutClass {
    match kind {
        LayoutClass::Reference => LayoutClass::Text,
        LayoutClass::TableCaption => LayoutClass::FigureCaption,
        other => other,
    }
}

/// True for lines of different lengths above each other's middle.
fn is_centred(one: &TextLine, other: &TextLine) -> bool {
    let size = one.size.max(other.size);
    (middle(&one.bounds, 0) - middle(&other.bounds, 0)).abs() < 0.6 * size
        && (one.bounds[0] - other.bounds[0]).abs() > 0.3 * size
}

/// True if a line is the first of a paragraph by its place or its mark.
fn begins(open: &[TextLine], last: &TextLine, line: &TextLine) -> bool {
    let Some(around) = around(open.iter().map(|line| &line.bounds)) else {
        return false;
    };
    let size = line.size;
    let is_centred = is_centred(last, line);
    let first_mark = open.first().and_then(|first| marker(&first.text));
    // A page number between dashes is no item.
    let mark = marker(&line.text).filter(|mark| *mark != Marker::Number);
    let has_hanging_lines = first_mark.is_some() && open.len() == 1;
    let indent = line.bounds[0] - last.bounds[0];
    if indent > INDENT * size
        && !is_centred
        && !has_hanging_lines
        && line.bounds[0] - around[0] > INDENT * size
    {
        return true;
    }
    let ends = ends_sentence(&last.text);
    if mark.is_some() && line.bounds[0] <= around[0] + 0.5 * size && (first_mark.is_some() || ends) {
        return true;
    }
    open.len() > 1 && ends && around[2] - last.bounds[2] > SHORT * width(&around) && !is_centred
}

#[cfg(test)]
mod tests {
    use super::*;

    fn line(text: &str, x0: f32, y0: f32, x1: f32) -> TextLine {
        TextLine {
            words: vec![0],
            bounds: [x0, y0, x1, y0 + 10.0],
            text: text.to_owned(),
            size: 10.0,
        }
    }

    fn texts(lines: Vec<TextLine>) -> Vec<Vec<String>> {
        let page = Neighbourhood {
            page: [600.0, 800.0],
            regions: &[],
        };
        paragraphs(lines.clone(), &Pitch::of(&lines), &page)
            .into_iter()
            .map(|block| block.lines)
            .collect()
    }

    #[test]
    fn paragraphs_begin_at_indents_and_gaps() {
        let lines = vec![
            line("One first", 10.0, 0.0, 300.0),
            line("line and more", 0.0, 12.0, 300.0),
            line("of it", 0.0, 24.0, 60.0),
            line("Two begins", 10.0, 36.0, 300.0),
            line("and goes on", 0.0, 48.0, 300.0),
            line("Three is apart", 0.0, 66.0, 300.0),
        ];
        assert_eq!(
            texts(lines),
            [
                vec!["One first", "line and more", "of it"],
                vec!["Two begins", "and goes on"],
                vec!["Three is apart"]
            ]
        );
    }

    #[test]
    fn items_have_hanging_lines() {
        let lines = vec![
            line("(1) the first item", 0.0, 0.0, 300.0),
            line("goes on", 15.0, 12.0, 90.0),
            line("(2) the second item", 0.0, 24.0, 300.0),
            line("too", 15.0, 36.0, 60.0),
        ];
        assert_eq!(
            texts(lines),
            [
                vec!["(1) the first item", "goes on"],
                vec!["(2) the second item", "too"]
            ]
        );
    }

    #[test]
    fn centred_lines_stay_together() {
        let lines = vec![
            line("A title in", 100.0, 0.0, 300.0),
            line("two lines", 130.0, 12.0, 270.0),
        ];
        assert_eq!(texts(lines).len(), 1);
    }

    #[test]
    fn a_short_line_that_ends_a_sentence_is_the_last_one() {
        let lines = vec![
            line("A sentence that is long", 0.0, 0.0, 300.0),
            line("ends here.", 0.0, 12.0, 90.0),
            line("Another one begins", 0.0, 24.0, 300.0),
        ];
        assert_eq!(texts(lines).len(), 2);
    }
}
