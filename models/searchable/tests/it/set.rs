//! The labelled set of PDFs, with the words that its pages show.

use std::path::Path;
use std::sync::Arc;

use parkhang_searchable::{OwnText, SearchableError, Spacing, TextLayer, Word};
use serde::Deserialize;

use crate::reader;

#[derive(Debug, Deserialize)]
struct Truth {
    width: f64,
    height: f64,
    words: Vec<TrueWord>,
}

#[derive(Debug, Deserialize)]
struct TrueWord {
    text: String,
    bbox: [f32; 4],
    line: u32,
}

#[test]
fn every_file_of_the_set_gets_its_words() {
    let Some(shared) = std::env::var_os("PARKHANG_SHARED") else {
        eprintln!("SKIPPED: the set of PDFs is read only when PARKHANG_SHARED names its folder");
        return;
    };
    let set = Path::new(&shared).join("data/pdfsets/dev");
    let mut files = 0;
    for file in std::fs::read_dir(set.join("pdf")).unwrap() {
        let path = file.unwrap().path();
        let stem = path.file_stem().unwrap().to_str().unwrap().to_owned();
        let original = std::fs::read(&path).unwrap();
        let opened = TextLayer::over(Arc::new(original.clone()), Vec::new());
        if stem.starts_with("enc_") {
            assert!(matches!(opened, Err(SearchableError::Encrypted)), "{stem}");
            continue;
        }
        let mut layer = opened.unwrap_or_else(|error| panic!("{stem}: {error}"));
        let mut expected = Vec::new();
        for page in 0..layer.pages() {
            let truth = set
                .join("truth")
                .join(&stem)
                .join(format!("page_{}.json", page + 1));
            let truth: Truth = serde_json::from_slice(&std::fs::read(truth).unwrap()).unwrap();
            let size = layer.page_size(page).unwrap();
            assert!((size.width - truth.width).abs() < 0.1, "{stem} {page}: {size:?}");
            assert!(
                (size.height - truth.height).abs() < 0.1,
                "{stem} {page}: {size:?}"
            );
            let words = truth.words.iter().map(|word| Word {
                text: &word.text,
                bbox: word.bbox,
                line: word.line,
            });
            let words: Vec<Word<'_>> = words.collect();
            layer
                .add_page(page, &words, Spacing::Inferred, OwnText::Kept)
                .unwrap();
            let text: String = words.iter().map(|word| word.text).collect();
            expected.push(without_spaces(&text));
        }
        let written = layer.finish().unwrap();
        assert!(written.starts_with(&original), "{stem}");
        if !expected.is_empty() {
            let read = reader::read(&written);
            let read: Vec<String> = read
                .iter()
                .map(|page| without_spaces(&reader::text(page)))
                .collect();
            assert_eq!(read, expected, "{stem}");
        }
        files += 1;
    }
    assert_eq!(files, 35);
}

fn without_spaces(text: &str) -> String {
    text.split_whitespace().collect()
}
