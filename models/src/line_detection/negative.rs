//! Pages whose writing is lighter than their paper: gold and silver on black, negatives of films, titles cut into a block.
//!
//! The segmenter sees edges on such a page as well, and finds some lines or none. Where most of what it takes for lines, or of a page without any,
//! is dark, it is asked about the negative of the page too, and the one of which it is surer is read. That is right for 75 pages, of which one has a
//! title in white on black, and for their negatives, but for one that lies on its side.

use image::GrayImage;

use super::strip::whole;
use super::{DegenerateDewarp, DetectionConfig, PageLines};
use crate::page::geometry::{Point, Rect, bounding_rect};

/// Share of dark pixels from which a line may be light on dark. Lines of dark writing have 0.09 to 0.32, on dark and uneven paper up to 0.52;
/// those of the negatives 0.7 and more.
const DARK: f64 = 0.5;
/// Columns and rows of places at which a region is looked at.
const PLACES: [i32; 2] = [48, 12];
/// Shares of the places that are darker than the level taken for ink, and than that taken for paper.
const EXTREMES: [f64; 2] = [0.03, 0.97];

impl PageLines {
    /// Returns whether the page these lines were found on may be lighter where it is written on.
    ///
    /// # Errors
    /// [`DegenerateDewarp`] when the dewarping determines no spline.
    pub fn may_be_negative(
        &self,
        page: &GrayImage,
        config: &DetectionConfig,
    ) -> Result<bool, DegenerateDewarp> {
        if !config.negatives {
            return Ok(false);
        }
        let geometry = self.geometry()?;
        let mut levels: Vec<u8> = Vec::new();
        for region in self.regions_of_writing() {
            let on_scan = places(region).map(|place| geometry.to_page(place));
            levels.extend(on_scan.filter_map(|place| level(page, place)));
        }
        Ok(dark_share(&mut levels) > DARK)
    }

    /// These lines of a scan, or those of its negative, whichever the network is surer of.
    #[must_use]
    pub fn or_of_negative(self, found: Self) -> Self {
        match found.certainty.is_surer_than(self.certainty, 1.0) {
            true => Self {
                is_negative: true,
                ..found
            },
            false => self,
        }
    }

    /// Boxes around the lines with the letters below the bands that were found, or of the whole page where there are none.
    fn regions_of_writing(&self) -> Vec<Rect> {
        let with_letters = |bounds: Rect| Rect {
            y: bounds.y - bounds.height / 2,
            height: 2 * bounds.height,
            ..bounds
        };
        if self.contours.is_empty() {
            return vec![bounding_rect(&whole(self.page_size))];
        }
        self.contours
            .iter()
            .map(|contour| with_letters(bounding_rect(contour)))
            .collect()
    }
}

fn places(region: Rect) -> impl Iterator<Item = Point> {
    let at = |start: i32, length: i32, place: i32, of: i32| {
        // Wide pages have more pixels than such a product could count.
        start + (i64::from(length - 1) * i64::from(2 * place + 1) / i64::from(2 * of)) as i32
    };
    let [columns, rows] = PLACES;
    (0..rows).flat_map(move |row| {
        (0..columns).map(move |column| {
            Point::new(
                at(region.x, region.width, column, columns),
                at(region.y, region.height, row, rows),
            )
        })
    })
}

/// Grey level of a pixel; `None` beyond the page.
fn level(page: &GrayImage, place: Point) -> Option<u8> {
    let (x, y) = (u32::try_from(place.x).ok()?, u32::try_from(place.y).ok()?);
    page.get_pixel_checked(x, y).map(|level| level.0[0])
}

/// Share of these grey levels that are nearer to the darkest of them than to the lightest; 0 of none.
fn dark_share(levels: &mut [u8]) -> f64 {
    levels.sort_unstable();
    let at = |share: f64| levels.get((levels.len() as f64 * share) as usize).copied();
    let [Some(darkest), Some(lightest)] = EXTREMES.map(at) else {
        return 0.0;
    };
    let middle = darkest.midpoint(lightest);
    levels.partition_point(|level| *level < middle) as f64 / levels.len() as f64
}

#[cfg(test)]
mod tests {
    use image::{Luma, imageops};

    use super::*;
    use crate::line_detection::Certainty;

    /// Four lines whose letters cover three in eight columns of them.
    fn page() -> (GrayImage, Vec<Vec<Point>>) {
        let page = GrayImage::from_fn(1000, 400, |x, y| {
            let in_line = y % 100 >= 40 && y % 100 < 80;
            Luma([if in_line && x % 16 < 6 { 40 } else { 220 }])
        });
        let band = |line: i32| {
            [(0, 0), (999, 0), (999, 19), (0, 19)]
                .map(|(x, y)| Point::new(x, y + 100 * line + 40))
                .to_vec()
        };
        (page, (0..4).map(band).collect())
    }

    fn found(contours: Vec<Vec<Point>>, lines: f64) -> PageLines {
        PageLines {
            contours,
            certainty: Certainty { lines, doubtful: 0.0 },
            ..PageLines::none(GrayImage::new(1000, 400), (1000, 400))
        }
    }

    #[test]
    fn writing_that_is_lighter_than_its_paper_is_told() {
        let config = DetectionConfig::default();
        let (dark, contours) = page();
        let mut light = dark.clone();
        imageops::invert(&mut light);
        for contours in [contours, Vec::new()] {
            let lines = found(contours, 0.1);
            assert!(!lines.may_be_negative(&dark, &config).unwrap());
            assert!(lines.may_be_negative(&light, &config).unwrap());
            for upstream in [DetectionConfig::ldv1(), DetectionConfig::gen1()] {
                assert!(!lines.may_be_negative(&light, &upstream).unwrap());
            }
        }
    }

    #[test]
    fn plain_pages_are_no_negatives() {
        let lines = found(Vec::new(), 0.0);
        for level in [0, 128, 255] {
            let page = GrayImage::from_pixel(1000, 400, Luma([level]));
            assert!(!lines.may_be_negative(&page, &DetectionConfig::default()).unwrap());
        }
        let empty = PageLines {
            page_size: (0, 0),
            ..lines
        };
        assert!(
            !empty
                .may_be_negative(&GrayImage::new(0, 0), &DetectionConfig::default())
                .unwrap()
        );
    }

    #[test]
    fn the_surer_one_is_taken() {
        let (little, more) = (found(Vec::new(), 0.05), found(Vec::new(), 0.1));
        assert!(little.clone().or_of_negative(more.clone()).is_negative);
        assert_eq!(more.clone().or_of_negative(little), more);
        let nothing = found(Vec::new(), 0.0);
        assert_eq!(nothing.clone().or_of_negative(found(Vec::new(), 0.001)), nothing);
    }
}
