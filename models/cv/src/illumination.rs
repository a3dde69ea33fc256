//! Uneven and dim light: vignettes, shadows of a curled leaf, a lamp at one end of a long one, dark paper.

use image::GrayImage;

/// Number of squares in which the page is measured along its shorter side, none smaller than `LEAST_SQUARE`. Most of a square is
/// paper, even where it is written on.
const SQUARES: u32 = 32;
const LEAST_SQUARE: u32 = 16;
/// Percentile of a square that is its paper.
const PAPER: usize = 80;
/// Percentile of the papers of all squares that the darker ones are brought to.
const WELL_LIT: usize = 75;
/// Darker places than this share of the well lit ones are background beside the leaf, or hold nothing to be seen.
const MOST_GAIN: f32 = 3.5;
/// A page that needs less everywhere is left alone.
const LEAST_GAIN: f32 = 1.1;

/// Brightens what lies in shadow until its paper is as bright as that of the well lit parts, and the whole page until that is at
/// least `least_paper`. Nothing becomes darker, and a page that is lit well and evenly keeps every pixel.
///
/// Meant for sRGB, where a factor stands for a power of the light and the shadows have the finer steps.
pub fn even_light(image: &mut GrayImage, least_paper: u8) {
    let Some(gains) = Gains::of(image, least_paper) else {
        return;
    };
    let width = image.width() as usize;
    let taps: Vec<(usize, usize, f32)> = (0..width).map(|x| gains.columns.tap(x)).collect();
    let mut row_gains = vec![0.0; gains.columns.count];
    for (y, row) in image.chunks_exact_mut(width).enumerate() {
        gains.blend_row(y, &mut row_gains);
        for (value, &(left, right, share)) in row.iter_mut().zip(&taps) {
            let gain = row_gains[left] + (row_gains[right] - row_gains[left]) * share;
            // Paper brighter than that of its square exceeds 255, where the cast stops.
            *value = (f32::from(*value) * gain + 0.5) as u8;
        }
    }
}

/// Squares along one side of the image.
#[derive(Debug, Clone, Copy)]
struct Squares {
    side: u32,
    count: usize,
}

impl Squares {
    fn new(length: u32, side: u32) -> Self {
        Self {
            side,
            count: length.div_ceil(side) as usize,
        }
    }

    fn range(&self, index: usize, length: u32) -> std::ops::Range<u32> {
        let start = index as u32 * self.side;
        start..(start + self.side).min(length)
    }

    /// The two squares between whose middles a pixel lies, and the share of the second.
    fn tap(&self, pixel: usize) -> (usize, usize, f32) {
        let position = ((pixel as f32 + 0.5) / self.side as f32 - 0.5).clamp(0.0, (self.count - 1) as f32);
        let first = position as usize;
        (first, (first + 1).min(self.count - 1), position.fract())
    }
}

/// Factors by which the squares become brighter.
#[derive(Debug)]
struct Gains {
    columns: Squares,
    rows: Squares,
    /// Row by row.
    values: Vec<f32>,
}

impl Gains {
    /// `None` where nothing is to be done.
    fn of(image: &GrayImage, least_paper: u8) -> Option<Self> {
        if image.is_empty() {
            return None;
        }
        let (width, height) = image.dimensions();
        let side = (width.min(height) / SQUARES).max(LEAST_SQUARE);
        let (columns, rows) = (Squares::new(width, side), Squares::new(height, side));
        let mut papers = Vec::with_capacity(columns.count * rows.count);
        for row in 0..rows.count {
            for column in 0..columns.count {
                papers.push(paper(
                    image,
                    columns.range(column, width),
                    rows.range(row, height),
                ));
            }
        }
        // A drawing or a dark edge fills some squares, and their brightest neighbour shows the light there.
        let papers = neighbourhoods(&papers, columns.count, |levels| levels.fold(0.0, f32::max));
        // The maxima are plateaus with steep sides; the mean spreads a step over several squares.
        let papers = neighbourhoods(&papers, columns.count, mean);
        let well_lit = percentile(&papers, WELL_LIT)?.max(f32::from(least_paper));
        let values: Vec<f32> = papers
            .iter()
            // Black squares have no paper; with 1 they get the greatest gain as other dark ones do.
            .map(|paper| (well_lit / paper.max(1.0)).clamp(1.0, MOST_GAIN))
            .collect();
        values.iter().any(|&gain| gain > LEAST_GAIN).then_some(Self {
            columns,
            rows,
            values,
        })
    }

    /// The gains at the height of a row of pixels.
    fn blend_row(&self, y: usize, blended: &mut [f32]) {
        let (above, below, share) = self.rows.tap(y);
        let row = |index: usize| &self.values[index * self.columns.count..][..self.columns.count];
        for ((blended, above), below) in blended.iter_mut().zip(row(above)).zip(row(below)) {
            *blended = above + (below - above) * share;
        }
    }
}

fn paper(image: &GrayImage, columns: std::ops::Range<u32>, rows: std::ops::Range<u32>) -> f32 {
    // Counts of 256 levels give a percentile without sorting the pixels of every square.
    let mut histogram = [0_usize; 256];
    let width = image.width() as usize;
    for y in rows.clone() {
        let start = y as usize * width;
        for &level in &image.as_raw()[start + columns.start as usize..start + columns.end as usize] {
            histogram[usize::from(level)] += 1;
        }
    }
    let wanted = columns.len() * rows.len() * PAPER / 100;
    let mut seen = 0;
    let level = histogram.iter().position(|times| {
        seen += times;
        seen > wanted
    });
    level.unwrap_or(usize::from(u8::MAX)) as f32
}

/// Applies `summary` to each value and its up to eight neighbours.
fn neighbourhoods(
    values: &[f32],
    columns: usize,
    summary: impl Fn(&mut dyn Iterator<Item = f32>) -> f32,
) -> Vec<f32> {
    let rows = values.len() / columns;
    let around = |middle: usize, end: usize| middle.saturating_sub(1)..(middle + 2).min(end);
    (0..values.len())
        .map(|place| {
            let (row, column) = (place / columns, place % columns);
            let mut near =
                around(row, rows).flat_map(|y| around(column, columns).map(move |x| values[y * columns + x]));
            summary(&mut near)
        })
        .collect()
}

fn mean(levels: &mut dyn Iterator<Item = f32>) -> f32 {
    let (sum, count) = levels.fold((0.0, 0.0_f32), |(sum, count), level| (sum + level, count + 1.0));
    sum / count.max(1.0)
}

fn percentile(values: &[f32], percent: usize) -> Option<f32> {
    let mut sorted = values.to_vec();
    sorted.sort_by(f32::total_cmp);
    sorted
        .get((sorted.len().saturating_sub(1)) * percent / 100)
        .copied()
}

#[cfg(test)]
mod tests {
    use image::Luma;
    use proptest::prelude::*;

    use super::*;

    /// Strokes on paper under a light that falls from 1 on the left to `least` on the right.
    fn leaf(least: f32) -> GrayImage {
        GrayImage::from_fn(900, 300, |x, y| {
            let light = 1.0 - (1.0 - least) * x as f32 / 900.0;
            let level = if x % 12 < 4 && y % 40 < 20 { 60.0 } else { 220.0 };
            Luma([(level * light) as u8])
        })
    }

    #[test]
    fn a_well_lit_page_keeps_every_pixel() {
        let page = leaf(1.0);
        let mut evened = page.clone();
        even_light(&mut evened, 215);
        assert_eq!(evened, page);
    }

    #[test]
    fn ink_in_the_shadow_is_as_dark_against_its_paper_as_elsewhere() {
        let mut page = leaf(0.35);
        even_light(&mut page, 0);
        let contrast =
            |x: u32| i32::from(page.get_pixel(x + 6, 10).0[0]) - i32::from(page.get_pixel(x, 10).0[0]);
        let (lit, dark) = (contrast(36), contrast(840));
        assert!((lit - dark).abs() < lit / 5, "{lit} {dark}");
    }

    #[test]
    fn dim_paper_becomes_bright_and_its_ink_stands_out_more() {
        let dim = GrayImage::from_fn(900, 300, |x, y| {
            Luma([if x % 12 < 4 && y % 40 < 20 { 80 } else { 140 }])
        });
        let mut page = dim.clone();
        even_light(&mut page, 0);
        assert_eq!(page, dim);
        even_light(&mut page, 215);
        let (paper, ink) = (page.get_pixel(450, 30).0[0], page.get_pixel(445, 10).0[0]);
        assert!((210..=220).contains(&paper) && paper - ink > 85, "{paper} {ink}");
    }

    #[test]
    fn what_lies_beside_the_leaf_stays_dark() {
        let mut page = GrayImage::from_fn(900, 300, |x, _| Luma([if x < 600 { 220 } else { 20 }]));
        even_light(&mut page, 0);
        assert!(page.get_pixel(800, 150).0[0] <= 70);
        assert_eq!(page.get_pixel(100, 150).0[0], 220);
    }

    proptest! {
        #[test]
        fn nothing_becomes_darker(width in 0_u32..70, height in 0_u32..70, seed: u32) {
            let page = GrayImage::from_fn(width, height, |x, y| {
                Luma([(seed.wrapping_mul(31).wrapping_add(x * 7 + y * 13 + x * y % 29) % 256) as u8])
            });
            let mut evened = page.clone();
            even_light(&mut evened, 215);
            prop_assert!(page.iter().zip(evened.iter()).all(|(before, after)| before <= after));
        }
    }
}
