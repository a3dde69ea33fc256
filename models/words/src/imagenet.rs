//! Pixels as networks take them that were trained on ImageNet.

/// Means and deviations of the channels, in the order in which the planes below are: the published networks take blue first, with the
/// numbers of red.
const MEANS: [f32; 3] = [0.485, 0.456, 0.406];
const DEVIATIONS: [f32; 3] = [0.229, 0.224, 0.225];

/// Pixels of an image in red, green and blue as planes in blue, green and red, normalised with ImageNet's means and deviations.
pub(crate) fn normalized(pixels: &[u8]) -> Vec<f32> {
    let (pixels, _) = pixels.as_chunks::<3>();
    let mut values = Vec::with_capacity(3 * pixels.len());
    for channel in 0..3 {
        let (mean, deviation) = (MEANS[channel], DEVIATIONS[channel]);
        values.extend(
            pixels
                .iter()
                .map(|pixel| (f32::from(pixel[2 - channel]) / 255.0 - mean) / deviation),
        );
    }
    values
}
