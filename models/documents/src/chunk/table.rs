//! Texts of tables: a line for each row, with the lines of its head repeated in every chunk.

use super::cut::cut;
use super::{ChunkLimits, Tokens};
use crate::block::Table;

/// Sign between the cells of a row.
const BAR: &str = " | ";

/// Lines of a table, to be made chunks of.
pub(super) struct TableText<'t> {
    /// Lines that stand in every chunk; empty for a table without a head.
    head: String,
    /// Lines with their tokens, each short enough for a chunk.
    rows: Vec<(String, usize)>,
    limits: ChunkLimits,
    tokens: &'t Tokens<'t>,
}

/// Texts of a table's chunks.
pub(super) struct TableChunks {
    /// With their tokens, in order.
    pub texts: Vec<(String, usize)>,
    /// True if what stands below the table is in the last of them.
    pub has_below: bool,
}

impl<'t> TableText<'t> {
    pub(super) fn new(table: &Table, limits: ChunkLimits, tokens: &'t Tokens<'t>) -> Self {
        let lines = lines(table);
        let heads = lines.iter().take_while(|line| line.is_head).count();
        let (head, rows) = lines.split_at(if heads < lines.len() { heads } else { 0 });
        let head = head
            .iter()
            .map(|line| line.text.as_str())
            .collect::<Vec<_>>()
            .join("\n");
        let head_tokens = tokens(&head).len();
        // A head that leaves little room stands above its first rows alone.
        let (head, rows, room) = if head_tokens <= limits.max / 2 {
            (head, rows, limits.max - head_tokens)
        } else {
            (String::new(), &lines[..], limits.max)
        };
        let mut fitting = Vec::with_capacity(rows.len());
        for row in rows.iter().filter(|row| !row.text.is_empty()) {
            let whole = tokens(&row.text).len();
            if whole <= room {
                fitting.push((row.text.clone(), whole));
            } else {
                let cuts = cut(&row.text, room, tokens).into_iter();
                fitting.extend(cuts.map(|cut| (row.text[cut.range].to_owned(), cut.tokens)));
            }
        }
        Self {
            rows: fitting,
            head,
            limits,
            tokens,
        }
    }

    /// True if there is nothing in its cells.
    pub(super) fn is_empty(&self) -> bool {
        self.rows.is_empty()
    }

    /// True if there is room for the head and a row below `lead`.
    pub(super) fn has_room_below(&self, lead: &str) -> bool {
        let least = self.joined(lead, self.rows.get(..1).unwrap_or_default());
        (self.tokens)(&least).len() <= self.limits.max
    }

    /// The chunks of the table, the first of them below `lead`, which there is room for, and the last above `below` if it has room.
    pub(super) fn chunks(&self, lead: &str, below: &str) -> TableChunks {
        let mut texts: Vec<(String, usize)> = Vec::new();
        let mut rows = &self.rows[..];
        while !rows.is_empty() {
            let lead = if texts.is_empty() { lead } else { "" };
            let (text, tokens, taken) = self.chunk(lead, rows);
            texts.push((text, tokens));
            rows = &rows[taken..];
        }
        let mut has_below = false;
        if let Some(last) = texts.last_mut()
            && !below.is_empty()
        {
            let text = format!("{}\n{below}", last.0);
            let tokens = (self.tokens)(&text).len();
            has_below = tokens <= self.limits.max;
            if has_below {
                *last = (text, tokens);
            }
        }
        TableChunks { texts, has_below }
    }

    /// The longest text of the first rows, its tokens and its number of rows: one at least.
    fn chunk(&self, lead: &str, rows: &[(String, usize)]) -> (String, usize, usize) {
        let mut taken = 0;
        let mut length = (self.tokens)(&self.joined(lead, &[])).len();
        while let Some(row) = rows.get(taken)
            && length + row.1 <= self.limits.max
        {
            length += row.1;
            taken += 1;
        }
        // Lines may have more tokens together than one by one.
        for taken in (1..=taken.max(1)).rev() {
            let text = self.joined(lead, &rows[..taken]);
            let tokens = (self.tokens)(&text).len();
            if tokens <= self.limits.max {
                return (text, tokens, taken);
            }
        }
        let (text, tokens) = rows[0].clone();
        (text, tokens, 1)
    }

    fn joined(&self, lead: &str, rows: &[(String, usize)]) -> String {
        let rows = rows.iter().map(|row| row.0.as_str());
        let lines = [lead, &self.head].into_iter().chain(rows);
        lines
            .filter(|line| !line.is_empty())
            .collect::<Vec<_>>()
            .join("\n")
    }
}

struct Line {
    text: String,
    is_head: bool,
}

fn lines(table: &Table) -> Vec<Line> {
    let mut rows: Vec<Vec<(usize, String, bool)>> = vec![Vec::new(); table.rows()];
    for cell in table.cells() {
        let text = cell.text.split_whitespace().collect::<Vec<_>>().join(" ");
        rows[cell.row].push((cell.column, text, cell.is_header));
    }
    rows.into_iter()
        .map(|mut cells| {
            cells.sort_by_key(|cell| cell.0);
            let texts: Vec<&str> = cells.iter().map(|cell| cell.1.as_str()).collect();
            let used = texts
                .iter()
                .rposition(|text| !text.is_empty())
                .map_or(0, |last| last + 1);
            Line {
                text: texts[..used].join(BAR),
                is_head: !cells.is_empty() && cells.iter().all(|cell| cell.2),
            }
        })
        .collect()
}
