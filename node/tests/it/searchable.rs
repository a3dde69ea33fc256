//! Searchable PDFs of volumes that are PDFs: the file that was read, with a text layer on the pages that were read.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use lopdf::Document;
use parkhang_core::domain::{JobKey, VolumeId};
use parkhang_store::artifact::{ArtifactLayout, WordRow, WordSource};

use crate::support::{Finished, finish, node, rows, workspace};

fn copied(folder: &Path, names: &[&str]) -> PathBuf {
    let pdfs = folder.join("pdfs");
    std::fs::create_dir(&pdfs).unwrap();
    for name in names {
        let place = workspace().join(name);
        std::fs::copy(&place, pdfs.join(place.file_name().unwrap())).unwrap();
    }
    pdfs
}

fn read(pdfs: &Path, out: &Path, options: &[&str]) {
    let mut command = node(["ocr", "--json", "--export", "text", "--out"]);
    command.arg(out).args(options).arg(pdfs);
    finish(command).exits(0);
}

fn export(out: &Path) -> Finished {
    let mut command = node(["export", "--format", "pdf"]);
    command.arg(out);
    finish(command)
}

fn words(out: &Path, volume: &str) -> Vec<WordRow> {
    let volume: VolumeId = volume.parse().unwrap();
    let layout = ArtifactLayout::bdrc_v2(&JobKey::new("page_ocr").unwrap()).volume(&volume);
    rows(out, &layout.words())
}

fn without_spaces(text: &str) -> String {
    text.split_whitespace().collect()
}

#[test]
fn a_pdf_keeps_its_bytes_and_the_pages_that_were_read_get_their_words() {
    let folder = tempfile::tempdir().unwrap();
    let out = folder.path().join("out");
    let pdfs = copied(folder.path(), &["tests/fixtures/pdf/letter_form.pdf"]);
    read(&pdfs, &out, &[]);
    export(&out).exits(0);
    let original = std::fs::read(pdfs.join("letter_form.pdf")).unwrap();
    let exported = std::fs::read(out.join("export/pdf/pdfs-letter_form.pdf")).unwrap();
    assert!(exported.starts_with(&original) && exported.len() > original.len());

    let (before, after) = (
        Document::load_mem(&original).unwrap(),
        Document::load_mem(&exported).unwrap(),
    );
    let words = words(&out, "pdfs-letter_form");
    let read: BTreeSet<u32> = words
        .iter()
        .filter(|word| word.source == WordSource::Ocr)
        .map(|word| u32::try_from(word.page).unwrap())
        .collect();
    assert_eq!(read, BTreeSet::from([3]));
    for ((number, page), old) in after
        .get_pages()
        .into_iter()
        .zip(before.get_pages().into_values())
    {
        let (new, old) = (after.get_page_content(page), before.get_page_content(old));
        if read.contains(&number) {
            let expected: String = words
                .iter()
                .filter(|word| word.page == 3)
                .map(|word| word.text.as_str())
                .collect();
            let found = after.extract_text(&[number]).unwrap();
            assert_eq!(without_spaces(&found), expected);
            assert!(
                new.ends_with(old.trim_ascii_end()) || new.trim_ascii_end().ends_with(old.trim_ascii_end())
            );
        } else {
            assert_eq!(new, old, "page {number} has its text already");
        }
    }
}

#[test]
fn a_file_that_can_have_no_layer_is_named_and_the_others_are_written() {
    let folder = tempfile::tempdir().unwrap();
    let out = folder.path().join("out");
    let names = [
        "models/searchable/tests/fixtures/encrypted.pdf",
        "models/searchable/tests/fixtures/object_streams.pdf",
        "tests/fixtures/pdf/gib_noencoding.pdf",
    ];
    let pdfs = copied(folder.path(), &names);
    read(&pdfs, &out, &["--limit", "1"]);
    let moved = pdfs.join("object_streams.pdf");
    std::fs::remove_file(&moved).unwrap();
    let refused = export(&out).exits(1);
    for expected in [
        "encrypted.pdf is encrypted, and no text can be added without its key: decrypt it",
        "object_streams.pdf cannot be reached any more",
    ] {
        assert!(refused.stderr.contains(expected), "{}", refused.stderr);
    }
    let files: Vec<PathBuf> = std::fs::read_dir(out.join("export/pdf"))
        .unwrap()
        .map(|file| file.unwrap().path())
        .collect();
    assert_eq!(files, [out.join("export/pdf/pdfs-gib_noencoding.pdf")]);
}

#[test]
fn a_file_that_is_another_one_now_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let out = folder.path().join("out");
    let pdfs = copied(folder.path(), &["tests/fixtures/pdf/gib_noencoding.pdf"]);
    read(&pdfs, &out, &[]);
    let file = pdfs.join("gib_noencoding.pdf");
    // A file with the same pages but for a comment, and one of one page, where the pages that were read are two.
    let commented = [std::fs::read(&file).unwrap().as_slice(), b"\n% another one\n"].concat();
    let other = workspace().join("models/searchable/tests/fixtures/object_streams.pdf");
    for bytes in [commented, std::fs::read(other).unwrap()] {
        std::fs::write(&file, bytes).unwrap();
        let refused = export(&out).exits(1);
        assert!(
            refused
                .stderr
                .contains("gib_noencoding.pdf is not the file that was read"),
            "{}",
            refused.stderr
        );
    }
}
