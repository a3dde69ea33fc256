//! Damaged pictures: each gives pixels or a typed error, soon.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::fs;

use parkhang_cv::decode::{DecodeLimits, decode_page, probe_page};
use parkhang_fuzz::Fuzz;

/// Limits under which no picture takes long because it is large.
const LIMITS: DecodeLimits = DecodeLimits {
    max_pixels: 4_000_000,
    max_bytes: 64 << 20,
};

#[test]
fn fuzz_pictures() {
    let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/fixtures/decode");
    let mut files: Vec<_> = fs::read_dir(folder)
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .filter(|path| {
            path.extension()
                .is_some_and(|extension| extension != "md" && extension != "py")
        })
        .collect();
    // Folders list their files in any order.
    files.sort();
    Fuzz::new("pictures", files.iter().map(|path| fs::read(path).unwrap())).feeds(|bytes| {
        let header = probe_page(bytes);
        let page = decode_page(bytes, &LIMITS);
        if let (Ok(header), Ok(page)) = (header, page) {
            let area = u64::from(page.gray.width()) * u64::from(page.gray.height());
            assert!(area <= LIMITS.max_pixels, "{header:?}");
        }
    });
}
