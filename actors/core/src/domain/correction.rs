//! Edits of pages: what people put in the place of lines that were read.

use chrono::{DateTime, Utc};
use serde::{Deserialize, Serialize};
use uuid::Uuid;

use super::{JobKey, VolumeId};

/// Largest number of letters of a line.
const MOST_LETTERS: usize = 4000;
/// Largest number of corners of an outline.
pub const MOST_CORNERS: usize = 400;
/// Largest number of lines on either side of an edit.
const MOST_LINES: usize = 500;
/// Largest length of a line's id, in bytes. Those of lines that were read are UUIDs.
const LONGEST_ID: usize = 300;

/// Line of a page: one that was read, or one that a person has written.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PageLine {
    /// Id within the page: that of the reading, or one that whoever added the line has made.
    pub id: String,
    /// Corners of its outline in pixels of the scan, each as x and y.
    pub polygon: Vec<[i32; 2]>,
    pub text: String,
}

/// Edit of a page: the lines that a person saw, and those that are to take their place, where the first of them was.
///
/// So everything that can be done to lines is one kind of edit. A line whose text or outline is changed keeps its id; a deleted one has none in
/// its place; a line is added by an edit that replaces its neighbour by the neighbour and the line; lines are moved by one that
/// replaces them by themselves in another order. An edit is undone by its inverse.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Edit {
    /// Identity of the edit, made by whoever makes it, so that it can be sent again after an answer that was lost.
    pub id: Uuid,
    pub replaces: Vec<PageLine>,
    pub lines: Vec<PageLine>,
}

/// Edit that was accepted.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RecordedEdit {
    pub volume: VolumeId,
    /// Name of the page's image.
    pub image: String,
    /// Number of the edit on its page, from 1.
    pub revision: u32,
    /// Job whose reading was edited.
    pub job: JobKey,
    pub who: String,
    pub at: DateTime<Utc>,
    pub edit: Edit,
}

/// Reason for which an edit means nothing.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum InvalidEdit {
    #[error("an edit has at most {MOST_LINES} lines on either side, not {0}")]
    Lines(usize),
    #[error("an edit without lines changes nothing")]
    Nothing,
    #[error("the id of a line has 1 to {LONGEST_ID} bytes and no control characters; {0:?} has not")]
    Id(String),
    #[error("two lines of an edit have the id {0}")]
    Repeated(String),
    #[error("a line has at most {MOST_LETTERS} letters and no control characters: line {0}")]
    Text(String),
    #[error(
        "an outline has 3 to {MOST_CORNERS} corners on the page, which has {width} by {height} pixels: line {line}"
    )]
    Outline { line: String, width: u32, height: u32 },
}

impl Edit {
    /// Checks an edit of a page of this size, in pixels. Outlines that were read may reach beyond the page: those of the lines that are replaced, and
    /// those of the lines `known`, which come back when an edit is undone.
    ///
    /// # Errors
    ///
    /// [`InvalidEdit`] if it changes nothing, is too large, or a new line has no place on the page.
    pub fn validated(self, (width, height): (u32, u32), known: &[&PageLine]) -> Result<Self, InvalidEdit> {
        if self.replaces == self.lines {
            return Err(InvalidEdit::Nothing);
        }
        for side in [&self.replaces, &self.lines] {
            if side.len() > MOST_LINES {
                return Err(InvalidEdit::Lines(side.len()));
            }
            for (index, line) in side.iter().enumerate() {
                line.validated()?;
                if side.iter().take(index).any(|other| other.id == line.id) {
                    return Err(InvalidEdit::Repeated(line.id.clone()));
                }
            }
        }
        for line in &self.lines {
            let mut read = self.replaces.iter().chain(known.iter().copied());
            let is_kept = read.any(|read| read.polygon == line.polygon);
            if !is_kept && !line.is_on_page((width, height)) {
                return Err(InvalidEdit::Outline {
                    line: line.id.clone(),
                    width,
                    height,
                });
            }
        }
        Ok(self)
    }
}

impl PageLine {
    fn validated(&self) -> Result<(), InvalidEdit> {
        if self.id.is_empty() || self.id.len() > LONGEST_ID || self.id.chars().any(char::is_control) {
            return Err(InvalidEdit::Id(self.id.clone()));
        }
        if self.text.chars().count() > MOST_LETTERS || self.text.chars().any(char::is_control) {
            return Err(InvalidEdit::Text(self.id.clone()));
        }
        if self.polygon.len() > MOST_CORNERS {
            // Sizes of the page do not matter here.
            return Err(InvalidEdit::Outline {
                line: self.id.clone(),
                width: 0,
                height: 0,
            });
        }
        Ok(())
    }

    fn is_on_page(&self, (width, height): (u32, u32)) -> bool {
        let within = |at: i32, length: u32| u32::try_from(at).is_ok_and(|at| at <= length);
        let on_page = |[x, y]: &[i32; 2]| within(*x, width) && within(*y, height);
        self.polygon.len() >= 3 && self.polygon.iter().all(on_page)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn line(id: &str, text: &str) -> PageLine {
        PageLine {
            id: id.to_owned(),
            polygon: vec![[0, 0], [100, 0], [100, 20]],
            text: text.to_owned(),
        }
    }

    fn edit(replaces: &[PageLine], lines: &[PageLine]) -> Result<Edit, InvalidEdit> {
        let edit = Edit {
            id: Uuid::nil(),
            replaces: replaces.to_vec(),
            lines: lines.to_vec(),
        };
        edit.validated((100, 50), &[])
    }

    #[test]
    fn an_edit_is_checked_before_it_is_kept() {
        let seen = line("a", "ཀ");
        assert!(edit(std::slice::from_ref(&seen), &[line("a", "ཁ")]).is_ok());
        assert!(edit(std::slice::from_ref(&seen), &[]).is_ok());
        assert_eq!(edit(&[], &[]), Err(InvalidEdit::Nothing));
        assert_eq!(
            edit(&[], &[line("a", "ཀ"), line("a", "ཁ")]),
            Err(InvalidEdit::Repeated("a".to_owned()))
        );
        assert_eq!(
            edit(&[], &[line("a\tb", "ཀ")]),
            Err(InvalidEdit::Id("a\tb".to_owned()))
        );
        for text in ["ཀ\nཁ".to_owned(), "ཀ".repeat(4001)] {
            assert_eq!(
                edit(&[], &[line("a", &text)]),
                Err(InvalidEdit::Text("a".to_owned()))
            );
        }
        let many: Vec<PageLine> = (0..501).map(|number| line(&number.to_string(), "")).collect();
        assert_eq!(edit(&[], &many), Err(InvalidEdit::Lines(501)));
    }

    #[test]
    fn a_new_outline_is_on_the_page_and_an_old_one_may_not_be() {
        let beyond = |text: &str| PageLine {
            polygon: vec![[-5, 0], [120, 0], [120, 20]],
            ..line("a", text)
        };
        assert!(edit(&[beyond("ཀ")], &[beyond("ཁ")]).is_ok());
        assert!(matches!(
            edit(&[line("a", "ཀ")], &[beyond("ཁ")]),
            Err(InvalidEdit::Outline { .. })
        ));
        let back = Edit {
            id: Uuid::nil(),
            replaces: Vec::new(),
            lines: vec![beyond("ཀ")],
        };
        assert!(back.clone().validated((100, 50), &[]).is_err());
        assert!(back.validated((100, 50), &[&beyond("ཁ")]).is_ok());
        let flat = PageLine {
            polygon: vec![[0, 0], [1, 1]],
            ..line("a", "ཀ")
        };
        assert!(matches!(edit(&[], &[flat]), Err(InvalidEdit::Outline { .. })));
        let round = PageLine {
            polygon: vec![[1, 1]; 401],
            ..line("a", "ཀ")
        };
        assert!(matches!(edit(&[round], &[]), Err(InvalidEdit::Outline { .. })));
    }
}
