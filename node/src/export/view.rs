//! Region and size of a picture of a scan.

use std::fmt;
use std::str::FromStr;

use thiserror::Error;

/// Longest side of a picture without a requested width, in pixels.
const USUAL_SIDE: u32 = 1600;
/// Longest side of any picture, in pixels.
pub const LARGEST_SIDE: u32 = 6000;

/// Requested region and size. Nothing is ever enlarged.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct View {
    /// Region of the scan; `None` is the whole scan.
    pub region: Option<Region>,
    /// Width of the picture, in pixels.
    pub width: Option<Width>,
}

/// Region of a scan, in pixels. It is not empty.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Region {
    pub x: u32,
    pub y: u32,
    pub width: u32,
    pub height: u32,
}

/// Width of a picture in pixels, 1 to [`LARGEST_SIDE`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Width(u32);

#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum ViewError {
    #[error("a region is x,y,width,height in pixels of the scan, and not empty; {0:?} is not")]
    Region(String),
    #[error("a picture may be 1 to {LARGEST_SIDE} pixels wide, not {0:?}")]
    Width(String),
    #[error("the region {region} reaches beyond the scan, which has {} by {} pixels", .scan.0, .scan.1)]
    Beyond { region: Region, scan: (u32, u32) },
}

impl View {
    /// Returns the region to show of a scan of this size, in pixels.
    ///
    /// # Errors
    ///
    /// [`ViewError::Beyond`] if it reaches beyond the scan.
    pub fn part_of(&self, scan: (u32, u32)) -> Result<Region, ViewError> {
        let whole = Region {
            x: 0,
            y: 0,
            width: scan.0,
            height: scan.1,
        };
        let region = self.region.unwrap_or(whole);
        // In 64 bits, as the sum of two large numbers of a request would overflow.
        let reaches = |from: u32, length: u32, end: u32| u64::from(from) + u64::from(length) > u64::from(end);
        if reaches(region.x, region.width, scan.0) || reaches(region.y, region.height, scan.1) {
            return Err(ViewError::Beyond { region, scan });
        }
        Ok(region)
    }

    /// Returns the width and height of the picture of a region of this size.
    pub fn picture_size(&self, (width, height): (u32, u32)) -> (u32, u32) {
        let Some(Width(wanted)) = self.width else {
            return within(USUAL_SIDE, (width, height));
        };
        // Nothing is enlarged: a picture larger than its scan only costs time.
        let wanted = wanted.min(width);
        within(LARGEST_SIDE, (wanted, scaled(height, wanted, width)))
    }
}

/// Reduces a size so that no side is longer than `longest`.
fn within(longest: u32, (width, height): (u32, u32)) -> (u32, u32) {
    let side = width.max(height);
    if side <= longest {
        return (width, height);
    }
    (scaled(width, longest, side), scaled(height, longest, side))
}

/// Computes `length * numerator / denominator`, at least 1, for a fraction of at most 1.
fn scaled(length: u32, numerator: u32, denominator: u32) -> u32 {
    let scaled = u64::from(length) * u64::from(numerator) / u64::from(denominator.max(1));
    u32::try_from(scaled).unwrap_or(length).max(1)
}

impl FromStr for Region {
    type Err = ViewError;

    fn from_str(text: &str) -> Result<Self, ViewError> {
        let numbers: Option<Vec<u32>> = text.split(',').map(number).collect();
        match numbers.as_deref() {
            Some(&[x, y, width, height]) if width > 0 && height > 0 => Ok(Self { x, y, width, height }),
            _ => Err(ViewError::Region(text.to_owned())),
        }
    }
}

impl FromStr for Width {
    type Err = ViewError;

    fn from_str(text: &str) -> Result<Self, ViewError> {
        number(text)
            .filter(|width| (1..=LARGEST_SIDE).contains(width))
            .map(Self)
            .ok_or_else(|| ViewError::Width(text.to_owned()))
    }
}

/// Parses a number of digits without a sign.
fn number(text: &str) -> Option<u32> {
    // The parser of numbers would also take a plus sign.
    let digits = text.bytes().all(|byte| byte.is_ascii_digit());
    text.parse().ok().filter(|_| digits)
}

impl fmt::Display for Region {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "{},{},{},{}", self.x, self.y, self.width, self.height)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn of_width(width: &str) -> View {
        View {
            width: Some(width.parse().unwrap()),
            ..View::default()
        }
    }

    #[test]
    fn a_picture_is_as_wide_as_asked_for_where_the_scan_is() {
        let pecha = (6816, 1216);
        assert_eq!(View::default().picture_size(pecha), (1600, 285));
        assert_eq!(of_width("3000").picture_size(pecha), (3000, 535));
        assert_eq!(of_width("6000").picture_size(pecha), (6000, 1070));
        let book = (2427, 4627);
        assert_eq!(View::default().picture_size(book), (839, 1600));
        assert_eq!(of_width("1000").picture_size(book), (1000, 1906));
        assert_eq!(of_width("6000").picture_size(book), book);
        assert_eq!(of_width("600").picture_size((600, 60_000)), (60, 6000));
    }

    #[test]
    fn what_is_not_a_region_or_a_width_is_refused() {
        for text in [
            "",
            "1,2,3",
            "1,2,3,4,5",
            "1,2,0,4",
            "1,2,3,0",
            "-1,2,3,4",
            "+1,2,3,4",
            "1, 2,3,4",
            "1,2,3,x",
            "1,2,3,4294967296",
        ] {
            assert_eq!(text.parse::<Region>(), Err(ViewError::Region(text.to_owned())));
        }
        for text in ["", "0", "6001", "-1", "+1", "1e3", "wide"] {
            assert_eq!(text.parse::<Width>(), Err(ViewError::Width(text.to_owned())));
        }
    }

    #[test]
    fn a_region_lies_on_the_scan() {
        let part = |text: &str| {
            let region = Some(text.parse().unwrap());
            let view = View {
                region,
                ..View::default()
            };
            view.part_of((100, 50)).map(|part| part.to_string())
        };
        assert_eq!(part("0,0,100,50").unwrap(), "0,0,100,50");
        assert_eq!(part("99,49,1,1").unwrap(), "99,49,1,1");
        for beyond in [
            "1,0,100,50",
            "0,1,100,50",
            "100,0,1,1",
            "4294967295,0,4294967295,1",
        ] {
            let refused = part(beyond).unwrap_err();
            assert!(matches!(refused, ViewError::Beyond { .. }), "{refused}");
        }
    }

    proptest! {
        #[test]
        fn no_picture_is_empty_or_enlarged(width in 1..70_000_u32, height in 1..70_000_u32, wanted in 0..=LARGEST_SIDE) {
            let view = if wanted == 0 { View::default() } else { of_width(&wanted.to_string()) };
            let (wide, high) = view.picture_size((width, height));
            prop_assert!(wide >= 1 && wide <= width.min(LARGEST_SIDE));
            prop_assert!(high >= 1 && high <= height.min(LARGEST_SIDE));
        }

        #[test]
        fn a_region_is_read_as_it_is_written(x: u32, y: u32, width in 1..=u32::MAX, height in 1..=u32::MAX) {
            let region = Region { x, y, width, height };
            prop_assert_eq!(region.to_string().parse::<Region>(), Ok(region));
        }
    }
}
