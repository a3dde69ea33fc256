//! Dilation.

use std::num::NonZeroU32;

use image::GrayImage;

use crate::simd::vectorised;

/// Every pixel becomes the largest value under a `width` x `height` rectangle that reaches `width / 2` pixels to the left
/// and `height / 2` up (rounded down), and covers the rest to the right and down. What lies outside the image is ignored.
///
/// Separable; the time grows with the logarithm of the rectangle's sides.
pub fn dilate_rect(image: &GrayImage, width: NonZeroU32, height: NonZeroU32) -> GrayImage {
    let (columns, rows) = (image.width() as usize, image.height() as usize);
    if columns == 0 || rows == 0 {
        return image.clone();
    }
    // Beyond twice the image a larger rectangle changes nothing.
    let width = (width.get() as usize).min(2 * columns + 1);
    let height = (height.get() as usize).min(2 * rows + 1);

    // The window only ever looks down and to the right. The rows lie `above` too low at first, so that it
    // reaches as far up; the zeros before them change no maximum.
    let above = height / 2;
    let mut dilated = vec![0; columns * (rows + above)];
    vectorised(
        #[inline(always)]
        || {
            dilate_rows(image, width, &mut dilated[columns * above..]);
            slide_maximum_down(&mut dilated, columns, height);
        },
    );
    dilated.truncate(columns * rows);
    GrayImage::from_raw(image.width(), image.height(), dilated).unwrap_or_default()
}

#[inline(always)]
fn dilate_rows(image: &GrayImage, window: usize, dilated: &mut [u8]) {
    let columns = image.width() as usize;
    let left = window / 2;
    let mut maxima = vec![0; columns + left];
    let mut doubled = maxima.clone();
    for (pixels, dilated) in image.chunks_exact(columns).zip(dilated.chunks_exact_mut(columns)) {
        maxima[..left].fill(0);
        maxima[left..].copy_from_slice(pixels);
        for shift in shifts(window) {
            let reach = maxima.len().saturating_sub(shift);
            let ahead = &maxima[maxima.len() - reach..];
            for ((doubled, here), ahead) in doubled.iter_mut().zip(&maxima).zip(ahead) {
                *doubled = (*here).max(*ahead);
            }
            // There is nothing ahead of the last values, which are their own maximum.
            doubled[reach..].copy_from_slice(&maxima[reach..]);
            std::mem::swap(&mut maxima, &mut doubled);
        }
        dilated.copy_from_slice(&maxima[..columns]);
    }
}

/// Replaces every row by the maximum of the `window` rows from it downwards.
#[inline(always)]
fn slide_maximum_down(pixels: &mut [u8], columns: usize, window: usize) {
    for shift in shifts(window) {
        let distance = (shift * columns).min(pixels.len());
        // From top to bottom, what a row is compared with has not been changed yet: no second buffer is
        // needed.
        let mut rest = &mut *pixels;
        while rest.len() > distance {
            let (here, ahead) = rest.split_at_mut(distance);
            for (here, ahead) in here.iter_mut().zip(&*ahead) {
                *here = (*here).max(*ahead);
            }
            rest = ahead;
        }
    }
}

/// Taking the maximum of the sequence and itself shifted by each of these in turn gives the maximum over `window`
/// neighbours: the window doubles while it fits, then overlaps.
#[inline(always)]
fn shifts(window: usize) -> impl Iterator<Item = usize> {
    let doublings = window.ilog2();
    let overlap = window - (1 << doublings);
    (0..doublings)
        .map(|doubling| 1 << doubling)
        .chain((overlap > 0).then_some(overlap))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn brute_force(image: &GrayImage, width: u32, height: u32) -> GrayImage {
        GrayImage::from_fn(image.width(), image.height(), |x, y| {
            let columns = x.saturating_sub(width / 2)..(x + width - width / 2).min(image.width());
            let rows = y.saturating_sub(height / 2)..(y + height - height / 2).min(image.height());
            let under = rows.flat_map(|y| columns.clone().map(move |x| image.get_pixel(x, y).0[0]));
            image::Luma([under.max().unwrap_or(0)])
        })
    }

    proptest! {
        #[test]
        fn dilation_is_the_maximum_under_the_rectangle(
            (columns, rows, pixels) in (1_u32..40, 1_u32..30).prop_flat_map(|(columns, rows)| {
                let pixels = proptest::collection::vec(any::<u8>(), (columns * rows) as usize);
                (Just(columns), Just(rows), pixels)
            }),
            width in 1_u32..90,
            height in 1_u32..90,
        ) {
            let image = GrayImage::from_raw(columns, rows, pixels).unwrap();
            let (wide, high) = (NonZeroU32::new(width).unwrap(), NonZeroU32::new(height).unwrap());
            prop_assert_eq!(dilate_rect(&image, wide, high), brute_force(&image, width, height));
        }
    }
}
