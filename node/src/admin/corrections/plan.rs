//! Changes by which the lines of a page become those of a transcription.

use parkhang_core::domain::PageLine;
use parkhang_models::page::geometry::{Point, Rect, bounding_rect};
use parkhang_models::page::polygon::Overlap;
use uuid::Uuid;

use crate::export::document::{LineDocument, PageDocument, pairs};
use crate::export::line_id;
use crate::transcription::TranscribedLine;

/// Overlap, as intersection over union, from which two outlines are of the same line.
const SAME: f64 = 0.5;
/// Lines of the page that one of the transcription is compared with: those whose upright rectangles have most of its own.
const COMPARED: usize = 16;

/// Change of a page: lines, and those that take their place.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Change {
    pub replaces: Vec<PageLine>,
    pub lines: Vec<PageLine>,
    /// Lines with another text or outline.
    pub changed: usize,
    pub added: usize,
    pub deleted: usize,
}

/// Line of the transcription.
struct Wanted<'t> {
    outline: Vec<Point>,
    text: Option<&'t str>,
    /// Index of the line of the page that it is.
    found: Option<usize>,
}

/// Returns the changes by which a page has the lines of a transcription, to be made one after the other. Lines that are the same are in none
/// of them, and each change is as small as can be, as a later reading of the page may have a place for one and not for another.
pub(super) fn changes(page: &PageDocument, transcribed: &[TranscribedLine]) -> Vec<Change> {
    let mut wanted: Vec<Wanted<'_>> = transcribed
        .iter()
        .map(|line| Wanted {
            outline: page.on_page(&line.polygon),
            text: line.text.as_deref().map(str::trim),
            found: None,
        })
        .collect();
    let outlines: Vec<Vec<Point>> = page
        .lines
        .iter()
        .map(|line| page.on_page(&line.polygon))
        .collect();
    find(&mut wanted, &outlines);
    // A line without text that is not on the page is nothing to read.
    wanted.retain(|line| line.found.is_some() || line.text.is_some_and(|text| !text.is_empty()));
    let stays = staying(&wanted.iter().map(|line| line.found).collect::<Vec<_>>());
    let made = |line: &Wanted<'_>| match line.found {
        Some(found) => corrected(&page.lines[found], &outlines[found], line),
        None => PageLine {
            id: Uuid::new_v4().to_string(),
            polygon: pairs(&line.outline),
            text: line.text.unwrap_or_default().to_owned(),
        },
    };
    let mut walk = Walk::default();
    let mut next = 0;
    for (line, stays) in wanted.iter().zip(stays) {
        match line.found.filter(|_| stays) {
            Some(found) => {
                walk.gone.extend(page.lines[next..found].iter().map(page_line));
                walk.settle(Some((page_line(&page.lines[found]), made(line))));
                next = found + 1;
            }
            None => walk.made.push(made(line)),
        }
    }
    walk.gone.extend(page.lines[next..].iter().map(page_line));
    walk.settle(None);
    walk.changes
}

/// Way along the lines of a page and those of the transcription.
#[derive(Default)]
struct Walk {
    changes: Vec<Change>,
    /// Lines of the page since the last one that stays.
    gone: Vec<PageLine>,
    /// Lines of the transcription since then.
    made: Vec<PageLine>,
    /// The last line that stays, as it is after the changes so far.
    last: Option<PageLine>,
}

impl Walk {
    /// Turns what lies between two lines that stay into a change, and the second of them into another.
    fn settle(&mut self, stays: Option<(PageLine, PageLine)>) {
        let (mut replaces, mut lines) = (std::mem::take(&mut self.gone), std::mem::take(&mut self.made));
        let kept = lines
            .iter()
            .filter(|line| replaces.iter().any(|gone| gone.id == line.id));
        let kept = kept.count();
        let (added, deleted) = (lines.len() - kept, replaces.len() - kept);
        if replaces.is_empty() && !lines.is_empty() {
            // A line is added to a neighbour, which tells where it stands.
            if let Some(last) = &self.last {
                replaces.push(last.clone());
                lines.insert(0, last.clone());
            } else if let Some((next, _)) = &stays {
                replaces.push(next.clone());
                lines.push(next.clone());
            }
        }
        if replaces != lines {
            self.changes.push(Change {
                replaces,
                lines,
                changed: kept,
                added,
                deleted,
            });
        }
        if let Some((seen, line)) = stays {
            if seen != line {
                self.changes.push(Change {
                    replaces: vec![seen],
                    lines: vec![line.clone()],
                    changed: 1,
                    added: 0,
                    deleted: 0,
                });
            }
            self.last = Some(line);
        }
    }
}

/// Pairs each line with the one of the page that has most of its outline, each with one only, the best pair first.
fn find(wanted: &mut [Wanted<'_>], outlines: &[Vec<Point>]) {
    let bounds: Vec<Rect> = outlines.iter().map(|outline| bounding_rect(outline)).collect();
    let mut pairs = Vec::new();
    for (index, line) in wanted.iter().enumerate() {
        let own = bounding_rect(&line.outline);
        let shares = bounds
            .iter()
            .map(|other| Overlap::of_bounds(&own, other).of_union());
        let mut near: Vec<(f64, usize)> = shares.zip(0..).filter(|(share, _)| *share > 0.0).collect();
        near.sort_by(|(one, _), (other, _)| other.total_cmp(one));
        for (_, found) in near.into_iter().take(COMPARED) {
            let overlap = Overlap::of(&line.outline, &outlines[found]).of_union();
            if overlap >= SAME {
                pairs.push((overlap, index, found));
            }
        }
    }
    pairs.sort_by(|(one, ..), (other, ..)| other.total_cmp(one));
    let mut taken = vec![false; outlines.len()];
    for (_, index, found) in pairs {
        if wanted[index].found.is_none() && !taken[found] {
            wanted[index].found = Some(found);
            taken[found] = true;
        }
    }
}

/// Returns which lines stay where they are, for lines of the transcription and the lines of the page that they are. A line that was moved takes
/// those with it that it was moved past: both places are then in one change.
fn staying(found: &[Option<usize>]) -> Vec<bool> {
    let mut stays = increasing(found);
    loop {
        let place = |index: usize| Some((index, found[index]?));
        let (still, moved): (Vec<_>, Vec<_>) = (0..found.len())
            .filter_map(place)
            .partition(|(index, _)| stays[*index]);
        let crossed = still
            .iter()
            .find(|(index, at)| moved.iter().any(|(other, from)| (index < other) != (at < from)));
        let Some((index, _)) = crossed else {
            return stays;
        };
        stays[*index] = false;
    }
}

/// Returns which of the indices belong to the longest part that increases: those lines are in the same order on both sides.
fn increasing(found: &[Option<usize>]) -> Vec<bool> {
    // For each, the length of the longest part that ends with it, and the one before it.
    let mut ends: Vec<(usize, Option<usize>)> = Vec::with_capacity(found.len());
    for (index, here) in found.iter().enumerate() {
        let before = (0..index)
            .filter(|before| here.is_some() && found[*before].is_some() && found[*before] < *here)
            .max_by_key(|before| ends[*before].0);
        let length = usize::from(here.is_some()) + before.map_or(0, |before| ends[before].0);
        ends.push((length, before));
    }
    let mut stays = vec![false; found.len()];
    let mut at = (0..found.len())
        .filter(|index| found[*index].is_some())
        .max_by_key(|index| ends[*index].0);
    while let Some(index) = at {
        stays[index] = true;
        at = ends[index].1;
    }
    stays
}

/// The line as the transcription has it, as far as it says something else.
fn corrected(line: &LineDocument, outline: &[Point], wanted: &Wanted<'_>) -> PageLine {
    let mut corrected = page_line(line);
    if let Some(text) = wanted.text.filter(|text| *text != line.text.trim()) {
        text.clone_into(&mut corrected.text);
    }
    if wanted.outline != outline {
        corrected.polygon = pairs(&wanted.outline);
    }
    corrected
}

fn page_line(line: &LineDocument) -> PageLine {
    PageLine {
        id: line_id(line),
        polygon: pairs(&line.polygon),
        text: line.text.clone(),
    }
}

#[cfg(test)]
mod tests;
