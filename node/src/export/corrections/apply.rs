//! Documents with the corrections of people.

use std::collections::BTreeMap;
use std::sync::Arc;

use chrono::{DateTime, Utc};
use parkhang_core::domain::PageLine;
use parkhang_core::policy::correction::{CorrectedLine, Correction, PageCorrections};
use serde::Serialize;
use utoipa::ToSchema;
use uuid::Uuid;

use super::super::document::{Corrected, LineDocument, PageDocument, VolumeDocument};
use super::place::{Item, ReadLine, outline, place};

/// Namespace of the ids of lines that were read.
const LINES: Uuid = Uuid::from_u128(0x2a1f_63d0_0b5e_4c7b_8f0e_9a3c_51d8_7e46);

/// Volume with the corrections of its pages.
#[derive(Debug, Clone)]
pub struct CorrectedVolume {
    /// As it was read.
    pub read: Arc<VolumeDocument>,
    pub document: Arc<VolumeDocument>,
    /// Pages that people have edited, by the names of their images.
    pub pages: BTreeMap<String, PageState>,
}

/// Page with the corrections of people.
#[derive(Debug, Clone)]
pub struct CorrectedPage {
    pub page: PageDocument,
    pub state: PageState,
}

impl CorrectedPage {
    /// Puts corrections in the place of what was read.
    pub fn new(mut page: PageDocument, corrections: &PageCorrections) -> Self {
        let state = correct(&mut page, corrections);
        Self { page, state }
    }
}

/// What is known of the edits of a page.
#[derive(Debug, Clone, Default)]
pub struct PageState {
    /// Number of edits.
    pub revision: u32,
    /// Corrections of lines that the page does not have any more.
    pub unplaced: Vec<Unplaced>,
    /// Corrections that have a place.
    pub placed: Vec<Correction>,
}

/// Correction of lines that are not found on the page any more.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, ToSchema)]
pub struct Unplaced {
    /// Lines as they were read.
    #[schema(value_type = Vec<Object>)]
    pub replaces: Vec<PageLine>,
    /// Lines that were to stand in their place.
    #[schema(value_type = Vec<Object>)]
    pub lines: Vec<PageLine>,
    pub who: String,
    pub at: DateTime<Utc>,
}

impl CorrectedVolume {
    /// Puts corrections in the place of what was read.
    pub fn new(read: Arc<VolumeDocument>, corrections: BTreeMap<String, PageCorrections>) -> Self {
        let mut states = BTreeMap::new();
        if corrections.is_empty() {
            return Self {
                document: read.clone(),
                read,
                pages: states,
            };
        }
        let mut document = VolumeDocument::clone(&read);
        for page in &mut document.pages {
            if let Some(corrections) = corrections.get(&page.image_name) {
                states.insert(page.image_name.clone(), correct(page, corrections));
            }
        }
        Self {
            read,
            document: Arc::new(document),
            pages: states,
        }
    }
}

/// Id of a line on its page: that which people know it by if one of them has made it, and else one that only the same line in the same
/// place has. The guid would not do, as it is that of the n-th line of the page, whatever was found before it.
pub fn line_id(line: &LineDocument) -> String {
    if line.corrected.is_some() {
        return line.guid.clone();
    }
    let mut identity = line.guid.clone();
    for corner in &line.polygon {
        identity.push_str(&format!(" {},{}", corner.x, corner.y));
    }
    Uuid::new_v5(&LINES, identity.as_bytes()).to_string()
}

fn correct(page: &mut PageDocument, corrections: &PageCorrections) -> PageState {
    let all = &corrections.corrections;
    let ids: Vec<String> = page.lines.iter().map(line_id).collect();
    let read: Vec<ReadLine<'_>> = ids
        .iter()
        .zip(&page.lines)
        .map(|(id, line)| ReadLine {
            id,
            polygon: &line.polygon,
        })
        .collect();
    let placement = place(&read, all);
    let lines: Vec<Vec<&CorrectedLine>> = all
        .iter()
        .map(|correction| correction.lines().collect())
        .collect();
    let line = |item: &Item| match *item {
        Item::Read(index) => page.lines[index].clone(),
        Item::Corrected { correction, line } => line_document(lines[correction][line]),
    };
    page.lines = placement.items.iter().map(line).collect();
    let is_unplaced = |index: &usize| placement.unplaced.contains(index);
    let (unplaced, placed): (Vec<usize>, Vec<usize>) = (0..all.len()).partition(is_unplaced);
    PageState {
        revision: corrections.revision,
        unplaced: unplaced
            .into_iter()
            .map(|index| Unplaced::of(&all[index]))
            .collect(),
        placed: placed.into_iter().map(|index| all[index].clone()).collect(),
    }
}

impl Unplaced {
    fn of(correction: &Correction) -> Self {
        let lines = correction.lines();
        Self {
            replaces: correction.originals.clone(),
            lines: lines.map(|corrected| corrected.line.clone()).collect(),
            who: correction.who.clone(),
            at: correction.at,
        }
    }
}

fn line_document(CorrectedLine { line, who, at }: &CorrectedLine) -> LineDocument {
    LineDocument {
        guid: line.id.clone(),
        polygon: outline(line),
        text: line.text.clone(),
        encoding: "unicode".to_owned(),
        // A person is sure, and has told no places of syllables.
        confidence: None,
        segments: Vec::new(),
        corrected: Some(Corrected {
            who: who.clone(),
            at: *at,
        }),
    }
}
