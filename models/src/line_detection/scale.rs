//! Factor by which a page is shrunk before it is cut into tiles.

use super::DetectionConfig;

/// Ratio of width to height beyond which a page (a pecha, a scroll) is fitted into one row of tiles.
const ONE_ROW_ASPECT: f64 = 2.5;
/// A frame whose height is between this share of a tile and a whole one is taken to the height of the tile.
const NEARLY_ONE_TILE: f64 = 0.75;

/// The limits a page is shrunk to, in pixels.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ScaleLimits {
    pub max_width: u32,
    pub max_height: u32,
    /// Side of a tile.
    pub tile: u32,
    /// Pixel rows that two tiles one above the other share.
    pub vertical_overlap: u32,
    /// Largest number of pixel rows of a last tile row that is avoided.
    pub snap: u32,
    pub max_rows: u32,
}

impl ScaleLimits {
    /// The limits of `config` for a page of this size.
    pub fn for_page(width: u32, height: u32, tile: u32, config: &DetectionConfig) -> Self {
        let max_rows = if height > width {
            config.max_rows_portrait
        } else {
            config.max_rows
        };
        Self {
            max_width: config.max_width,
            max_height: config.max_height,
            tile,
            vertical_overlap: 0,
            snap: config.snap,
            max_rows: max_rows.max(1),
        }
    }

    /// The factor by which a page is scaled; 1 and above means "leave it as it is" (`_compute_downscale` of `ldv1`).
    pub fn factor(&self, width: u32, height: u32) -> f64 {
        let (w, h) = (f64::from(width), f64::from(height));
        let (max_width, max_height) = (f64::from(self.max_width), f64::from(self.max_height));
        let tile = f64::from(self.tile);
        let stride = f64::from(self.tile.saturating_sub(self.vertical_overlap).max(1));

        if w > ONE_ROW_ASPECT * h {
            return (tile / h).min(max_width / w);
        }
        let mut factor = (max_width / w).min(max_height / h).min(1.0);
        let scaled = h * factor;
        // The tile is computed whole in any case, so what would be padding goes into resolution; where that
        // means enlarging, `frame_size` leaves the page alone.
        if NEARLY_ONE_TILE * tile < scaled && scaled < tile {
            factor = tile / h;
        }
        let scaled = h * factor;
        if scaled > tile {
            // A row of tiles costs the same for few rows of pixels as for many, so a short last one is not
            // worth its time.
            let whole_rows = ((scaled - tile) / stride).floor();
            let boundary = tile + whole_rows * stride;
            let excess = scaled - boundary;
            if 0.0 < excess && excess <= f64::from(self.snap) {
                factor = boundary / h;
            }
        }
        // Rows of tiles are what a page costs; this limit holds whatever those in pixels allow.
        let tallest = tile + f64::from(self.max_rows.saturating_sub(1)) * stride;
        if h * factor > tallest {
            factor = tallest / h;
        }
        factor
    }

    /// Size of the frame a page becomes: never larger than the page, at least one pixel each way.
    pub fn frame_size(&self, width: u32, height: u32) -> (u32, u32) {
        let factor = self.factor(width, height);
        if factor >= 1.0 {
            return (width, height);
        }
        // Cut off and not rounded, as in `ldv1`.
        let scaled = |side: u32| ((f64::from(side) * factor) as u32).max(1);
        (scaled(width), scaled(height))
    }
}

#[cfg(test)]
mod tests {
    use serde::Deserialize;

    use super::*;

    #[derive(Deserialize)]
    struct Table {
        ldv1_params: Parameters,
        ocrv1_params: Parameters,
        pairs: Vec<Pair>,
    }

    #[derive(Deserialize)]
    struct Parameters {
        max_w: u32,
        max_h: u32,
        patch_size: u32,
        patch_vertical_overlap_px: u32,
        snap_extra_patch_row_threshold_px: u32,
        max_patch_rows: u32,
    }

    #[derive(Deserialize)]
    struct Pair {
        w: u32,
        h: u32,
        ldv1: Expected,
        ocrv1: Expected,
    }

    #[derive(Deserialize)]
    struct Expected {
        s: f64,
        frame_w: u32,
        frame_h: u32,
    }

    impl From<Parameters> for ScaleLimits {
        fn from(parameters: Parameters) -> Self {
            Self {
                max_width: parameters.max_w,
                max_height: parameters.max_h,
                tile: parameters.patch_size,
                vertical_overlap: parameters.patch_vertical_overlap_px,
                snap: parameters.snap_extra_patch_row_threshold_px,
                max_rows: parameters.max_patch_rows,
            }
        }
    }

    #[test]
    fn factors_and_frame_sizes_are_those_of_upstream() {
        let table: Table =
            serde_json::from_str(include_str!("../../tests/golden/scale/downscale.json")).unwrap();
        let (ldv1, ocrv1) = (
            ScaleLimits::from(table.ldv1_params),
            ScaleLimits::from(table.ocrv1_params),
        );
        assert!(table.pairs.len() >= 200);
        for Pair {
            w,
            h,
            ldv1: first,
            ocrv1: second,
        } in table.pairs
        {
            for (limits, expected) in [(ldv1, first), (ocrv1, second)] {
                let factor = limits.factor(w, h);
                assert!(
                    (factor - expected.s).abs() < 1e-12,
                    "{w} x {h}, {limits:?}: {factor}"
                );
                let frame = (expected.frame_w, expected.frame_h);
                assert_eq!(limits.frame_size(w, h), frame, "{w} x {h}, {limits:?}");
            }
        }
    }

    #[test]
    fn the_configuration_of_upstream_has_the_limits_of_upstream() {
        let limits = ScaleLimits::for_page(1800, 2600, 512, &DetectionConfig::ldv1());
        assert_eq!(limits.frame_size(1800, 2600), (708, 1024));
        let limits = ScaleLimits::for_page(3500, 700, 512, &DetectionConfig::ldv1());
        assert_eq!(limits.frame_size(3500, 700), (2560, 512));
    }

    #[test]
    fn tall_pages_get_a_further_row_of_tiles() {
        let limits = ScaleLimits::for_page(1800, 2600, 512, &DetectionConfig::default());
        assert_eq!(limits.frame_size(1800, 2600).1, 1536);
        let limits = ScaleLimits::for_page(2600, 1800, 512, &DetectionConfig::default());
        assert_eq!(limits.frame_size(2600, 1800).1, 1024);
    }

    #[test]
    fn degenerate_pages_keep_a_pixel() {
        let limits = ScaleLimits::for_page(1, 1, 512, &DetectionConfig::default());
        assert_eq!(limits.frame_size(100_000, 1), (4096, 1));
        assert_eq!(limits.frame_size(1, 100_000), (1, 1024));
    }
}
