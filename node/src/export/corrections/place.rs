//! Placement of corrections on a page as it is read now.

use std::collections::HashSet;

use parkhang_core::domain::PageLine;
use parkhang_core::policy::correction::Correction;
use parkhang_models::page::geometry::{Point, Rect, bounding_rect};
use parkhang_models::page::polygon::Overlap;

/// Overlap, as intersection over union, from which two outlines are of the same line.
const SAME: f64 = 0.5;
/// Share of a line from which it lies in the place of a correction.
const INSIDE: f64 = 0.5;
/// Part of that share from which it may do so by the rectangles of both: areas of outlines are estimates.
const POSSIBLE: f64 = 0.9;
/// Share of what was corrected that has to be covered by lines of the page, for it still to be there.
const COVERED: f64 = 0.5;

/// Line of the reading.
#[derive(Debug, Clone, Copy)]
pub struct ReadLine<'l> {
    pub id: &'l str,
    pub polygon: &'l [Point],
}

/// Line of a page with its corrections.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Item {
    /// Line of the reading, by its index.
    Read(usize),
    /// Line that a person has written: the index of its correction, and its own in that.
    Corrected { correction: usize, line: usize },
}

/// Lines of a page with its corrections, in reading order.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Placement {
    pub items: Vec<Item>,
    /// Corrections of lines that the page does not have any more, by their index.
    pub unplaced: Vec<usize>,
}

/// Places corrections on a page.
///
/// A line that was corrected is the one with its id, or else the one that has most of its outline. Where lines were split, merged or are found
/// otherwise now, a correction replaces every line that lies mostly in its place, if these cover most of what was corrected; otherwise it has no
/// place. Lines that a correction only moved keep the text that the page has now.
pub fn place(read: &[ReadLine<'_>], corrections: &[Correction]) -> Placement {
    let mut placement = Placement {
        items: (0..read.len()).map(Item::Read).collect(),
        unplaced: Vec::new(),
    };
    let replaced = corrections.iter().flat_map(|correction| {
        let originals = correction.originals.iter();
        originals.filter(|original| !is_kept(correction, original))
    });
    let page = Page {
        read,
        claimed: replaced.map(|original| original.id.as_str()).collect(),
    };
    for (index, correction) in corrections.iter().enumerate() {
        if !page.put(&mut placement.items, index, correction) {
            placement.unplaced.push(index);
        }
    }
    placement
}

/// Returns whether a line that was read is still as it was.
fn is_kept(correction: &Correction, original: &PageLine) -> bool {
    correction.lines().any(|corrected| corrected.line == *original)
}

/// The reading of a page.
struct Page<'r> {
    read: &'r [ReadLine<'r>],
    /// Ids of the lines that corrections replace.
    claimed: HashSet<&'r str>,
}

impl Page<'_> {
    /// Puts the lines of a correction in the place of those that it replaces; returns false if they are not there.
    fn put(&self, items: &mut Vec<Item>, index: usize, correction: &Correction) -> bool {
        let mut is_as_edited = !correction.originals.is_empty();
        let mut at: Vec<Option<usize>> = Vec::with_capacity(correction.originals.len());
        for original in &correction.originals {
            let by_id = self.position(items, |read| read.id == original.id);
            is_as_edited &= by_id.is_some();
            at.push(by_id.or_else(|| {
                // What stays as it is read may be what another correction replaces.
                let is_free =
                    |read: &ReadLine<'_>| is_kept(correction, original) || !self.claimed.contains(read.id);
                self.nearest(items, original, &at, is_free)
            }));
        }
        let kept = |line: &PageLine| correction.original_of(line);
        let lines = || correction.lines().map(|corrected| &corrected.line);
        let (mut taken, mut missing) = (Vec::new(), Vec::new());
        for (original, place) in correction.originals.iter().zip(&at) {
            match place {
                Some(place) => taken.push(*place),
                None if is_kept(correction, original) => {}
                None => missing.push(outline(original)),
            }
        }
        let fresh: Vec<Vec<Point>> = lines().filter(|line| kept(line).is_none()).map(outline).collect();
        if !is_as_edited {
            let region: Vec<&Vec<Point>> = missing.iter().chain(&fresh).collect();
            let found = self.within(items, &region, &taken);
            if !fresh.is_empty() && !self.covers(items, &found, &missing) {
                return false;
            }
            taken.extend(found);
        }
        let group: Vec<Item> = (0..)
            .zip(lines())
            .filter_map(|(line, corrected)| match kept(corrected) {
                // What was only moved is as it is read now, and is not there if it is not read any more.
                Some(original) => at[original].map(|place| items[place]),
                None => Some(Item::Corrected {
                    correction: index,
                    line,
                }),
            })
            .collect();
        let first = taken.iter().min().copied();
        let first = first.unwrap_or_else(|| self.by_height(items, fresh.first()));
        let before = taken.iter().filter(|place| **place < first).count();
        let mut place = 0;
        items.retain(|_| {
            place += 1;
            !taken.contains(&(place - 1))
        });
        let first = first - before;
        items.splice(first..first, group);
        true
    }

    fn read_of(&self, item: Item) -> Option<&ReadLine<'_>> {
        match item {
            Item::Read(index) => self.read.get(index),
            Item::Corrected { .. } => None,
        }
    }

    /// Position of a line of the reading.
    fn position(&self, items: &[Item], is_wanted: impl Fn(&ReadLine<'_>) -> bool) -> Option<usize> {
        items
            .iter()
            .position(|item| self.read_of(*item).is_some_and(&is_wanted))
    }

    /// Lines of the reading, with their positions.
    fn lines<'i>(&'i self, items: &'i [Item]) -> impl Iterator<Item = (usize, &'i ReadLine<'i>)> {
        let read = |(place, item): (usize, &Item)| Some((place, self.read_of(*item)?));
        items.iter().enumerate().filter_map(read)
    }

    /// Position of the line that has most of the outline of one that was corrected, and is not `taken`.
    fn nearest(
        &self,
        items: &[Item],
        original: &PageLine,
        taken: &[Option<usize>],
        is_free: impl Fn(&ReadLine<'_>) -> bool,
    ) -> Option<usize> {
        let outline = outline(original);
        self.lines(items)
            .filter(|(place, read)| !taken.contains(&Some(*place)) && is_free(read))
            .map(|(place, read)| (place, Overlap::of(&outline, read.polygon).of_union()))
            .filter(|(_, overlap)| *overlap >= SAME)
            .max_by(|(_, one), (_, other)| one.total_cmp(other))
            .map(|(place, _)| place)
    }

    /// Positions of the other lines that lie mostly within one of the outlines.
    fn within(&self, items: &[Item], region: &[&Vec<Point>], taken: &[usize]) -> Vec<usize> {
        let region: Vec<(Rect, &Vec<Point>)> = region
            .iter()
            .map(|outline| (bounding_rect(outline), *outline))
            .collect();
        let is_inside = |read: &ReadLine<'_>| {
            let bounds = bounding_rect(read.polygon);
            // There may be thousands of outlines, few of which can hold so much of the line.
            let least = POSSIBLE * INSIDE * Overlap::of(read.polygon, read.polygon).first;
            let mut near = region
                .iter()
                .filter(|(other, _)| Overlap::of_bounds(&bounds, other).shared >= least);
            near.any(|(_, outline)| Overlap::of(read.polygon, outline).of_first() >= INSIDE)
        };
        self.lines(items)
            .filter(|(_, read)| !self.claimed.contains(read.id))
            .filter(|(place, read)| !taken.contains(place) && is_inside(read))
            .map(|(place, _)| place)
            .collect()
    }

    /// Returns whether lines cover most of the outlines of what was corrected.
    fn covers(&self, items: &[Item], found: &[usize], missing: &[Vec<Point>]) -> bool {
        let lines = || found.iter().filter_map(|place| self.read_of(items[*place]));
        let (mut covered, mut whole) = (0.0, 0.0);
        for outline in missing {
            let overlaps: Vec<Overlap> = lines().map(|read| Overlap::of(outline, read.polygon)).collect();
            covered += overlaps.iter().map(Overlap::of_first).sum::<f64>().min(1.0);
            whole += 1.0;
        }
        covered >= COVERED * whole
    }

    /// Position of a line without neighbours: before the first one that is lower.
    fn by_height(&self, items: &[Item], outline: Option<&Vec<Point>>) -> usize {
        let Some(outline) = outline else {
            return items.len();
        };
        let is_lower = |read: &ReadLine<'_>| middle(read.polygon) > middle(outline);
        self.position(items, is_lower).unwrap_or(items.len())
    }
}

fn middle(polygon: &[Point]) -> i32 {
    let bounds = bounding_rect(polygon);
    bounds.y + bounds.height / 2
}

/// Outline of a line on the scan.
pub(super) fn outline(line: &PageLine) -> Vec<Point> {
    line.polygon.iter().map(|[x, y]| Point::new(*x, *y)).collect()
}

#[cfg(test)]
mod tests;
