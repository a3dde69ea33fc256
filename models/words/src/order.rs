//! Reading order of boxes: columns from left to right, rows from top to bottom. A simple form of the recursive XY cut (Nagy and
//! Seth 1984) that looks for columns of text only: cells of a table, which are short, are read row by row.

/// Left, top, right and bottom of a box.
pub(crate) type Bounds = [f32; 4];

/// Number of boxes beyond which no columns are looked for.
const MAX_BOXES: usize = 1500;
/// Depth of columns within columns.
const MAX_DEPTH: usize = 6;
/// Gap between columns, in heights of a line.
const GAP: f32 = 0.7;
/// Length of a line of a column, in its height: below it, boxes are cells.
const LINE: f32 = 5.0;
/// Share of a column's width that its lines fill.
const FILLED: f32 = 0.6;
/// Boxes that a column has at least.
const LEAST_LINES: usize = 3;
/// Share of the boxes that may lie across the gap between two columns.
const ACROSS: f32 = 0.4;

/// The places of the boxes in reading order.
pub(crate) fn reading_order(boxes: &[Bounds]) -> Vec<usize> {
    let mut order = Vec::with_capacity(boxes.len());
    order_part(boxes, (0..boxes.len()).collect(), MAX_DEPTH, &mut order);
    order
}

fn order_part(boxes: &[Bounds], part: Vec<usize>, depth: usize, order: &mut Vec<usize>) {
    let gap = if depth > 0 && part.len() <= MAX_BOXES {
        gap_between_columns(boxes, &part)
    } else {
        None
    };
    let Some(gap) = gap else {
        rows(boxes, part, order);
        return;
    };
    // Boxes across the gap, such as headings, part the columns above them from those below.
    let mut down = part;
    down.sort_by(|&one, &other| middle(boxes[one], 1).total_cmp(&middle(boxes[other], 1)));
    let (mut left, mut right, mut across) = (Vec::new(), Vec::new(), Vec::new());
    for index in down {
        let crosses = boxes[index][0] < gap && boxes[index][2] > gap;
        if crosses {
            for column in [std::mem::take(&mut left), std::mem::take(&mut right)] {
                order_part(boxes, column, depth - 1, order);
            }
            across.push(index);
            continue;
        }
        rows(boxes, std::mem::take(&mut across), order);
        if boxes[index][2] <= gap {
            left.push(index);
        } else {
            right.push(index);
        }
    }
    rows(boxes, across, order);
    for column in [left, right] {
        order_part(boxes, column, depth - 1, order);
    }
}

/// The middle of the gap between two columns of text.
fn gap_between_columns(boxes: &[Bounds], part: &[usize]) -> Option<f32> {
    if part.len() < 2 * LEAST_LINES {
        return None;
    }
    let height = median(part.iter().map(|&index| boxes[index][3] - boxes[index][1]))?;
    let mut best: Option<(usize, f32)> = None;
    for &index in part {
        // A gap begins where some box ends.
        let start = boxes[index][2];
        let ends_before = |index: &usize| boxes[*index][2] <= start;
        let left: Vec<usize> = part.iter().copied().filter(ends_before).collect();
        let starts_after = |index: &usize| boxes[*index][0] >= start + GAP * height;
        let right: Vec<usize> = part.iter().copied().filter(starts_after).collect();
        let across = part.len() - left.len() - right.len();
        let few = across as f32 <= ACROSS * part.len() as f32;
        if !few || !is_column(boxes, &left, height) || !is_column(boxes, &right, height) {
            continue;
        }
        if !side_by_side(boxes, &left, &right) {
            continue;
        }
        let end = right
            .iter()
            .map(|&index| boxes[index][0])
            .fold(f32::INFINITY, f32::min);
        if best.is_none_or(|(least, _)| across < least) {
            best = Some((across, (start + end) / 2.0));
        }
    }
    best.map(|(_, gap)| gap)
}

/// Returns whether boxes are lines of text, which are long and fill their column, and not cells.
fn is_column(boxes: &[Bounds], part: &[usize], height: f32) -> bool {
    let left = part
        .iter()
        .map(|&index| boxes[index][0])
        .fold(f32::INFINITY, f32::min);
    let right = part
        .iter()
        .map(|&index| boxes[index][2])
        .fold(f32::NEG_INFINITY, f32::max);
    let least = (LINE * height).max(FILLED * (right - left));
    let widths = part.iter().map(|&index| boxes[index][2] - boxes[index][0]);
    part.len() >= LEAST_LINES && median(widths).is_some_and(|width| width >= least)
}

/// Returns whether most of the lower of two columns is beside the other.
fn side_by_side(boxes: &[Bounds], left: &[usize], right: &[usize]) -> bool {
    let extent = |part: &[usize]| {
        let top = part
            .iter()
            .map(|&index| boxes[index][1])
            .fold(f32::INFINITY, f32::min);
        let bottom = part
            .iter()
            .map(|&index| boxes[index][3])
            .fold(f32::NEG_INFINITY, f32::max);
        (top, bottom)
    };
    let (left, right) = (extent(left), extent(right));
    let shared = left.1.min(right.1) - left.0.max(right.0);
    shared >= 0.5 * (left.1 - left.0).min(right.1 - right.0)
}

/// Boxes row by row: those whose middles lie within each other's height are in one row.
fn rows(boxes: &[Bounds], mut part: Vec<usize>, order: &mut Vec<usize>) {
    part.sort_by(|&one, &other| middle(boxes[one], 1).total_cmp(&middle(boxes[other], 1)));
    let mut row: Vec<usize> = Vec::new();
    for index in part {
        let same = row.last().is_some_and(|&last| {
            let (last, next) = (boxes[last], boxes[index]);
            let height = (last[3] - last[1]).min(next[3] - next[1]);
            middle(next, 1) - middle(last, 1) < 0.5 * height
        });
        if !same {
            finish_row(boxes, &mut row, order);
        }
        row.push(index);
    }
    finish_row(boxes, &mut row, order);
}

fn finish_row(boxes: &[Bounds], row: &mut Vec<usize>, order: &mut Vec<usize>) {
    row.sort_by(|&one, &other| boxes[one][0].total_cmp(&boxes[other][0]));
    order.append(row);
}

fn middle(bounds: Bounds, axis: usize) -> f32 {
    (bounds[axis] + bounds[axis + 2]) / 2.0
}

fn median(values: impl Iterator<Item = f32>) -> Option<f32> {
    let mut values: Vec<f32> = values.collect();
    values.sort_by(f32::total_cmp);
    values.get(values.len() / 2).copied()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn line(x: f32, y: f32, width: f32) -> Bounds {
        [x, y, x + width, y + 10.0]
    }

    #[test]
    fn columns_are_read_one_after_the_other_between_headings() {
        let mut boxes = vec![line(50.0, 0.0, 300.0)];
        for row in 1..5 {
            boxes.push(line(0.0, row as f32 * 15.0, 180.0));
            boxes.push(line(210.0, row as f32 * 15.0 + 2.0, 180.0));
        }
        boxes.push(line(50.0, 80.0, 300.0));
        for row in 6..10 {
            boxes.push(line(210.0, row as f32 * 15.0 + 5.0, 180.0));
            boxes.push(line(0.0, row as f32 * 15.0 + 4.0, 180.0));
        }
        let expected = [0, 1, 3, 5, 7, 2, 4, 6, 8, 9, 11, 13, 15, 17, 10, 12, 14, 16];
        assert_eq!(reading_order(&boxes), expected);
    }

    #[test]
    fn cells_are_read_row_by_row() {
        let boxes: Vec<Bounds> = (0..12)
            .map(|cell| line((cell % 3) as f32 * 100.0, (cell / 3) as f32 * 20.0, 30.0))
            .collect();
        assert_eq!(reading_order(&boxes), (0..12).collect::<Vec<_>>());
    }

    proptest! {
        #[test]
        fn every_box_is_read_once(boxes in prop::collection::vec(
            (0.0_f32..500.0, 0.0_f32..500.0, 1.0_f32..300.0, 1.0_f32..30.0), 0..60,
        )) {
            let boxes: Vec<Bounds> = boxes.iter().map(|&(x, y, w, h)| [x, y, x + w, y + h]).collect();
            let mut order = reading_order(&boxes);
            order.sort_unstable();
            prop_assert_eq!(order, (0..boxes.len()).collect::<Vec<_>>());
        }
    }
}
