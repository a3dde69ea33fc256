//! Sizes of pictures that engines accept.

/// Bounds of a picture.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PictureBounds {
    /// Longest side, in pixels.
    pub side: u32,
    pub pixels: u64,
}

impl PictureBounds {
    /// Bounds within which the archive's language model reads.
    pub const fn of_archive() -> Self {
        Self {
            side: 2800,
            pixels: 4_000_000,
        }
    }

    /// Size to which a picture is shrunk to keep the bounds; its own where it keeps them. A picture is never enlarged.
    pub fn fit(self, width: u32, height: u32) -> (u32, u32) {
        let longest = f64::from(width.max(height).max(1));
        let area = f64::from(width.max(1)) * f64::from(height.max(1));
        let scale = (f64::from(self.side) / longest).min((self.pixels as f64 / area).sqrt());
        if scale >= 1.0 {
            return (width, height);
        }
        let side = |side: u32| (f64::from(side) * scale).round_ties_even().max(1.0) as u32;
        (side(width), side(height))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::golden::fixture;

    /// Rows: 84.
    #[test]
    fn pictures_are_shrunk_as_in_the_archive() {
        for case in fixture("size_cases.jsonl") {
            let number = |name: &str| u32::try_from(case[name].as_u64().unwrap()).unwrap();
            let bounds = PictureBounds {
                side: number("max_side"),
                pixels: u64::from(number("max_pixels")),
            };
            // A picture without pixels is an error there, and is never decoded here.
            if case.get("pil_size").is_none() {
                assert!(number("w") == 0 || number("h") == 0, "{case}");
                continue;
            }
            let (width, height) = bounds.fit(number("w"), number("h"));
            assert_eq!(serde_json::json!([width, height]), case["pil_size"], "{case}");
        }
    }
}
