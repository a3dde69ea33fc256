//! Texts of the cells of tables.

use crate::block::{Cell, Table, TableError};
use crate::geometry::{Bounds, area, common, height, intersection, middle, union};
use crate::layout::TableStructure;
use crate::lines::joined;
use crate::word::PageWord;

/// The cells of a table with the words that lie in them. The places of the network's cells are inexact, so a word goes to the cell that
/// covers most of it, else to the nearest.
///
/// # Errors
/// [`TableError`] for a structure whose cells are no table.
pub(crate) fn filled(
    structure: &TableStructure,
    words: &[PageWord<'_>],
    inside: &[usize],
) -> Result<Table, TableError> {
    let mut of_cells: Vec<Vec<usize>> = vec![Vec::new(); structure.cells.len()];
    for &place in inside {
        let bounds = &words[place].bounds;
        let fit = |cell: usize| fit(&structure.cells[cell].bounds, bounds);
        let best = (0..structure.cells.len()).max_by(|&one, &other| fit(one).total_cmp(&fit(other)));
        if let Some(cell) = best {
            of_cells[cell].push(place);
        }
    }
    let cells = structure.cells.iter().zip(of_cells).map(|(cell, mut places)| {
        in_reading_order(&mut places, words);
        let bounds = places
            .iter()
            .fold(cell.bounds, |bounds, &place| union(&bounds, &words[place].bounds));
        Cell {
            row: cell.row,
            column: cell.column,
            row_span: cell.row_span,
            column_span: cell.column_span,
            is_header: cell.is_header,
            bounds,
            text: joined(places.iter().map(|&place| &words[place])),
        }
    });
    Table::new(cells.collect())
}

/// Share of a word that a cell covers; for a cell that does not, the distance from it, negative.
fn fit(cell: &Bounds, word: &Bounds) -> f32 {
    let covered = intersection(cell, word);
    if covered > 0.0 {
        return covered / area(word).max(f32::MIN_POSITIVE);
    }
    let apart = |axis: usize| (-common(cell, word, axis)).max(0.0);
    -apart(0).hypot(apart(1))
}

/// Sorts words row by row.
fn in_reading_order(places: &mut [usize], words: &[PageWord<'_>]) {
    places.sort_by(|&one, &other| {
        let (one, other) = (&words[one].bounds, &words[other].bounds);
        middle(one, 1).total_cmp(&middle(other, 1))
    });
    let mut start = 0;
    while start < places.len() {
        let first = &words[places[start]].bounds;
        let bottom = middle(first, 1) + 0.5 * height(first);
        let row = places[start..]
            .iter()
            .take_while(|&&place| middle(&words[place].bounds, 1) < bottom)
            .count()
            .max(1);
        places[start..start + row]
            .sort_by(|&one, &other| words[one].bounds[0].total_cmp(&words[other].bounds[0]));
        start += row;
    }
}
