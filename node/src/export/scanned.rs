//! The way in which a page was scanned: turned or not, as it is or as a negative. Documents have the places on the scan; whoever cuts
//! lines out of it, or has the straightened page alone, needs the way from one to the other.

use image::{GrayImage, imageops};
use parkhang_models::page::turn::Turn;

/// Difference of a scan from the page that is read, but for a small skew.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Scanned {
    /// Turn of the content on the scan.
    pub turn: Turn,
    pub is_negative: bool,
}

impl Scanned {
    /// The page as it is read, of a scan.
    pub(super) fn page_of(self, scan: GrayImage) -> GrayImage {
        self.light(self.turn.undone(&scan).unwrap_or(scan))
    }

    /// The page as it was scanned, of one as it is read.
    pub(super) fn scan_of(self, page: GrayImage) -> GrayImage {
        self.light(self.turn.back().undone(&page).unwrap_or(page))
    }

    fn light(self, mut picture: GrayImage) -> GrayImage {
        if self.is_negative {
            imageops::invert(&mut picture);
        }
        picture
    }
}

#[cfg(test)]
mod tests {
    use image::Luma;
    use parkhang_models::page::geometry::Point;

    use super::*;

    #[test]
    fn a_scan_and_its_page_lead_to_each_other() {
        let scan = GrayImage::from_fn(7, 4, |x, y| Luma([(10 * x + y) as u8]));
        for turn in Turn::ALL {
            for is_negative in [false, true] {
                let scanned = Scanned { turn, is_negative };
                let page = scanned.page_of(scan.clone());
                assert_eq!(page.dimensions(), turn.upright_size((7, 4)));
                assert_eq!(scanned.scan_of(page.clone()), scan);
                for (x, y, level) in scan.enumerate_pixels() {
                    let place = turn.upright_pixel(Point::new(x as i32, y as i32), scan.dimensions());
                    let expected = if is_negative { 255 - level.0[0] } else { level.0[0] };
                    assert_eq!(page.get_pixel(place.x as u32, place.y as u32).0, [expected]);
                }
            }
        }
    }
}
