//! Pages whose own text seems good and is compared with their picture all the same.

use parkhang_core::domain::{ReadPages, Verify, VolumeId};
use parkhang_store::artifact::{Digest, PageTextRow, TextVerdict};

/// Share of a page that a picture covers from which on the text is looked at in any case: that of a scan is somebody's reading of it,
/// and may be of another page.
const COVERED: f32 = 0.5;
/// One of so many other pages is looked at.
const ONE_OF: u64 = 16;

/// The pages that are looked at, as their places in the table. A sample has at least one page of the volume, and is the same each time.
pub(super) fn looked_at(
    volume: &VolumeId,
    pages: &[PageTextRow],
    read: ReadPages,
    verify: Verify,
) -> Vec<usize> {
    // With another choice of pages either none of these texts is taken, or all of them are whatever they are worth.
    if read != ReadPages::Broken || verify == Verify::Never {
        return Vec::new();
    }
    let good = pages.iter().enumerate();
    let good = good.filter(|(_, page)| page.verdict == TextVerdict::Good && !page.words.is_empty());
    let lots: Vec<(usize, &PageTextRow, u64)> = good
        .map(|(place, page)| (place, page, lot(volume, &page.source_name)))
        .collect();
    let least = lots.iter().map(|(.., lot)| *lot).min();
    let is_chosen = |page: &PageTextRow, lot: u64| {
        verify == Verify::Always
            || page.picture_share.is_some_and(|share| share >= COVERED)
            || lot <= u64::MAX / ONE_OF
            || Some(lot) == least
    };
    let chosen = lots.into_iter().filter(|(_, page, lot)| is_chosen(page, *lot));
    chosen.map(|(place, ..)| place).collect()
}

/// Number by which a page is drawn: the same in a document and in each part of it.
fn lot(volume: &VolumeId, page: &str) -> u64 {
    let digest = Digest::of_parts([volume.document().to_string().as_str(), page]);
    digest
        .as_ref()
        .iter()
        .take(8)
        .fold(0, |lot, byte| (lot << 8) | u64::from(*byte))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::super::tests::page;
    use super::*;

    fn pages(count: usize) -> Vec<PageTextRow> {
        let numbered = |number| PageTextRow {
            source_name: format!("page_{number}"),
            ..page(TextVerdict::Good, &["word"])
        };
        (1..=count).map(numbered).collect()
    }

    fn sample(volume: &str, pages: &[PageTextRow]) -> Vec<usize> {
        looked_at(&volume.parse().unwrap(), pages, ReadPages::Broken, Verify::Sample)
    }

    proptest! {
        #[test]
        fn a_sample_is_small_and_never_empty(count in 1_usize..300, volume in "[a-z]{1,8}-[a-z0-9]{1,8}") {
            let chosen = sample(&volume, &pages(count));
            prop_assert!((1..=6 + count / 6).contains(&chosen.len()), "{chosen:?}");
        }
    }

    #[test]
    fn text_over_a_scan_is_looked_at_and_what_is_no_good_text_is_not() {
        let mut pages = pages(40);
        let usual = sample("HKEX-1", &pages);
        pages[usual[0]].verdict = TextVerdict::Broken;
        let unusual = (0..40).find(|place| !usual.contains(place)).unwrap();
        pages[unusual].picture_share = Some(0.9);
        let chosen = sample("HKEX-1", &pages);
        assert!(
            chosen.contains(&unusual) && !chosen.contains(&usual[0]),
            "{chosen:?}"
        );
    }

    #[test]
    fn the_job_says_whether_pages_are_looked_at() {
        let volume = "HKEX-1".parse().unwrap();
        let pages = pages(40);
        let count = |read, verify| looked_at(&volume, &pages, read, verify).len();
        assert_eq!(count(ReadPages::Broken, Verify::Always), 40);
        assert_eq!(count(ReadPages::Broken, Verify::Never), 0);
        assert_eq!(count(ReadPages::All, Verify::Always), 0);
        assert_eq!(count(ReadPages::Empty, Verify::Always), 0);
    }
}
