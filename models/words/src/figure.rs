//! Figures: regions in which something is drawn. The detector takes the labels of a form for one, as they stand apart from each other.

use image::{RgbImage, imageops};

use crate::ink::ink_mask;

/// Share of a region that ink covers which is no text, from which something is drawn there.
const DRAWN: f32 = 0.003;
/// Height of a word, as a share of the region, beyond which it was read into the drawing.
const TALLEST: f32 = 0.25;
/// Margin around a word, as a share of its height: boxes of words are inexact.
const MARGIN: f32 = 0.2;

/// True if there is more in a region than the words on it, whose boxes are in pixels of the page too.
pub(crate) fn is_drawn(page: &RgbImage, region: [f32; 4], words: &[[f32; 4]]) -> bool {
    let inside = |place: f32, side: u32| (place.max(0.0) as u32).min(side);
    let (left, top) = (inside(region[0], page.width()), inside(region[1], page.height()));
    let width = inside(region[2].ceil(), page.width()).saturating_sub(left);
    let height = inside(region[3].ceil(), page.height()).saturating_sub(top);
    let picture = imageops::crop_imm(page, left, top, width, height).to_image();
    // Where all is of one tone, nothing tells text from a drawing.
    let Some(mut mask) = ink_mask(&picture) else {
        return true;
    };
    for [x0, y0, x1, y1] in words {
        if y1 - y0 > TALLEST * height as f32 {
            continue;
        }
        let margin = MARGIN * (y1 - y0);
        let columns =
            inside(x0 - margin - left as f32, width)..inside((x1 + margin).ceil() - left as f32, width);
        let rows =
            inside(y0 - margin - top as f32, height)..inside((y1 + margin).ceil() - top as f32, height);
        for row in rows {
            let start = (row * width) as usize;
            if let Some(covered) = mask.get_mut(start + columns.start as usize..start + columns.end as usize)
            {
                covered.fill(false);
            }
        }
    }
    let drawn = mask.iter().filter(|is_ink| **is_ink).count();
    drawn as f32 > DRAWN * mask.len() as f32
}

#[cfg(test)]
mod tests {
    use image::Rgb;

    use super::*;

    const REGION: [f32; 4] = [20.0, 30.0, 320.0, 230.0];

    fn page(lines: &[[u32; 4]]) -> RgbImage {
        let mut page = RgbImage::from_pixel(400, 300, Rgb([250; 3]));
        for &[x0, y0, x1, y1] in lines {
            for (x, y) in (y0..y1).flat_map(|y| (x0..x1).map(move |x| (x, y))) {
                page.put_pixel(x, y, Rgb([20; 3]));
            }
        }
        page
    }

    #[test]
    fn labels_alone_are_no_figure() {
        let labels = [[30, 40, 120, 52], [30, 80, 150, 92], [30, 120, 100, 132]];
        let words = labels.map(|label| label.map(|edge| edge as f32));
        assert!(!is_drawn(&page(&labels), REGION, &words));
        assert!(
            is_drawn(&page(&labels), REGION, &words[..2]),
            "what is no word is drawn"
        );
        let axes = [[40, 50, 42, 220], [40, 218, 300, 220]];
        let chart = [&labels[..], &axes[..]].concat();
        assert!(is_drawn(&page(&chart), REGION, &words));
    }

    #[test]
    fn a_letter_that_was_read_into_a_photograph_hides_nothing_of_it() {
        let photograph = [[60, 60, 200, 150]];
        assert!(is_drawn(
            &page(&photograph),
            REGION,
            &[[20.0, 30.0, 320.0, 230.0]]
        ));
        assert!(is_drawn(
            &RgbImage::from_pixel(400, 300, Rgb([9; 3])),
            REGION,
            &[]
        ));
        assert!(is_drawn(&RgbImage::new(0, 0), REGION, &[]));
    }
}
