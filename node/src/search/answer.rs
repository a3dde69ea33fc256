//! What a search has found.

use std::ops::Range;

use serde::Serialize;
use utoipa::ToSchema;

use crate::words::pluralize;

/// Letters of a passage that a terminal shows.
const SHOWN: usize = 160;

/// Pages that match.
#[derive(Debug, Serialize, ToSchema)]
pub struct Found {
    /// Number of pages that match.
    pub total: usize,
    /// The best of them, best first.
    pub hits: Vec<Hit>,
    /// Volumes that were searched.
    pub volumes: usize,
    /// Volumes that have been read but are not in the index yet; a later search finds them.
    pub behind: usize,
    /// True while an index is brought up to date; until then more may be behind.
    pub is_updating: bool,
    /// Reasons for which indexes are not up to date.
    pub troubles: Vec<String>,
}

/// Page that matches.
#[derive(Debug, Serialize, ToSchema)]
pub struct Hit {
    job: String,
    volume: String,
    /// Number of the page, from 1.
    page: u32,
    /// Name of its image.
    image_name: String,
    /// How well it matches; comparable within an answer only.
    score: f32,
    /// Lines that match best.
    lines: Vec<HitLine>,
    /// Text of the document's chunk by whose meaning the page was found.
    passage: Option<String>,
}

/// Line of a page that matches.
#[derive(Debug, Serialize, ToSchema)]
pub struct HitLine {
    /// Number of the line on the page, from 1.
    line: u32,
    /// Its text, in parts that match and parts that do not.
    parts: Vec<TextPart>,
}

/// Part of a line.
#[derive(Debug, Serialize, ToSchema)]
pub struct TextPart {
    text: String,
    is_match: bool,
}

impl Hit {
    /// A hit in the index of a job.
    pub fn of(job: &str, hit: parkhang_search::Hit) -> Self {
        Self {
            job: job.to_owned(),
            volume: hit.volume,
            page: hit.number,
            image_name: hit.name,
            score: hit.score,
            lines: hit.lines.iter().map(HitLine::of).collect(),
            passage: hit.passage,
        }
    }
}

impl Hit {
    /// The page for a terminal; an output folder is no job.
    fn place(&self) -> String {
        let place = format!("{} {} {}", self.job, self.volume, self.page);
        place.trim_start().to_owned()
    }
}

impl HitLine {
    fn of(line: &parkhang_search::HitLine) -> Self {
        let mut parts = Vec::new();
        let mut push = |range: Range<usize>, is_match| {
            let text = line.text.get(range).unwrap_or_default().to_owned();
            if !text.is_empty() {
                parts.push(TextPart { text, is_match });
            }
        };
        let mut from = 0;
        for mark in &line.marks {
            push(from..mark.start, false);
            push(mark.clone(), true);
            from = mark.end;
        }
        push(from..line.text.len(), false);
        Self {
            line: line.number,
            parts,
        }
    }

    fn text(&self) -> String {
        let parts = self.parts.iter().map(|part| {
            if part.is_match {
                format!("[{}]", part.text)
            } else {
                part.text.clone()
            }
        });
        parts.collect()
    }
}

impl Found {
    /// The answer for a terminal.
    pub fn text(&self) -> String {
        let mut lines = Vec::new();
        for hit in &self.hits {
            if hit.lines.is_empty() {
                let passage: String = hit
                    .passage
                    .iter()
                    .flat_map(|text| text.chars())
                    .take(SHOWN)
                    .collect();
                lines.push(format!("{}: {}", hit.place(), passage.replace('\n', " ")));
            }
            for line in &hit.lines {
                lines.push(format!("{}.{}: {}", hit.place(), line.line, line.text()));
            }
        }
        let pages = pluralize(self.total, "page");
        let volumes = pluralize(self.volumes, "volume");
        lines.push(match self.total {
            0 => format!("not found in {volumes}"),
            total if total > self.hits.len() => {
                format!("the best {} of {pages} in {volumes}", self.hits.len())
            }
            _ => format!("{pages} in {volumes}"),
        });
        let late = match self.behind {
            0 if self.is_updating => Some("the index is being brought up to date".to_owned()),
            0 => None,
            behind => Some(format!("{} not in the index yet", pluralize(behind, "volume"))),
        };
        lines.extend(late.map(|late| format!("{late}: search again, or with --wait")));
        lines.extend(self.troubles.iter().cloned());
        lines.join("\n")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_answer_says_what_it_lacks() {
        let text = |behind, is_updating| {
            let nothing = Found {
                total: 0,
                hits: Vec::new(),
                volumes: 0,
                behind,
                is_updating,
                troubles: Vec::new(),
            };
            nothing.text()
        };
        let again = "search again, or with --wait";
        assert_eq!(text(0, false), "not found in 0 volumes");
        assert_eq!(
            text(2, true),
            format!("not found in 0 volumes\n2 volumes not in the index yet: {again}")
        );
        assert_eq!(
            text(0, true),
            format!("not found in 0 volumes\nthe index is being brought up to date: {again}")
        );
    }
}
