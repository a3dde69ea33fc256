//! Cutting a frame into square tiles and putting the answers together again.

use image::{GrayImage, Luma, imageops};

use crate::inference::{InferenceError, TileBatch};

/// Value of tile pixels right of and below the frame.
const PAPER: f32 = 1.0;

/// One of the planes that a network answers for each tile, one after the other.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Plane {
    /// Index of the plane, less than `of`.
    pub(crate) index: usize,
    pub(crate) of: usize,
}

impl Plane {
    /// The plane of a network that answers one.
    pub(crate) const ONLY: Self = Self { index: 0, of: 1 };
}

/// The tiles that cover a frame, row by row from the top left, without overlap.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct TileGrid {
    width: usize,
    height: usize,
    tile: usize,
    columns: usize,
    rows: usize,
}

impl TileGrid {
    /// A grid of tiles of side `tile` over a frame. A side of 0 is taken as 1.
    pub(crate) fn new(width: u32, height: u32, tile: usize) -> Self {
        let (width, height, tile) = (width as usize, height as usize, tile.max(1));
        Self {
            width,
            height,
            tile,
            columns: width.div_ceil(tile),
            rows: height.div_ceil(tile),
        }
    }

    pub(crate) fn count(&self) -> usize {
        self.columns * self.rows
    }

    /// Grey levels as `0.0..=1.0`, padded with paper to whole tiles. `frame` has the size the grid was made for.
    pub(crate) fn cut(&self, frame: &GrayImage) -> TileBatch {
        debug_assert_eq!(
            (frame.width() as usize, frame.height() as usize),
            (self.width, self.height)
        );
        // A page has millions of pixels and 256 levels: one division for each of these.
        let levels: [f32; 256] = std::array::from_fn(|value| value as f32 / 255.0);
        // Paper first, so that what lies beyond the frame is padded by leaving it alone.
        let mut values = vec![PAPER; self.count() * self.tile * self.tile];
        for (y, row) in frame.as_raw().chunks_exact(self.width.max(1)).enumerate() {
            for (column, part) in row.chunks(self.tile).enumerate() {
                // A row of the frame goes through all tiles beside each other, and each tile holds its part
                // at the same row.
                let start = self.offset(column, y, Plane::ONLY);
                for (target, &grey) in values[start..start + part.len()].iter_mut().zip(part) {
                    *target = levels[usize::from(grey)];
                }
            }
        }
        TileBatch {
            size: self.tile,
            count: self.count(),
            values,
        }
    }

    /// Cuts tiles like [`Self::cut`], with each tile, its padding included, passed through `map` by itself.
    pub(crate) fn cut_mapped(&self, frame: &GrayImage, map: impl Fn(&GrayImage) -> GrayImage) -> TileBatch {
        let side = self.tile as u32;
        let mut values = Vec::with_capacity(self.count() * self.tile * self.tile);
        for (row, column) in (0..self.rows).flat_map(|row| (0..self.columns).map(move |column| (row, column)))
        {
            let (x, y) = (column as u32 * side, row as u32 * side);
            let part = imageops::crop_imm(frame, x, y, side, side);
            // The padding has to be there before `map`: a threshold at the edge of the frame sees paper
            // beyond it, as upstream's.
            let mut tile = GrayImage::from_pixel(side, side, Luma([u8::MAX]));
            imageops::replace(&mut tile, &*part, 0, 0);
            values.extend(map(&tile).iter().map(|&value| f32::from(value) / 255.0));
        }
        TileBatch {
            size: self.tile,
            count: self.count(),
            values,
        }
    }

    /// Puts one plane of each tile together, drops the padding, and turns each value into a pixel.
    ///
    /// # Errors
    /// [`InferenceError::Shape`] when there are not `count * planes * tile * tile` values.
    pub(crate) fn stitch(
        &self,
        values: &[f32],
        plane: Plane,
        pixel: impl Fn(f32) -> u8,
    ) -> Result<GrayImage, InferenceError> {
        if values.len() != self.count() * plane.of * self.tile * self.tile {
            return Err(InferenceError::Shape {
                expected: format!(
                    "{} tiles of {} x {} x {}",
                    self.count(),
                    plane.of,
                    self.tile,
                    self.tile
                ),
                actual: values.len(),
            });
        }
        let mut frame = GrayImage::new(self.width as u32, self.height as u32);
        for (y, row) in frame.chunks_exact_mut(self.width.max(1)).enumerate() {
            for (column, part) in row.chunks_mut(self.tile).enumerate() {
                let start = self.offset(column, y, plane);
                // The part of the last column is shorter than a tile, which leaves out the padding on the
                // right; the rows of the frame end before that below.
                for (target, &value) in part.iter_mut().zip(&values[start..]) {
                    *target = pixel(value);
                }
            }
        }
        Ok(frame)
    }

    /// Number of values of one plane, padding included, of which this holds.
    pub(super) fn count_where(&self, values: &[f32], plane: Plane, holds: impl Fn(f32) -> bool) -> usize {
        let area = self.tile * self.tile;
        values
            .chunks_exact((plane.of * area).max(1))
            .map(|tile| &tile[plane.index * area..(plane.index + 1) * area])
            .map(|values| values.iter().filter(|value| holds(**value)).count())
            .sum()
    }

    /// Index at which row `y` of the frame starts in a plane of tile column `column`.
    fn offset(&self, column: usize, y: usize, plane: Plane) -> usize {
        let tile = (y / self.tile) * self.columns + column;
        ((tile * plane.of + plane.index) * self.tile + y % self.tile) * self.tile
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde::Deserialize;

    use super::*;

    proptest! {
        #[test]
        fn stitching_undoes_cutting(width in 1_u32..70, height in 1_u32..70, tile in 1_usize..40, seed: u32) {
            let frame = GrayImage::from_fn(width, height, |x, y| {
                Luma([(seed.wrapping_mul(31).wrapping_add(x * 7 + y * 13 + x * y % 29) % 256) as u8])
            });
            let grid = TileGrid::new(width, height, tile);
            let tiles = grid.cut(&frame);
            prop_assert_eq!(tiles.values.len(), tiles.count * tile * tile);
            let back = grid.stitch(&tiles.values, Plane::ONLY, |value| (value * 255.0).round() as u8).unwrap();
            prop_assert_eq!(back, frame);
        }
    }

    #[test]
    fn planes_are_told_apart() {
        let grid = TileGrid::new(3, 2, 2);
        let values: Vec<f32> = (0_u8..2 * 3 * 4).map(f32::from).collect();
        let plane = |index| {
            grid.stitch(&values, Plane { index, of: 3 }, |value| value as u8)
                .unwrap()
                .into_raw()
        };
        assert_eq!(plane(0), [0, 1, 12, 2, 3, 14]);
        assert_eq!(plane(2), [8, 9, 20, 10, 11, 22]);
        let count = |index| grid.count_where(&values, Plane { index, of: 3 }, |value| value > 9.0);
        assert_eq!([count(0), count(1), count(2)], [4, 4, 6]);
    }

    #[test]
    fn padding_is_paper() {
        let tiles = TileGrid::new(3, 2, 4).cut(&GrayImage::new(3, 2));
        let ink = tiles.values.iter().filter(|&&value| value == 0.0).count();
        assert_eq!((ink, tiles.values.len()), (6, 16));
        assert!(tiles.values.iter().all(|&value| value == 0.0 || value == PAPER));
    }

    #[test]
    fn an_answer_of_the_wrong_size_is_an_error() {
        let grid = TileGrid::new(10, 10, 8);
        assert!(matches!(
            grid.stitch(&[0.0; 10], Plane::ONLY, |_| 0),
            Err(InferenceError::Shape { actual: 10, .. })
        ));
    }

    #[derive(Deserialize)]
    struct Expected {
        kind: String,
        w: u32,
        h: u32,
        n_tiles: usize,
        tile_crc32_u8: Vec<u32>,
        #[serde(rename = "stitched_gt_0.85_crc32")]
        stitched_crc32: u32,
    }

    /// The test image that upstream's tiles were made from.
    fn formula(binary: bool, width: u32, height: u32) -> GrayImage {
        GrayImage::from_fn(width, height, |x, y| {
            let value = ((7 * x + 13 * y + (x * y) % 29) % 256) as u8;
            Luma([if !binary {
                value
            } else if value > 127 {
                255
            } else {
                0
            }])
        })
    }

    fn crc32(bytes: &[u8]) -> u32 {
        let mut crc = flate2::Crc::new();
        crc.update(bytes);
        crc.sum()
    }

    #[test]
    fn tiles_are_those_of_upstream() {
        #[derive(Deserialize)]
        struct Table {
            cases: Vec<Expected>,
        }
        let table: Table =
            serde_json::from_str(include_str!("../../tests/golden/scale/tiles_gen2.json")).unwrap();
        assert!(!table.cases.is_empty());
        for case in table.cases {
            let at = format!("{} {} x {}", case.kind, case.w, case.h);
            let grid = TileGrid::new(case.w, case.h, 512);
            let tiles = grid.cut(&formula(case.kind == "binary", case.w, case.h));
            assert_eq!(tiles.count, case.n_tiles, "{at}");
            let bytes: Vec<u8> = tiles
                .values
                .iter()
                .map(|value| (255.0 * value).round() as u8)
                .collect();
            let crcs: Vec<u32> = bytes.chunks_exact(512 * 512).map(crc32).collect();
            assert_eq!(crcs, case.tile_crc32_u8, "{at}");
            let stitched = grid
                .stitch(
                    &tiles.values,
                    Plane::ONLY,
                    |value| if value > 0.85 { 255 } else { 0 },
                )
                .unwrap();
            assert_eq!(crc32(stitched.as_raw()), case.stitched_crc32, "{at}");
        }
    }
}
