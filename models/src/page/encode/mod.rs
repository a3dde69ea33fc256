//! Grey pixels to the bytes of a baseline JPEG (ITU-T T.81), as pages and lines travel between stages.
//!
//! The bits of the crate `jpeg-encoder` with AVX2, at less than half its time: every step is laid out for vector
//! instructions.

mod entropy;
mod tables;
mod transform;

use image::GrayImage;

use super::simd;
use entropy::EntropyCoder;
use tables::{AC_LENGTHS, AC_VALUES, DC_LENGTHS, DC_VALUES, ZIGZAG, quantisation};
use transform::{Quantiser, coefficients};

/// Rows and columns of a block.
const SIDE: usize = 8;
/// A JPEG's header has sixteen bits for each side.
const MAX_SIDE: u32 = u16::MAX as u32;

/// Why an image cannot be a JPEG.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum JpegError {
    #[error("an image of {width} x {height} pixels does not fit a JPEG, whose sides end at {MAX_SIDE}")]
    TooLarge { width: u32, height: u32 },
    #[error("an image of {width} x {height} pixels has none to encode")]
    Empty { width: u32, height: u32 },
}

/// Encodes an image with the quantisation that libjpeg calls `quality`, 1 to 100.
///
/// # Errors
/// [`JpegError`] when a side is zero or more than a JPEG can have.
pub fn encode_jpeg(image: &GrayImage, quality: u8) -> Result<Vec<u8>, JpegError> {
    let (width, height) = image.dimensions();
    if width == 0 || height == 0 {
        return Err(JpegError::Empty { width, height });
    }
    let (Ok(columns), Ok(rows)) = (u16::try_from(width), u16::try_from(height)) else {
        return Err(JpegError::TooLarge { width, height });
    };
    let steps = quantisation(quality);
    let mut file = Vec::with_capacity(image.len() / 4 + 1024);
    write_header(&mut file, columns, rows, &steps);
    let mut coder = EntropyCoder::new(file);
    simd::vectorised(
        #[inline(always)]
        || write_scan(image, &Quantiser::new(&steps), &mut coder),
    );
    let mut file = coder.finish();
    file.extend(segment_start(marker::END_OF_IMAGE));
    Ok(file)
}

mod marker {
    pub(super) const START_OF_IMAGE: u8 = 0xD8;
    pub(super) const JFIF: u8 = 0xE0;
    pub(super) const QUANTISATION: u8 = 0xDB;
    pub(super) const BASELINE_FRAME: u8 = 0xC0;
    pub(super) const HUFFMAN: u8 = 0xC4;
    pub(super) const SCAN: u8 = 0xDA;
    pub(super) const END_OF_IMAGE: u8 = 0xD9;
}

fn segment_start(marker: u8) -> [u8; 2] {
    [0xFF, marker]
}

fn write_header(file: &mut Vec<u8>, columns: u16, rows: u16, steps: &[u8; 64]) {
    let mut segment = |marker: u8, parts: &[&[u8]]| {
        let length = 2 + parts.iter().map(|part| part.len()).sum::<usize>() as u16;
        file.extend(segment_start(marker));
        file.extend(length.to_be_bytes());
        parts.iter().for_each(|part| file.extend_from_slice(part));
    };
    // Version 1.2, square pixels, no thumbnail.
    let jfif = [1, 2, 0, 0, 1, 0, 1, 0, 0];
    let in_zigzag = ZIGZAG.map(|place| steps[usize::from(place)]);
    let ([high, low], [wide, narrow]) = (rows.to_be_bytes(), columns.to_be_bytes());
    // Eight bits; one component, the first, in steps of one pixel, by quantisation table 0.
    let frame = [8, high, low, wide, narrow, 1, 1, 0x11, 0];
    // By the tables 0, all 64 coefficients in full.
    let scan = [1, 1, 0x00, 0, 63, 0];

    segment(marker::JFIF, &[b"JFIF\0", &jfif]);
    segment(marker::QUANTISATION, &[&[0], &in_zigzag]);
    segment(marker::BASELINE_FRAME, &[&frame]);
    segment(marker::HUFFMAN, &[&[0x00], &DC_LENGTHS, &DC_VALUES]);
    segment(marker::HUFFMAN, &[&[0x10], &AC_LENGTHS, &AC_VALUES]);
    segment(marker::SCAN, &[&scan]);
    file.splice(0..0, segment_start(marker::START_OF_IMAGE));
}

/// Blocks from left to right and from top to bottom; beyond the edges the outermost pixels are repeated.
#[inline(always)]
fn write_scan(image: &GrayImage, quantiser: &Quantiser, coder: &mut EntropyCoder) {
    let (width, height) = (image.width() as usize, image.height() as usize);
    let stride = width.next_multiple_of(SIDE);
    let mut strip = vec![0; stride * SIDE];
    for top in (0..height).step_by(SIDE) {
        for (y, padded) in (top..).zip(strip.chunks_exact_mut(stride)) {
            let row = &image.as_raw()[y.min(height - 1) * width..][..width];
            padded[..width].copy_from_slice(row);
            padded[width..].fill(row[width - 1]);
        }
        for left in (0..stride).step_by(SIDE) {
            let mut block = [[0; SIDE]; SIDE];
            for (pixels, row) in block.iter_mut().zip(strip.chunks_exact(stride)) {
                pixels.copy_from_slice(&row[left..left + SIDE]);
            }
            coder.write(&quantiser.quantise(&coefficients(&block)));
        }
    }
}

#[cfg(test)]
mod tests;
