//! Words of pages with their boxes as JSON, one file a page, as web viewers read them; and, of documents, the blocks and tables.

use std::path::PathBuf;

use anyhow::Result;
use parkhang_documents::{Block, Cell, DocumentPage};
use serde_json::{Value, json};

use super::blocks::VolumeBlocks;
use super::words::VolumeWords;

/// Writes a file for each page of a volume below `folder`, and returns the folder.
///
/// # Errors
///
/// If a file cannot be written.
pub fn write_boxes(words: &VolumeWords, blocks: Option<&VolumeBlocks>, folder: PathBuf) -> Result<PathBuf> {
    for boxes in words.pages() {
        let path = folder.join(format!("page_{}.json", boxes.number()));
        let Some(page) = blocks.and_then(|blocks| blocks.page(boxes.number())) else {
            super::write(&path, &boxes.to_json()?)?;
            continue;
        };
        let mut whole = serde_json::to_value(boxes)?;
        whole["blocks"] = blocks_json(page);
        whole["tables"] = tables_json(page);
        let mut bytes = serde_json::to_vec(&whole)?;
        bytes.push(b'\n');
        super::write(&path, &bytes)?;
    }
    Ok(folder)
}

fn blocks_json(page: &DocumentPage) -> Value {
    let block = |block: &Block| {
        json!({
            "role": block.role,
            "bbox": rounded(block.bounds),
            "text": block.lines.join("\n"),
        })
    };
    page.blocks.iter().map(block).collect()
}

fn tables_json(page: &DocumentPage) -> Value {
    let cell = |cell: &Cell| {
        json!({
            "row": cell.row,
            "col": cell.column,
            "rowspan": cell.row_span,
            "colspan": cell.column_span,
            "header": cell.is_header,
            "text": cell.text,
            "bbox": rounded(cell.bounds),
        })
    };
    let tables = page
        .blocks
        .iter()
        .filter_map(|block| Some((block.bounds, block.table.as_ref()?)));
    tables
        .map(|(bounds, table)| {
            json!({
                "bbox": rounded(bounds),
                "rows": table.rows(),
                "columns": table.columns(),
                "cells": table.cells().iter().map(cell).collect::<Value>(),
            })
        })
        .collect()
}

/// Points to the hundredth, as words have them.
fn rounded(bounds: [f32; 4]) -> [f64; 4] {
    bounds.map(|edge| (f64::from(edge) * 100.0).round() / 100.0)
}
