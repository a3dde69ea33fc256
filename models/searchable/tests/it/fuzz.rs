//! Damaged originals and pictures: a PDF is written or an error is typed, soon.

use std::sync::Arc;

use parkhang_fuzz::Fuzz;
use parkhang_searchable::{OwnText, PagePicture, Spacing, TextLayer, Word};

#[test]
fn fuzz_text_layers() {
    let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/fixtures");
    let names = ["object_streams.pdf", "wrong_xref.pdf", "encrypted.pdf"];
    let words = [Word {
        text: "བསྒྲུབས་",
        bbox: [72.0, 120.0, 100.0, 140.0],
        line: 0,
    }];
    Fuzz::of_files("text-layers", folder, &names).feeds(|bytes| {
        let Ok(mut layer) = TextLayer::over(Arc::new(bytes.to_vec()), Vec::new()) else {
            return;
        };
        for index in 0..layer.pages().min(3) {
            let _ = layer.page_size(index);
            for own in [OwnText::Kept, OwnText::Blanked] {
                let _ = layer.add_page(index, &words, Spacing::Inferred, own);
            }
        }
        let _ = layer.finish();
    });
}

#[test]
fn fuzz_pictures_of_books() {
    let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/../cv/tests/fixtures/decode");
    let names = [
        "gray.jpg",
        "cmyk.jpg",
        "gray_progressive.jpg",
        "bits_g4.tif",
        "gray16.png",
        "gray.webp",
    ];
    Fuzz::of_files("pictures-of-books", folder, &names).feeds(|bytes| {
        let _ = PagePicture::from_file(bytes);
    });
}
