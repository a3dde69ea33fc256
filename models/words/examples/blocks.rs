//! Finds the blocks of pages whose words are known, and writes them beside the words, in the form in which data sets score them.
//!
//!     cargo run --release -p parkhang-words --example blocks -- MODELS WORDS PICTURES OUT
//!
//! MODELS has the bundles of layout and tables, WORDS the files `NAME/page_N.json` of `node export --format bboxes`, PICTURES the same pages
//! as `NAME/page_N.png`.

#![expect(clippy::expect_used, reason = "a tool for developers, who read the message")]

use std::num::NonZeroUsize;
use std::path::{Path, PathBuf};

use parkhang_documents::{Page, PageWord, blocks, turn_of};
use parkhang_words::{ComputeDevice, load_layout, page_layout};
use serde::Deserialize;
use serde_json::{Value, json};

#[derive(Deserialize)]
struct Words {
    width: f32,
    height: f32,
    words: Vec<Word>,
}

#[derive(Deserialize)]
struct Word {
    text: String,
    bbox: [f32; 4],
    line: i32,
}

fn main() {
    let arguments: Vec<PathBuf> = std::env::args_os().skip(1).map(PathBuf::from).collect();
    let [models, words, pictures, out] = &arguments[..] else {
        eprintln!("four folders: MODELS WORDS PICTURES OUT");
        std::process::exit(2);
    };
    let device =
        ComputeDevice::open(&parkhang_words::DeviceSpec::cpu(NonZeroUsize::MIN)).expect("a processor");
    let models = load_layout(models, &device).expect("the bundles");
    for file in files(words) {
        let name = file.strip_prefix(words).expect("a file below the folder");
        let picture = pictures.join(name).with_extension("png");
        let Ok(picture) = image::open(&picture) else {
            eprintln!("no picture {}", picture.display());
            continue;
        };
        let bytes = std::fs::read(&file).expect("a file of words");
        let page: Words = serde_json::from_slice(&bytes).expect("words of a page");
        let picture = picture.into_rgb8();
        let scale = page.width / picture.width() as f32;
        let size = (picture.width() as f32, picture.height() as f32);
        let words: Vec<PageWord<'_>> = page
            .words
            .iter()
            .map(|word| PageWord {
                text: &word.text,
                bounds: word.bbox,
                line: word.line,
            })
            .collect();
        let turn = turn_of(&words);
        let boxes: Vec<[f32; 4]> = words
            .iter()
            .map(|word| {
                let pixels = word.bounds.map(|edge| edge / scale);
                turn.back().bounds_as_they_lie(pixels, turn.upright_size(size))
            })
            .collect();
        let upright = turn.undone(&picture).unwrap_or(picture);
        let layout = page_layout(&upright, &boxes, &models).expect("a layout");
        let layout = layout.mapped(|bounds| turn.bounds_as_they_lie(bounds, size).map(|edge| edge * scale));
        let input = Page {
            size: [page.width, page.height],
            words,
            turn,
            layout,
        };
        let found = blocks(&input);
        let mut answer: Value = serde_json::from_slice(&bytes).expect("words of a page");
        answer["blocks"] = found
            .iter()
            .map(|block| json!({"role": block.role, "bbox": block.bounds, "text": block.lines}))
            .collect();
        answer["tables"] = found
            .iter()
            .filter_map(|block| Some((block.bounds, block.table.as_ref()?)))
            .map(|(bounds, table)| {
                let cells = table.cells().iter().map(|cell| {
                    json!({
                        "row": cell.row, "col": cell.column, "rowspan": cell.row_span, "colspan": cell.column_span,
                        "text": cell.text, "bbox": cell.bounds,
                    })
                });
                json!({"bbox": bounds, "cells": cells.collect::<Vec<_>>()})
            })
            .collect();
        let words: Vec<Value> = found
            .iter()
            .flat_map(|block| &block.words)
            .filter_map(|&place| answer["words"].get(place).cloned())
            .collect();
        answer["words"] = words.into();
        let target = out.join(name);
        std::fs::create_dir_all(target.parent().expect("a folder")).expect("the folder of a volume");
        std::fs::write(&target, answer.to_string()).expect("a file of blocks");
    }
}

fn files(folder: &Path) -> Vec<PathBuf> {
    let mut files = Vec::new();
    for entry in std::fs::read_dir(folder).expect("a folder") {
        let path = entry.expect("an entry").path();
        if path.is_dir() {
            files.extend(self::files(&path));
        } else if path.extension().is_some_and(|extension| extension == "json") {
            files.push(path);
        }
    }
    files.sort();
    files
}
