//! Damaged documents: whatever is asked of one, it gives an answer or a typed error, soon.

use std::time::Duration;

use parkhang_fuzz::Fuzz;
use parkhang_pdf::{Document, Limits};

/// Resolution at which rendering is quick.
const DPI: f32 = 20.0;
/// Pages that are looked at.
const PAGES: u32 = 2;

#[test]
fn fuzz_documents() {
    let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/fixtures");
    let names = [
        "javascript.pdf",
        "enc_password.pdf",
        "gib_noencoding.pdf",
        "deep_tree.pdf",
        "zero_pages.pdf",
    ];
    let limits = Limits {
        max_picture_pixels: 1_000_000,
        max_picture_bytes: 16_000_000,
        max_stream_bytes: 4_000_000,
        open_time: Duration::from_secs(10),
        page_time: Duration::from_secs(10),
        ..Limits::default()
    };
    Fuzz::of_files("documents", folder, &names).feeds(|bytes| {
        let Ok(document) = Document::open(bytes.to_vec().into(), None, &limits) else {
            return;
        };
        for index in 0..document.page_count().min(PAGES) {
            let _ = document.size(index);
            let _ = document.text(index);
            let _ = document.pixels(index, DPI);
        }
    });
}
