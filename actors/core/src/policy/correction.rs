//! Corrections of a page: what the edits of people have made of its lines.
//!
//! Edits are kept as they were made, and folded into corrections when a page is read. A correction is a group of lines that were read and those
//! that stand in their place now. Edits of different lines make corrections that know nothing of each other, so a later reading of
//! the page may keep one and have no place for the other.

use chrono::{DateTime, Utc};

use crate::domain::{Edit, PageLine, RecordedEdit};

/// Largest number of edits of a page. All of them are read whenever the page is shown, and none is ever deleted.
pub const MOST_EDITS: u32 = 10_000;
/// Largest number of letters and corners in the lines that the edits of a page name, each line as [`SIGNS_OF_LINE`] more: about 400 of each of
/// its edits.
pub const MOST_SIGNS: u64 = 4_000_000;
/// Largest number of lines that people may have put on a page. They are compared with the lines that are read there.
pub const MOST_LINES: usize = 2000;

/// Signs that a line counts as besides those that it has.
const SIGNS_OF_LINE: u64 = 40;

/// Corrections of a page, in the order in which they were begun.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct PageCorrections {
    pub corrections: Vec<Correction>,
    /// Number of edits of the page.
    pub revision: u32,
    /// Number of letters and corners in the lines of the edits.
    signs: u64,
}

/// Lines that stand in the place of lines that were read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Correction {
    /// Lines as they were read.
    pub originals: Vec<PageLine>,
    /// Name of the person who edited it last.
    pub who: String,
    /// Time of the last edit.
    pub at: DateTime<Utc>,
    slots: Vec<Slot>,
}

/// Line of a correction, with who has made it what it is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CorrectedLine {
    pub line: PageLine,
    pub who: String,
    pub at: DateTime<Utc>,
}

/// Place in a correction.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Slot {
    Line(CorrectedLine),
    /// Former place of a line of this id, which comes back there when its deletion is undone.
    Gone(String),
}

/// Reason for which an edit cannot be accepted: it changes a line that is not any more as its author saw it.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{who} has changed line {line} since, at {}", .at.format("%F %T UTC"))]
pub struct Conflict {
    /// Id of the line.
    pub line: String,
    pub who: String,
    pub at: DateTime<Utc>,
}

impl Correction {
    /// Lines that stand in the place of the originals, in reading order.
    pub fn lines(&self) -> impl Iterator<Item = &CorrectedLine> {
        self.slots.iter().filter_map(Slot::line)
    }

    /// Returns the original that a line is, if nobody has changed more of it than its place in the order.
    pub fn original_of(&self, line: &PageLine) -> Option<usize> {
        self.originals.iter().position(|original| original == line)
    }

    fn has(&self, id: &str) -> bool {
        self.lines().any(|corrected| corrected.line.id == id)
    }

    /// Returns whether a line is no more that was read, or that a person had written.
    fn has_lost(&self, id: &str) -> bool {
        self.slots
            .iter()
            .any(|slot| matches!(slot, Slot::Gone(gone) if gone == id))
    }

    fn is_nothing(&self) -> bool {
        self.lines().map(|corrected| &corrected.line).eq(&self.originals)
    }
}

impl Slot {
    fn line(&self) -> Option<&CorrectedLine> {
        match self {
            Self::Line(line) => Some(line),
            Self::Gone(_) => None,
        }
    }

    fn is_line_of(&self, lines: &[PageLine]) -> bool {
        self.line().is_some() && lines.iter().any(|line| line.id == self.id())
    }

    fn id(&self) -> &str {
        match self {
            Self::Line(corrected) => &corrected.line.id,
            Self::Gone(id) => id,
        }
    }
}

impl PageCorrections {
    /// Folds the edits of a page, the oldest first.
    pub fn of<'e>(edits: impl IntoIterator<Item = &'e RecordedEdit>) -> Self {
        let mut corrections = Self::default();
        for edit in edits {
            corrections.add(edit);
        }
        corrections
    }

    /// Returns whether the page takes an edit: it may have so many edits and so many signs in them, and so many lines that people put there.
    pub fn has_room(&self, edit: &Edit) -> bool {
        let lines = || {
            self.corrections
                .iter()
                .map(|correction| correction.lines().count())
        };
        let added = edit.lines.len().saturating_sub(edit.replaces.len());
        self.revision < MOST_EDITS
            && self.signs < MOST_SIGNS
            && (added == 0 || lines().sum::<usize>() + added <= MOST_LINES)
    }

    /// Returns why an edit cannot be made now, if it cannot.
    pub fn conflict(&self, edit: &Edit) -> Option<Conflict> {
        for seen in &edit.replaces {
            let found = self.find(&seen.id);
            if let Some((correction, corrected)) = found
                // What was read may differ from what was read when its neighbour was corrected.
                && correction.original_of(&corrected.line).is_none()
                && corrected.line != *seen
            {
                return Some(Conflict::new(&seen.id, &corrected.who, corrected.at));
            }
            let gone = self
                .corrections
                .iter()
                .find(|correction| correction.has_lost(&seen.id));
            if let Some(correction) = gone.filter(|_| found.is_none()) {
                return Some(Conflict::new(&seen.id, &correction.who, correction.at));
            }
        }
        let is_replaced = |id: &str| edit.replaces.iter().any(|seen| seen.id == id);
        let taken = edit.lines.iter().filter(|line| !is_replaced(&line.id));
        taken
            .filter_map(|line| self.find(&line.id))
            .map(|(_, corrected)| Conflict::new(&corrected.line.id, &corrected.who, corrected.at))
            .next()
    }

    fn find(&self, id: &str) -> Option<(&Correction, &CorrectedLine)> {
        self.corrections.iter().find_map(|correction| {
            let line = correction.lines().find(|corrected| corrected.line.id == id);
            line.map(|line| (correction, line))
        })
    }

    fn add(&mut self, recorded: &RecordedEdit) {
        let Edit { replaces, lines, .. } = &recorded.edit;
        self.revision = self.revision.max(recorded.revision);
        self.signs += replaces.iter().chain(lines).map(signs_of).sum::<u64>();
        let authored = |line: &PageLine| CorrectedLine {
            line: line.clone(),
            who: recorded.who.clone(),
            at: recorded.at,
        };
        let mut place = None;
        let (mut originals, mut slots) = (Vec::new(), Vec::<Slot>::new());
        // In the order of the page, which the edit knows and the order of the corrections does not tell.
        for seen in replaces {
            if slots
                .iter()
                .any(|slot| slot.line().is_some() && slot.id() == seen.id)
            {
                continue;
            }
            match self.take(|correction| correction.has(&seen.id)) {
                Some((at, correction)) => {
                    place = place.or(Some(at));
                    originals.extend(correction.originals);
                    slots.extend(correction.slots);
                }
                None => {
                    originals.push(seen.clone());
                    slots.push(Slot::Line(authored(seen)));
                }
            }
        }
        // A line that comes back, as when a deletion is undone, comes back to where it was.
        for line in lines {
            if let Some((at, correction)) = self.take(|correction| correction.has_lost(&line.id)) {
                place = place.or(Some(at));
                originals.extend(correction.originals);
                slots.extend(correction.slots);
            }
        }
        let seen_of = |id: &str| replaces.iter().find(|seen| seen.id == id);
        for original in &mut originals {
            let is_kept = slots
                .iter()
                .filter_map(Slot::line)
                .any(|corrected| corrected.line == *original);
            // What was read may have changed since its neighbour was corrected.
            if let Some(seen) = seen_of(&original.id).filter(|_| is_kept) {
                *original = seen.clone();
            }
        }
        // A line that was moved is still its author's.
        let made = |line: &PageLine| {
            let mut known = slots.iter().filter_map(Slot::line);
            let same = known.find(|corrected| corrected.line == *line);
            Slot::Line(same.cloned().unwrap_or_else(|| authored(line)))
        };
        let made: Vec<Slot> = lines.iter().map(made).collect();
        let slots = put(slots, replaces, made);
        let correction = Correction {
            originals,
            slots,
            who: recorded.who.clone(),
            at: recorded.at,
        };
        if !correction.is_nothing() {
            let place = place.unwrap_or(self.corrections.len());
            self.corrections
                .insert(place.min(self.corrections.len()), correction);
        }
    }

    /// Takes out a correction, with its place.
    fn take(&mut self, is_wanted: impl Fn(&Correction) -> bool) -> Option<(usize, Correction)> {
        let at = self.corrections.iter().position(is_wanted)?;
        Some((at, self.corrections.remove(at)))
    }
}

/// Number of letters and corners of a line, and what it counts as besides.
fn signs_of(line: &PageLine) -> u64 {
    let signs = line.text.chars().count() + line.polygon.len();
    u64::try_from(signs)
        .unwrap_or(u64::MAX)
        .saturating_add(SIGNS_OF_LINE)
}

/// Puts lines in the place of those that they replace. One whose id was there already stands where that was, or was before it was deleted, and those
/// behind it go with it, unless lines were moved past each other; the others stand where the first of what is replaced was.
fn put(slots: Vec<Slot>, replaces: &[PageLine], made: Vec<Slot>) -> Vec<Slot> {
    let is_free = |slot: &Slot| slot.line().is_none() || slot.is_line_of(replaces);
    let place = |line: &Slot| {
        slots
            .iter()
            .position(|slot| is_free(slot) && slot.id() == line.id())
    };
    let places: Vec<usize> = made.iter().filter_map(place).collect();
    let is_moved = !places.is_sorted();
    let first = slots.iter().position(|slot| slot.is_line_of(replaces));
    let first = first.or(places.first().copied()).unwrap_or(slots.len());
    let ids: Vec<String> = made.iter().map(|slot| slot.id().to_owned()).collect();
    let mut parts: Vec<(usize, Vec<Slot>)> = vec![(first, Vec::new())];
    for line in made {
        if let Some(place) = place(&line).filter(|_| !is_moved) {
            parts.push((place, Vec::new()));
        }
        if let Some((_, lines)) = parts.last_mut() {
            lines.push(line);
        }
    }
    let mut all = Vec::new();
    let mut parts = parts.into_iter().peekable();
    for (index, slot) in slots.into_iter().enumerate() {
        while let Some((_, lines)) = parts.next_if(|(place, _)| *place <= index) {
            all.extend(lines);
        }
        let is_made = ids.iter().any(|id| id == slot.id());
        match slot {
            slot if is_free(&slot) && is_made => {}
            slot if slot.is_line_of(replaces) => all.push(Slot::Gone(slot.id().to_owned())),
            slot => all.push(slot),
        }
    }
    all.extend(parts.flat_map(|(_, lines)| lines));
    all
}

impl Conflict {
    fn new(line: &str, who: &str, at: DateTime<Utc>) -> Self {
        Self {
            line: line.to_owned(),
            who: who.to_owned(),
            at,
        }
    }
}

#[cfg(test)]
mod tests;
