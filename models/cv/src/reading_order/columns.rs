//! Gaps between columns of text: where many long lines end on one side and begin on the other, row close upon row.

use super::{Bounds, ColumnRules, height, middle, width};

/// Share of the length of all boxes of a side that is in long ones.
const LONG_SHARE: f32 = 0.6;
/// Distance from the gap, in heights of a line, within which lines begin or end at it: indents, and the last words of lines.
const NEAR: f32 = 2.0;
/// Distance from the middle of a line to the next, in heights of a line. Fields of a form stand further apart.
const PITCH: f32 = 2.0;
/// Share of the boxes that may lie across the gap.
const ACROSS: f32 = 0.4;
/// Width of the hole of a leaf's string, in heights of a line; gaps between columns that hardly have lines are narrower.
const HOLE: f32 = 1.0;
/// Width of a picture in the middle of a leaf, in heights of a line.
const PICTURE: f32 = 2.0;
/// Largest number of lines on a leaf.
const LEAF_LINES: usize = 9;

/// Gap between two columns.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Gutter {
    /// Ends of most lines on its left, and beginnings of those on its right.
    pub(super) sides: [f32; 2],
    /// Usual height of the lines beside it.
    pub line: f32,
    /// Rows go on across it.
    pub(super) is_crossed: bool,
}

/// Place of a box at a gap.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Side {
    Left,
    Right,
    Across,
}

impl Gutter {
    pub fn middle(&self) -> f32 {
        let [start, end] = self.sides;
        f32::midpoint(start, end)
    }

    fn width(&self) -> f32 {
        let [start, end] = self.sides;
        end - start
    }

    /// The place of a box: one that ends or begins within the gap is not across it.
    pub(super) fn side_of(&self, bounds: &Bounds) -> Side {
        let [start, end] = self.sides;
        if bounds[0] < start && bounds[2] > end {
            Side::Across
        } else if middle(bounds, 0) <= self.middle() {
            Side::Left
        } else {
            Side::Right
        }
    }
}

/// Finds the gap between columns that the fewest boxes lie across; of several the widest.
pub(super) fn gutter(boxes: &[Bounds], rules: &ColumnRules) -> Option<Gutter> {
    let line = usual_height(boxes)?;
    let is_long = |bounds: &&Bounds| width(bounds) >= rules.long * line;
    if boxes.iter().filter(is_long).count() < 2 * rules.least_lines {
        return None;
    }
    let starts = sorted(boxes.iter().map(|bounds| bounds[0]));
    let mut ends = sorted(boxes.iter().map(|bounds| bounds[2]));
    let before = |values: &[f32], limit: f32| values.partition_point(|value| *value < limit);
    let all = ends.clone();
    ends.dedup();
    let mut best: Option<(usize, Gutter)> = None;
    // A gap begins where some box ends.
    for start in ends {
        let on_left = all.partition_point(|end| *end <= start);
        let on_right = starts.len() - before(&starts, start + rules.gap * line);
        let across = boxes.len().saturating_sub(on_left + on_right);
        if across as f32 > ACROSS * boxes.len() as f32 || on_left.min(on_right) < rules.least_lines {
            continue;
        }
        let end = starts[starts.len() - on_right];
        let mut found = Gutter {
            sides: [start, end],
            line,
            is_crossed: false,
        };
        let wins = best
            .is_none_or(|(least, other)| across < least || across == least && found.width() > other.width());
        let beside = wins
            .then(|| lines_beside(boxes, found.sides, line, rules))
            .flatten();
        let Some(beside) = beside else {
            continue;
        };
        let gap = found.width() / line;
        found.is_crossed = rules.beside_hole.is_some()
            && across == 0
            && gap >= PICTURE
            && beside.iter().all(|lines| *lines <= LEAF_LINES);
        let least = match rules.beside_hole {
            Some(least) if gap >= HOLE && !found.is_crossed => least,
            _ => rules.least_lines,
        };
        if beside.iter().all(|lines| *lines >= least) {
            best = Some((across, found));
        }
    }
    best.map(|(_, gutter)| gutter)
}

/// Counts the lines of the columns of text on either side of a gap; `None` where there are none, or they are not beside each other.
fn lines_beside(
    boxes: &[Bounds],
    [start, end]: [f32; 2],
    line: f32,
    rules: &ColumnRules,
) -> Option<[usize; 2]> {
    let long = rules.long * line;
    let left = long_lines(boxes.iter().filter(|bounds| bounds[2] <= start), long)?;
    let right = long_lines(boxes.iter().filter(|bounds| bounds[0] >= end), long)?;
    let ending = left.iter().filter(|bounds| bounds[2] >= start - NEAR * line);
    let ending = sorted(ending.map(|bounds| bounds[0]));
    let edge = ending.get(ending.len() / 2)?;
    let lines_at_gap = ending.len();
    let left: Vec<&Bounds> = left
        .into_iter()
        .filter(|bounds| bounds[0] >= edge - line)
        .collect();
    let right: Vec<&Bounds> = right
        .into_iter()
        .filter(|bounds| bounds[0] <= end + NEAR * line)
        .collect();
    // A title may reach beyond its column, into the next one to the right.
    let reached = sorted(right.iter().map(|bounds| bounds[2]));
    let reached = reached.get(9 * reached.len() / 10)?;
    let are_columns = is_column(&left, rules.filled * (start - edge))
        && is_column(&right, rules.filled * (reached - end))
        && are_beside(&left, &right);
    are_columns.then_some([left.len().min(lines_at_gap), right.len()])
}

/// The boxes of a side that are `long` or longer; `None` if the others have more of the text.
fn long_lines<'b>(side: impl Iterator<Item = &'b Bounds>, long: f32) -> Option<Vec<&'b Bounds>> {
    let (mut lines, mut length, mut of_long) = (Vec::new(), 0.0, 0.0);
    for bounds in side {
        length += width(bounds);
        if width(bounds) >= long {
            of_long += width(bounds);
            lines.push(bounds);
        }
    }
    (of_long >= LONG_SHARE * length).then_some(lines)
}

/// Decides whether the usual line is so long, and they stand one close below the other.
fn is_column(lines: &[&Bounds], least_width: f32) -> bool {
    let usual = |values: Vec<f32>| values.get(values.len() / 2).copied();
    let rows = sorted(lines.iter().map(|bounds| middle(bounds, 1)));
    let pitch = usual(sorted(rows.windows(2).map(|pair| pair[1] - pair[0])));
    let filled = usual(sorted(lines.iter().map(|bounds| width(bounds))));
    let line = usual(sorted(lines.iter().map(|bounds| height(bounds))));
    let (Some(pitch), Some(filled), Some(line)) = (pitch, filled, line) else {
        return false;
    };
    pitch <= PITCH * line && filled >= least_width
}

/// Decides whether most of the lower of two columns is beside the other.
fn are_beside(left: &[&Bounds], right: &[&Bounds]) -> bool {
    let extent = |column: &[&Bounds]| {
        let top = column
            .iter()
            .map(|bounds| bounds[1])
            .fold(f32::INFINITY, f32::min);
        let bottom = column
            .iter()
            .map(|bounds| bounds[3])
            .fold(f32::NEG_INFINITY, f32::max);
        (top, bottom)
    };
    let (left, right) = (extent(left), extent(right));
    let shared = left.1.min(right.1) - left.0.max(right.0);
    shared >= 0.5 * (left.1 - left.0).min(right.1 - right.0)
}

/// Height of the boxes that most of the text is in.
fn usual_height(boxes: &[Bounds]) -> Option<f32> {
    let mut lines: Vec<(f32, f32)> = boxes
        .iter()
        .map(|bounds| (height(bounds), width(bounds)))
        .collect();
    lines.sort_by(|one, other| one.0.total_cmp(&other.0).then(one.1.total_cmp(&other.1)));
    let half = lines.iter().map(|(_, width)| width).sum::<f32>() / 2.0;
    let mut length = 0.0;
    let at_half = lines.iter().find(|(_, width)| {
        length += width;
        length >= half
    });
    at_half.map(|(height, _)| *height)
}

fn sorted(values: impl Iterator<Item = f32>) -> Vec<f32> {
    let mut values: Vec<f32> = values.collect();
    values.sort_by(f32::total_cmp);
    values
}
