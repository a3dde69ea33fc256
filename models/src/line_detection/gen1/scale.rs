//! The size at which the network sees a page.

use super::super::DetectionConfig;

/// A page lower than a tile is enlarged to its height, but to no more columns than this many times the greatest width:
/// a strip of a few rows would fill the memory.
const MAX_ENLARGED_WIDTHS: u32 = 16;

/// The frame of a page: a landscape page is clamped by its width alone and a portrait one by its height alone, and a page
/// lower than a tile that neither rule shrinks is enlarged (`resize_clamp` of `ocr-inference`).
pub(super) fn frame_size(
    (width, height): (u32, u32),
    tile_size: usize,
    config: &DetectionConfig,
) -> (u32, u32) {
    let tile = u32::try_from(tile_size).unwrap_or(u32::MAX);
    let scaled = |side: u32, ratio: f64| ((f64::from(side) * ratio) as u32).max(1);
    let ratio = |to: u32, from: u32| f64::from(to) / f64::from(from.max(1));
    if width > height && width > config.max_width {
        let ratio = ratio(config.max_width, width);
        (config.max_width, scaled(height, ratio))
    // A square page meets neither rule and keeps its size, however large, as upstream has it.
    } else if height > width && height > config.max_height {
        let ratio = ratio(config.max_height, height);
        (scaled(width, ratio), config.max_height)
    } else if height < tile {
        let widest = config.max_width.saturating_mul(MAX_ENLARGED_WIDTHS);
        (scaled(width, ratio(tile, height)).min(widest), tile)
    } else {
        (width, height)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_first_rule_that_fits_applies() {
        let size = |page| frame_size(page, 512, &DetectionConfig::gen1());
        assert_eq!(size((6000, 1200)), (4096, 819));
        assert_eq!(size((1800, 2600)), (1417, 2048));
        assert_eq!(size((3000, 2900)), (3000, 2900));
        assert_eq!(size((9000, 9000)), (9000, 9000));
        assert_eq!(size((10_190, 25)), (4096, 10));
        assert_eq!(size((900, 450)), (1024, 512));
    }

    #[test]
    fn a_strip_is_not_enlarged_without_bounds() {
        assert_eq!(
            frame_size((4000, 1), 512, &DetectionConfig::gen1()),
            (65_536, 512)
        );
    }
}
