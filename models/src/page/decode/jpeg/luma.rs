//! The luma of a sound stream by libjpeg-turbo, in a third of the time of the decoder that tells what is wrong with others.

use turbojpeg::{Colorspace, Decompressor, Image, PixelFormat};

/// Luma of `width` x `height` pixels as the stream stores it, row by row. `None` where libjpeg finds anything to object to, and for
/// all but baseline streams: a progressive one of few bytes may ask for any number of passes.
pub(super) fn luma(bytes: &[u8], width: usize, height: usize) -> Option<Vec<u8>> {
    let mut decompressor = Decompressor::new().ok()?;
    let header = decompressor.read_header(bytes).ok()?;
    let stores_luma = matches!(header.colorspace, Colorspace::Gray | Colorspace::YCbCr);
    if !stores_luma
        || header.is_progressive
        || header.is_lossless
        || (header.width, header.height) != (width, height)
    {
        return None;
    }
    let mut pixels = vec![0; width * height];
    let image = Image {
        pixels: pixels.as_mut_slice(),
        width,
        pitch: width,
        height,
        format: PixelFormat::GRAY,
    };
    decompressor.decompress(bytes, image).ok()?;
    Some(pixels)
}
