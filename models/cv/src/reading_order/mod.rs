//! Reading order of boxes of text: columns from left to right, rows from top to bottom. A form of the recursive XY cut (Nagy and Seth 1984)
//! that looks for columns of text only: cells of a table, which are short, and fields of a form, which stand apart, are read row by row.

mod columns;

use std::cmp::Ordering;

pub use columns::Gutter;
use columns::{Side, gutter};

/// Left, top, right and bottom of a box, upright on a page whose lines run to the right.
pub type Bounds = [f32; 4];

/// Number of boxes beyond which no order is looked for.
pub const MAX_BOXES: usize = 1500;
/// Depth of columns within columns.
const MAX_DEPTH: usize = 6;
/// Height of a head or foot of a page, in heights of a line.
const HEAD: f32 = 2.0;
/// Gap between a head or foot and the text, in heights of a line.
const HEAD_GAP: f32 = 1.2;

/// Rules by which a column of text is told from cells of a table, fields of a form and words that stand apart.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct ColumnRules {
    /// Lines that it has at least.
    pub least_lines: usize,
    /// Length of a line, in its height: below it, boxes are cells.
    pub long: f32,
    /// Width of the gap before it, in heights of a line.
    pub gap: f32,
    /// Share of a column's width that its usual line fills. Labels of a form fill less of the widest.
    pub filled: f32,
    /// Lines that it has at least beside a gap that may be the hole of a leaf's string; `None` where there are no leaves. On leaves rows go on
    /// beyond a picture in the middle.
    pub beside_hole: Option<usize>,
}

impl ColumnRules {
    /// The rules for pages of any kind, forms and tables among them.
    pub const ANY_PAGE: Self = Self {
        least_lines: 3,
        long: 5.0,
        gap: 0.7,
        filled: 0.8,
        beside_hole: None,
    };

    /// The rules for lines on scans of text. Leaves have gaps in three or four lines about the holes of their strings, and those are read
    /// across; half of a column may be verses, whose lines are short, and columns of large letters have few and short ones.
    pub const LINES: Self = Self {
        least_lines: 5,
        long: 1.0,
        gap: 0.5,
        filled: 0.4,
        beside_hole: Some(6),
    };
}

/// Returns the places of the boxes in reading order, which is made of the boxes alone: their own order is of no account. Of more than
/// [`MAX_BOXES`] boxes the rows are read.
pub fn reading_order(boxes: &[Bounds]) -> Vec<usize> {
    text_blocks(boxes, &ColumnRules::ANY_PAGE).concat()
}

/// Returns the places of the boxes in blocks, both in reading order: columns, and what stands between, above and below them. More than
/// [`MAX_BOXES`] boxes are one block.
pub fn text_blocks(boxes: &[Bounds], rules: &ColumnRules) -> Vec<Vec<usize>> {
    Page::read(boxes, rules).blocks
}

/// Returns the gaps between columns, each with the places of the boxes that lie beside and across it.
pub fn gutters(boxes: &[Bounds], rules: &ColumnRules) -> Vec<(Gutter, Vec<usize>)> {
    Page::read(boxes, rules).gutters
}

/// Boxes, and the places of those that were read.
struct Page<'p> {
    boxes: &'p [Bounds],
    rules: &'p ColumnRules,
    blocks: Vec<Vec<usize>>,
    gutters: Vec<(Gutter, Vec<usize>)>,
}

/// End of a column.
#[derive(Debug, Clone, Copy)]
enum End {
    Top,
    Bottom,
}

impl End {
    /// Upper and lower edge as seen from this end.
    fn edges(self, bounds: &Bounds) -> [f32; 2] {
        match self {
            Self::Top => [bounds[1], bounds[3]],
            Self::Bottom => [-bounds[3], -bounds[1]],
        }
    }
}

impl<'p> Page<'p> {
    fn read(boxes: &'p [Bounds], rules: &'p ColumnRules) -> Self {
        let depth = if boxes.len() > MAX_BOXES { 0 } else { MAX_DEPTH };
        let mut page = Page {
            boxes,
            rules,
            blocks: Vec::new(),
            gutters: Vec::new(),
        };
        page.part((0..boxes.len()).collect(), depth);
        page
    }

    /// Reads a part of the page.
    fn part(&mut self, mut part: Vec<usize>, depth: usize) {
        let boxes: Vec<Bounds> = part.iter().map(|&index| self.boxes[index]).collect();
        let Some(gutter) = (depth > 0).then(|| gutter(&boxes, self.rules)).flatten() else {
            self.rows(part);
            return;
        };
        self.gutters.push((gutter, part.clone()));
        if gutter.is_crossed {
            self.rows_across(part, &gutter);
            return;
        }
        self.sort(&mut part, |bounds| middle(bounds, 1));
        // Boxes across the gap, such as headings, part the columns above them from those below.
        let (mut left, mut right, mut across) = (Vec::new(), Vec::new(), Vec::new());
        for index in part {
            let side = gutter.side_of(&self.boxes[index]);
            if side == Side::Across {
                self.columns(
                    std::mem::take(&mut left),
                    std::mem::take(&mut right),
                    gutter,
                    depth - 1,
                );
                across.push(index);
                continue;
            }
            self.rows(std::mem::take(&mut across));
            if side == Side::Left {
                left.push(index);
            } else {
                right.push(index);
            }
        }
        self.rows(across);
        self.columns(left, right, gutter, depth - 1);
    }

    /// Reads two columns one after the other, between what stands apart above and below them.
    fn columns(&mut self, mut left: Vec<usize>, mut right: Vec<usize>, gutter: Gutter, depth: usize) {
        let [heads, feet] = [End::Top, End::Bottom].map(|end| {
            let mut apart = self.split_off(&mut left, &right, gutter.line, end);
            apart.append(&mut self.split_off(&mut right, &left, gutter.line, end));
            apart
        });
        self.rows(heads);
        self.part(left, depth);
        self.part(right, depth);
        self.rows(feet);
    }

    /// Takes the head or foot of a page off a column: a row or two beyond the end of the other column, and apart from their own.
    fn split_off(&self, column: &mut Vec<usize>, other: &[usize], line: f32, end: End) -> Vec<usize> {
        let first = |part: &[usize]| {
            let edges = part.iter().map(|&index| end.edges(&self.boxes[index])[0]);
            edges.fold(f32::INFINITY, f32::min)
        };
        let limit = first(other);
        let (apart, rest): (Vec<usize>, Vec<usize>) = column
            .iter()
            .partition(|index| end.edges(&self.boxes[**index])[1] <= limit);
        let last = apart
            .iter()
            .map(|&index| end.edges(&self.boxes[index])[1])
            .fold(f32::NEG_INFINITY, f32::max);
        let is_head = !apart.is_empty()
            && !rest.is_empty()
            && !other.is_empty()
            && last - first(&apart) <= HEAD * line
            && first(&rest) - last >= HEAD_GAP * line;
        if !is_head {
            return Vec::new();
        }
        *column = rest;
        apart
    }

    /// Reads boxes as a block, row by row: those whose middles lie within each other's height are in one row.
    fn rows(&mut self, part: Vec<usize>) {
        if part.is_empty() {
            return;
        }
        let rows = self.in_rows(part).concat();
        self.blocks.push(rows);
    }

    /// Reads rows that go on across a gap; what is on either side of it in a row is a block.
    fn rows_across(&mut self, part: Vec<usize>, gutter: &Gutter) {
        for row in self.in_rows(part) {
            let (left, right): (Vec<usize>, Vec<usize>) = row
                .into_iter()
                .partition(|&index| gutter.side_of(&self.boxes[index]) == Side::Left);
            self.blocks
                .extend([left, right].into_iter().filter(|side| !side.is_empty()));
        }
    }

    /// Returns the rows of boxes from top to bottom, each from left to right.
    fn in_rows(&self, mut part: Vec<usize>) -> Vec<Vec<usize>> {
        self.sort(&mut part, |bounds| middle(bounds, 1));
        let is_same_row = |one: &usize, other: &usize| {
            let (one, other) = (&self.boxes[*one], &self.boxes[*other]);
            middle(other, 1) - middle(one, 1) < 0.5 * height(one).min(height(other))
        };
        let mut rows: Vec<Vec<usize>> = part.chunk_by(is_same_row).map(<[usize]>::to_vec).collect();
        for row in &mut rows {
            self.sort(row, |bounds| bounds[0]);
        }
        rows
    }

    /// Sorts by a key; equal keys by all edges, so that the order of the boxes is of no account.
    fn sort(&self, part: &mut [usize], key: impl Fn(&Bounds) -> f32) {
        part.sort_by(|&one, &other| {
            let (one, other) = (&self.boxes[one], &self.boxes[other]);
            let edges = one.iter().zip(other).map(|(one, other)| one.total_cmp(other));
            key(one)
                .total_cmp(&key(other))
                .then(edges.fold(Ordering::Equal, Ordering::then))
        });
    }
}

fn middle(bounds: &Bounds, axis: usize) -> f32 {
    f32::midpoint(bounds[axis], bounds[axis + 2])
}

fn width(bounds: &Bounds) -> f32 {
    bounds[2] - bounds[0]
}

fn height(bounds: &Bounds) -> f32 {
    bounds[3] - bounds[1]
}

#[cfg(test)]
mod tests;
