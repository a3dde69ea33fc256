//! Regions of a page that a layout network sees besides lines.

use image::GrayImage;
use serde::{Deserialize, Serialize};

use super::passes::{factors, scaled};
use crate::page::contours::find_contours;
use crate::page::geometry::{Contour, arc_length, contour_area, is_clockwise, simplify};

/// Area in pixels of the page below which a region is a speck.
const MIN_REGION_AREA: f64 = 200.0;
/// Share of their perimeter by which contours are simplified.
const SIMPLIFY: f64 = 0.001;

/// A class of a layout that is neither background nor line of the text.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum RegionKind {
    /// Picture or ornament.
    Image,
    /// Title in the margin, and running head.
    Margin,
    Caption,
    PageNumber,
    /// Small writing between lines or beside them.
    Note,
}

impl RegionKind {
    pub const ALL: [Self; 5] = [
        Self::Image,
        Self::Margin,
        Self::Caption,
        Self::PageNumber,
        Self::Note,
    ];

    /// Index of its plane among those of [`Classes::Layout`](crate::inference::Classes::Layout).
    pub(super) fn plane(self) -> usize {
        match self {
            Self::Image => 1,
            Self::Margin => 3,
            Self::Caption => 4,
            Self::PageNumber => 5,
            Self::Note => 6,
        }
    }

    pub fn as_str(self) -> &'static str {
        match self {
            Self::Image => "image",
            Self::Margin => "margin",
            Self::Caption => "caption",
            Self::PageNumber => "page_number",
            Self::Note => "note",
        }
    }
}

/// A part of a page that holds something other than its text.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Region {
    pub kind: RegionKind,
    /// Outer border; holes are left out.
    pub contour: Contour,
}

/// The regions of one class in its mask, in pixels of the page, from top to bottom and left to right.
pub(super) fn regions(mask: &GrayImage, kind: RegionKind, page_size: (u32, u32)) -> Vec<Region> {
    let (x, y) = factors(mask.dimensions(), page_size);
    let mut contours: Vec<Contour> = find_contours(mask)
        .into_iter()
        // The borders of holes run clockwise, and a region is filled by its outer border.
        .filter(|contour| !is_clockwise(contour))
        .map(|contour| scaled(&contour, x, y))
        // Measured in pixels of the page: the frame shrinks pages by factors of their own.
        .filter(|contour| contour_area(contour) > MIN_REGION_AREA)
        .map(|contour| simplify(&contour, SIMPLIFY * arc_length(&contour)))
        .collect();
    contours.sort_by_key(|contour| contour.iter().map(|point| (point.y, point.x)).min());
    contours
        .into_iter()
        .map(|contour| Region { kind, contour })
        .collect()
}

#[cfg(test)]
mod tests {
    use image::Luma;

    use super::super::DetectionConfig;
    use super::super::passes::detect_lines;
    use super::*;
    use crate::algorithms::Algorithms;
    use crate::inference::{Classes, InferenceError, Segmenter, TileBatch};
    use crate::page::geometry::{Rect, bounding_rect};

    /// A segmenter that reads the class of a pixel off its grey level: level 0 is a line, and paper the background; a grey
    /// between is what a frame says of an image, a margin or a caption when it is asked by its place.
    #[derive(Debug)]
    struct Painted {
        page: GrayImage,
        size: usize,
    }

    const IMAGE: u8 = 50;
    const MARGIN: u8 = 100;
    const CAPTION: u8 = 150;
    const PAGE_NUMBER: u8 = 170;
    const NOTE: u8 = 190;

    impl Segmenter for Painted {
        fn tile_size(&self) -> usize {
            self.size
        }

        fn line_probabilities(&self, _: &TileBatch) -> Result<Vec<f32>, InferenceError> {
            Err(InferenceError::Failed("asked for lines alone".to_owned()))
        }

        fn has_layout(&self) -> bool {
            true
        }

        /// The tiles are only counted: they are binarised, and cannot say more than ink and paper.
        fn layout_probabilities(&self, tiles: &TileBatch) -> Result<Vec<f32>, InferenceError> {
            let columns = (self.page.width() as usize).div_ceil(self.size);
            let mut values = Vec::new();
            for tile in 0..tiles.count {
                for class in [255, IMAGE, 0, MARGIN, CAPTION, PAGE_NUMBER, NOTE] {
                    for at in 0..self.size * self.size {
                        let x = (tile % columns) * self.size + at % self.size;
                        let y = (tile / columns) * self.size + at / self.size;
                        let shown = (x < self.page.width() as usize && y < self.page.height() as usize)
                            .then(|| self.page.get_pixel(x as u32, y as u32).0[0]);
                        // Just beyond the threshold, and what is left of it.
                        values.push(if shown == Some(class) { 0.81 } else { 0.19 / 6.0 });
                    }
                }
            }
            Ok(values)
        }
    }

    /// Three lines, an image with a hole, a margin note, a caption and a speck of one, a page number, and a note between lines.
    fn page() -> GrayImage {
        let blocks = [
            (100, 100, 700, 30, 0),
            (100, 200, 700, 30, 0),
            (100, 300, 300, 30, 0),
            (500, 280, 200, 150, IMAGE),
            (550, 320, 60, 40, 255),
            (20, 90, 40, 200, MARGIN),
            (500, 440, 200, 30, CAPTION),
            (800, 440, 10, 10, CAPTION),
            (850, 20, 30, 20, PAGE_NUMBER),
            (300, 165, 120, 13, NOTE),
        ];
        let mut page = GrayImage::from_pixel(900, 500, Luma([255]));
        for (left, top, width, height, level) in blocks {
            for (x, y) in (left..left + width).flat_map(|x| (top..top + height).map(move |y| (x, y))) {
                page.put_pixel(x, y, Luma([level]));
            }
        }
        page
    }

    fn config(algorithms: Algorithms) -> DetectionConfig {
        let config = match algorithms {
            Algorithms::Gen1 => DetectionConfig::gen1(),
            Algorithms::Gen2 => DetectionConfig::default(),
        };
        DetectionConfig {
            classes: Classes::Layout,
            threshold: 0.8,
            ..config
        }
    }

    #[test]
    fn lines_come_of_the_line_class_and_the_rest_are_regions() {
        for (algorithms, size) in [(Algorithms::Gen2, 256), (Algorithms::Gen1, 500)] {
            let page = page();
            let painted = Painted {
                page: page.clone(),
                size,
            };
            let lines = detect_lines(&page, true, &painted, &config(algorithms)).unwrap();
            assert_eq!(lines.contours.len(), 3, "{algorithms:?}");
            let regions: Vec<(RegionKind, Rect)> = lines
                .regions
                .iter()
                .map(|region| (region.kind, bounding_rect(&region.contour)))
                .collect();
            let rect = |x, y, width, height| Rect { x, y, width, height };
            assert_eq!(
                regions,
                [
                    (RegionKind::Image, rect(500, 280, 200, 150)),
                    (RegionKind::Margin, rect(20, 90, 40, 200)),
                    (RegionKind::Caption, rect(500, 440, 200, 30)),
                    (RegionKind::PageNumber, rect(850, 20, 30, 20)),
                    (RegionKind::Note, rect(300, 165, 120, 13)),
                ],
                "{algorithms:?}"
            );
        }
    }

    #[test]
    fn regions_turn_with_their_page() {
        let straight = page();
        let turned = image::ImageBuffer::from_fn(900, 500, |x, y| {
            let down = (1.0_f64.to_radians().tan() * (f64::from(x) - 450.0)).round() as i64;
            let y = i64::from(y) - down;
            let inside = (0..500).contains(&y);
            if inside {
                *straight.get_pixel(x, y as u32)
            } else {
                Luma([255])
            }
        });
        let painted = Painted {
            page: turned.clone(),
            size: 256,
        };
        let lines = detect_lines(&turned, true, &painted, &config(Algorithms::Gen2)).unwrap();
        assert!((lines.page_angle - 1.0).abs() < 0.1, "{}", lines.page_angle);
        let margin = lines
            .regions
            .iter()
            .find(|region| region.kind == RegionKind::Margin);
        let bounds = bounding_rect(&margin.unwrap().contour);
        assert!(
            bounds.y.abs_diff(90) <= 2 && bounds.height.abs_diff(200) <= 3,
            "{bounds:?}"
        );
    }

    #[test]
    fn a_network_of_lines_alone_has_no_layout() {
        #[derive(Debug)]
        struct Lines;
        impl Segmenter for Lines {
            fn tile_size(&self) -> usize {
                64
            }

            fn line_probabilities(&self, tiles: &TileBatch) -> Result<Vec<f32>, InferenceError> {
                Ok(vec![0.0; tiles.values.len()])
            }
        }
        let refused = detect_lines(&page(), true, &Lines, &config(Algorithms::Gen2));
        assert_eq!(refused.unwrap_err(), InferenceError::NoLayout);
    }
}
