//! Scaling, with the sampling rules of OpenCV's `resize`.
//!
//! Every function works on any number of 8-bit channels. An image of the size wanted is copied; a side of zero gives an
//! empty image.
//!
//! The kinds are functions of their own and not values of an enum, since each caller knows which it needs: area averages when a
//! page shrinks, linear where upstream enlarges, nearest for masks. They share the axes ([`axis`]), which say for each target
//! pixel which source pixels count and by how much, worked out once for each axis and not for each pixel. Averages by whole
//! factors and by fractions are different loops in OpenCV and round differently, so they are here too. All loops are over [`Samples`]
//! and not over pixels of some type: a function of any type is compiled where it is used, as little optimised as what uses it.

use image::{GrayImage, ImageBuffer, Pixel};

mod area;
mod axis;
mod lanes;
mod linear;

use axis::Axis;

/// An image of 8-bit channels.
type Image<P> = ImageBuffer<P, Vec<u8>>;

/// Samples of an image, row by row.
#[derive(Debug, Clone, Copy)]
struct Samples<'a> {
    values: &'a [u8],
    /// Samples in a row.
    stride: usize,
    /// Samples of a pixel.
    channels: usize,
}

impl<'a> Samples<'a> {
    fn row(&self, row: usize) -> &'a [u8] {
        &self.values[row * self.stride..][..self.stride]
    }
}

/// Bilinear (`INTER_LINEAR`), or by area if both sides shrink to exactly half, as there.
pub fn resize_linear<P: Pixel<Subpixel = u8>>(image: &Image<P>, width: u32, height: u32) -> Image<P> {
    let (columns, rows) = (Axis::new(image.width(), width), Axis::new(image.height(), height));
    resize(image, width, height, |source, pixels| {
        if columns.is_halved() && rows.is_halved() {
            area::average(source, &columns, &rows, pixels);
        } else {
            linear::blend(source, &columns.linear_taps(), &rows.linear_taps(), pixels);
        }
    })
}

/// The mean over the area that a pixel covers (`INTER_AREA`). If either side grows, both are blended linearly with the
/// weights of that mode, which differ from those of [`resize_linear`].
pub fn resize_area<P: Pixel<Subpixel = u8>>(image: &Image<P>, width: u32, height: u32) -> Image<P> {
    let (columns, rows) = (Axis::new(image.width(), width), Axis::new(image.height(), height));
    resize(image, width, height, |source, pixels| {
        if columns.grows() || rows.grows() {
            linear::blend(source, &columns.area_taps(), &rows.area_taps(), pixels);
        } else {
            area::average(source, &columns, &rows, pixels);
        }
    })
}

/// The pixel at the scaled position, rounded down (`INTER_NEAREST`).
pub fn resize_nearest<P: Pixel<Subpixel = u8>>(image: &Image<P>, width: u32, height: u32) -> Image<P> {
    let columns = Axis::new(image.width(), width).nearest();
    let rows = Axis::new(image.height(), height).nearest();
    resize(image, width, height, |source, pixels| {
        take_nearest(source, &columns, &rows, pixels)
    })
}

fn take_nearest(source: Samples<'_>, columns: &[usize], rows: &[usize], pixels: &mut [u8]) {
    let channels = source.channels;
    for (out, &row) in pixels.chunks_exact_mut(columns.len() * channels).zip(rows) {
        let row = source.row(row);
        for (out, &column) in out.chunks_exact_mut(channels).zip(columns) {
            out.copy_from_slice(&row[column * channels..][..channels]);
        }
    }
}

/// A mask of 0 and 255 scaled linearly, with ink only where nothing but ink contributes: how GEN-1 brings the masks of its
/// tiles back to the page's size (it scales a mask of 0.0 and 1.0 and cuts the result to an integer).
pub fn resize_mask(mask: &GrayImage, width: u32, height: u32) -> GrayImage {
    let columns = Axis::new(mask.width(), width).linear_taps();
    let rows = Axis::new(mask.height(), height).linear_taps();
    resize(mask, width, height, |source, pixels| {
        let pixel_rows = pixels.chunks_exact_mut(width as usize);
        for (out, row) in pixel_rows.zip(rows) {
            let sources: Vec<&[u8]> = row.contributing().map(|row| source.row(row)).collect();
            for (out, column) in out.iter_mut().zip(&columns) {
                let mut contributing = column
                    .contributing()
                    .flat_map(|x| sources.iter().map(move |row| row[x]));
                *out = if contributing.all(|pixel| pixel > 0) {
                    u8::MAX
                } else {
                    0
                };
            }
        }
    })
}

fn resize<P: Pixel<Subpixel = u8>>(
    image: &Image<P>,
    width: u32,
    height: u32,
    write: impl FnOnce(Samples<'_>, &mut [u8]),
) -> Image<P> {
    if image.dimensions() == (width, height) {
        return image.clone();
    }
    let mut resized = Image::new(width, height);
    if !image.is_empty() && !resized.is_empty() {
        let channels = P::CHANNEL_COUNT as usize;
        let source = Samples {
            values: image.as_raw(),
            stride: image.width() as usize * channels,
            channels,
        };
        write(source, &mut resized);
    }
    resized
}
