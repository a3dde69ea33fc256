//! Pages that were scanned lying on their side or upside down.
//!
//! The segmenter was trained on upright pages. On a page on its side it finds next to nothing, and on a page upside down it is in doubt about much
//! of what it finds. So a page with little on it but doubt is asked about again with each turn undone, and lies by the one that leaves
//! most beyond doubt. Of 75 pages of prints and manuscripts, turned each way, none is turned wrongly; 4 are asked about again though upright, and
//! 10 manuscripts, of which the network is nearly as sure upside down, are not.

use super::{DetectionConfig, PageLines};
use crate::page::turn::Turn;

/// Least share of a page that lines cover. Upright pages have 0.018, a title, and more; pages on their side 0.014 and less.
const LEAST_LINES: f64 = 0.012;
/// Doubtful pixels, as a share of those of lines, up to which the network is sure of a page: 0.10 to 0.28 on upright pages but for titles and
/// damaged ones, 0.18 and far more on pages upside down.
const MOST_DOUBT: f64 = 0.3;
/// Least share of a page that is beyond doubt with a turn undone. A title has 0.0025; pages on their side have 0.0001 and less.
const LEAST_SURE: f64 = 0.002;
/// Ratio by which it exceeds that of the page as scanned. Of pages about which it is asked, it was 1.3 and more.
const FAR_MORE: f64 = 1.15;

/// Certainty of a network about a page, in shares of the pixels that it saw.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct Certainty {
    /// Pixels of lines.
    pub lines: f64,
    /// Pixels that may be of a line or not.
    pub doubtful: f64,
}

impl Certainty {
    /// Least probability of a doubtful pixel.
    pub(super) const DOUBTFUL: f32 = 0.1;

    fn is_enough(self) -> bool {
        self.lines >= LEAST_LINES && self.doubtful <= MOST_DOUBT * self.lines
    }

    /// Returns whether so many times more of a page is beyond doubt than of the one that it is compared with, and enough to say so.
    pub(super) fn is_surer_than(self, other: Self, times: f64) -> bool {
        self.sure() >= LEAST_SURE.max(times * other.sure())
    }

    /// Share of the page that is beyond doubt.
    fn sure(self) -> f64 {
        self.lines - self.doubtful
    }
}

impl DetectionConfig {
    /// Settings for a page with a turn undone. The one line that a picture on its side could be has its letters one below another.
    #[must_use]
    pub fn for_turned_page(&self) -> Self {
        Self {
            line_pictures: false,
            ..self.clone()
        }
    }
}

impl PageLines {
    /// Returns whether the page these lines were found on may have to be turned.
    pub fn may_be_turned(&self, config: &DetectionConfig) -> bool {
        config.turned_pages && !self.certainty.is_enough()
    }

    /// The lines of a scan: these, found on it as it is, or the best of those found on it with each of the turns undone.
    #[must_use]
    pub fn or_of_turned(self, turned: impl IntoIterator<Item = (Turn, Self)>) -> Self {
        let best = turned
            .into_iter()
            .max_by(|(_, one), (_, other)| one.certainty.sure().total_cmp(&other.certainty.sure()));
        match best {
            Some((turn, lines)) if lines.certainty.is_surer_than(self.certainty, FAR_MORE) => Self {
                is_negative: self.is_negative,
                ..lines.of_scan(turn)
            },
            _ => self,
        }
    }

    /// These lines, which were found on the scan with a turn undone, as lines of the scan. Contours, dewarping and mask are of the straightened
    /// page, which stays the same.
    fn of_scan(self, turn: Turn) -> Self {
        let undoing = f32::from(turn.degrees());
        let shorter_way = if undoing > 180.0 { undoing - 360.0 } else { undoing };
        Self {
            page_angle: self.page_angle + shorter_way,
            page_size: turn.upright_size(self.page_size),
            ..self
        }
    }
}

#[cfg(test)]
mod tests {
    use image::{GrayImage, imageops};
    use proptest::prelude::*;

    use super::*;
    use crate::line_detection::straighten;
    use crate::page::geometry::Point;

    /// Lines of a page of 1,000 by 400 pixels.
    fn found(lines: f64, doubtful: f64) -> PageLines {
        PageLines {
            page_angle: 1.5,
            certainty: Certainty { lines, doubtful },
            ..PageLines::none(GrayImage::new(500, 200), (1000, 400))
        }
    }

    #[test]
    fn a_page_of_little_but_doubt_is_asked_about_again() {
        let config = DetectionConfig::default();
        for (lines, doubtful) in [(0.0, 0.0), (0.0, 0.002), (0.005, 0.0), (0.1, 0.04)] {
            assert!(
                found(lines, doubtful).may_be_turned(&config),
                "{lines} {doubtful}"
            );
            for upstream in [DetectionConfig::ldv1(), DetectionConfig::gen1()] {
                assert!(!found(lines, doubtful).may_be_turned(&upstream));
            }
        }
        assert!(!found(0.1, 0.02).may_be_turned(&config));
    }

    #[test]
    fn the_turn_that_leaves_most_beyond_doubt_is_undone() {
        let upright = (0.1, 0.02);
        let others = [(0.0, 0.01), (0.2, 0.19)];
        let expected = [
            (Turn::Quarter, 91.5, (400, 1000)),
            (Turn::Half, 181.5, (1000, 400)),
            (Turn::ThreeQuarters, -88.5, (400, 1000)),
        ];
        for (turn, angle, size) in expected {
            let mut others = others.into_iter();
            let turned = [Turn::Quarter, Turn::Half, Turn::ThreeQuarters].map(|each| {
                let (lines, doubtful) = match each == turn {
                    true => upright,
                    false => others.next().unwrap(),
                };
                (each, found(lines, doubtful))
            });
            let lines = found(0.0, 0.002).or_of_turned(turned);
            assert_eq!((lines.page_angle, lines.page_size), (angle, size));
            assert_eq!(lines.certainty.lines, upright.0);
        }
    }

    #[test]
    fn a_page_with_little_any_way_stays_as_scanned() {
        let title = found(0.018, 0.015);
        let turned = [
            (Turn::Quarter, found(0.003, 0.002)),
            (Turn::Half, found(0.018, 0.0149)),
        ];
        assert_eq!(title.clone().or_of_turned(turned), title);
        let speck = [(Turn::Quarter, found(0.001, 0.0))];
        assert_eq!(found(0.0, 0.0).or_of_turned(speck), found(0.0, 0.0));
        assert_eq!(found(0.0, 0.0).or_of_turned([]), found(0.0, 0.0));
    }

    proptest! {
        #[test]
        fn lines_of_a_turned_page_lie_where_they_were_found(
            (x, y) in (0..1000, 0..400),
            turn in prop::sample::select(&Turn::ALL[1..]),
        ) {
            let mut page = GrayImage::from_pixel(1000, 400, image::Luma([255]));
            page.put_pixel(x as u32, y as u32, image::Luma([0]));
            let scan = match turn {
                Turn::Quarter => imageops::rotate90(&page),
                Turn::Half => imageops::rotate180(&page),
                _ => imageops::rotate270(&page),
            };
            let upright = PageLines { page_angle: 0.0, ..found(0.1, 0.0) };
            let geometry = found(0.0, 0.0).or_of_turned([(turn, upright)]).geometry().unwrap();
            prop_assert_eq!(&straighten(&scan, &geometry), &page);
            let place = geometry.to_page(Point::new(x, y));
            prop_assert_eq!(scan.get_pixel(place.x as u32, place.y as u32).0, [0]);
            prop_assert_eq!(geometry.from_page(place), Point::new(x, y));
        }
    }
}
