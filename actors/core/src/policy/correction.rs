//! Corrections of a page: what the edits of people have made of its lines.
//!
//! Edits are kept as they were made, and folded into corrections when a page is read. A correction is a group of lines that were read and those
//! that stand in their place now. Edits of different lines make corrections that know nothing of each other, so a later reading of
//! the page may keep one and have no place for the other.

use chrono::{DateTime, Utc};

use crate::domain::{Edit, PageLine, RecordedEdit};

/// Corrections of a page, in the order in which they were begun.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct PageCorrections {
    pub corrections: Vec<Correction>,
    /// Number of edits of the page.
    pub revision: u32,
}

/// Lines that stand in the place of lines that were read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Correction {
    /// Lines as they were read.
    pub originals: Vec<PageLine>,
    pub lines: Vec<CorrectedLine>,
    /// Name of the person who edited it last.
    pub who: String,
    /// Time of the last edit.
    pub at: DateTime<Utc>,
}

/// Line of a correction, with who has made it what it is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CorrectedLine {
    pub line: PageLine,
    pub who: String,
    pub at: DateTime<Utc>,
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
    /// Returns the original that a line is, if nobody has changed more of it than its place in the order.
    pub fn original_of(&self, line: &PageLine) -> Option<usize> {
        self.originals.iter().position(|original| original == line)
    }

    fn has(&self, id: &str) -> bool {
        self.lines.iter().any(|corrected| corrected.line.id == id)
    }

    /// Returns whether a line that was read is no more.
    fn has_lost(&self, id: &str) -> bool {
        self.originals.iter().any(|original| original.id == id) && !self.has(id)
    }

    fn is_nothing(&self) -> bool {
        self.lines
            .iter()
            .map(|corrected| &corrected.line)
            .eq(&self.originals)
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
            let line = correction.lines.iter().find(|corrected| corrected.line.id == id);
            line.map(|line| (correction, line))
        })
    }

    fn add(&mut self, recorded: &RecordedEdit) {
        let Edit { replaces, lines, .. } = &recorded.edit;
        self.revision = self.revision.max(recorded.revision);
        let authored = |line: &PageLine| CorrectedLine {
            line: line.clone(),
            who: recorded.who.clone(),
            at: recorded.at,
        };
        let mut place = None;
        let (mut originals, mut before) = (Vec::new(), Vec::new());
        // In the order of the page, which the edit knows and the order of the corrections does not tell.
        for seen in replaces {
            if before
                .iter()
                .any(|corrected: &CorrectedLine| corrected.line.id == seen.id)
            {
                continue;
            }
            match self.take(|correction| correction.has(&seen.id)) {
                Some((at, correction)) => {
                    place = place.or(Some(at));
                    originals.extend(correction.originals);
                    before.extend(correction.lines);
                }
                None => {
                    originals.push(seen.clone());
                    before.push(authored(seen));
                }
            }
        }
        // A line that comes back, as when a deletion is undone, comes back to where it was deleted.
        for line in lines {
            if let Some((at, correction)) = self.take(|correction| correction.has_lost(&line.id)) {
                place = place.or(Some(at));
                originals.extend(correction.originals);
                before.extend(correction.lines);
            }
        }
        let seen_of = |id: &str| replaces.iter().find(|seen| seen.id == id);
        for original in &mut originals {
            let is_kept = before.iter().any(|corrected| corrected.line == *original);
            // What was read may have changed since its neighbour was corrected.
            if let Some(seen) = seen_of(&original.id).filter(|_| is_kept) {
                *original = seen.clone();
            }
        }
        let is_replaced = |corrected: &CorrectedLine| seen_of(&corrected.line.id).is_some();
        let first = before.iter().position(is_replaced).unwrap_or(before.len());
        // A line that was moved is still its author's.
        let made = |line: &PageLine| {
            let same = before.iter().find(|corrected| corrected.line == *line);
            same.cloned().unwrap_or_else(|| authored(line))
        };
        let made: Vec<CorrectedLine> = lines.iter().map(made).collect();
        let rest = before.split_off(first).into_iter();
        before.extend(made);
        before.extend(rest.filter(|corrected| !is_replaced(corrected)));
        let correction = Correction {
            originals,
            lines: before,
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
