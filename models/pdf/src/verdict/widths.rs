//! Widths of the letters of a font, compared with those that Latin letters have in proportional fonts. An `i` is narrow and an `m` is
//! wide in nearly all of them, so a font whose widths fit the letters that it is said to have is mapped rightly, whatever it writes.

use std::collections::BTreeMap;

use crate::content::Glyph;

/// Widths of Latin letters in thousandths of the font's size: means over common serif and sans serif fonts, rounded.
const TYPICAL: [(char, f64); 52] = [
    ('a', 510.0),
    ('b', 540.0),
    ('c', 470.0),
    ('d', 545.0),
    ('e', 510.0),
    ('f', 305.0),
    ('g', 525.0),
    ('h', 545.0),
    ('i', 255.0),
    ('j', 265.0),
    ('k', 510.0),
    ('l', 255.0),
    ('m', 825.0),
    ('n', 545.0),
    ('o', 530.0),
    ('p', 545.0),
    ('q', 545.0),
    ('r', 355.0),
    ('s', 440.0),
    ('t', 305.0),
    ('u', 545.0),
    ('v', 490.0),
    ('w', 725.0),
    ('x', 495.0),
    ('y', 490.0),
    ('z', 455.0),
    ('A', 690.0),
    ('B', 665.0),
    ('C', 690.0),
    ('D', 725.0),
    ('E', 635.0),
    ('F', 585.0),
    ('G', 745.0),
    ('H', 735.0),
    ('I', 305.0),
    ('J', 440.0),
    ('K', 690.0),
    ('L', 580.0),
    ('M', 865.0),
    ('N', 730.0),
    ('O', 750.0),
    ('P', 615.0),
    ('Q', 750.0),
    ('R', 685.0),
    ('S', 610.0),
    ('T', 605.0),
    ('U', 725.0),
    ('V', 680.0),
    ('W', 940.0),
    ('X', 690.0),
    ('Y', 680.0),
    ('Z', 610.0),
];
/// Fewest different letters that say anything.
const FEWEST: usize = 8;
/// Deviation of the widths, in parts of the font's size, below which a font has one width for all.
const ONE_WIDTH: f64 = 0.04;

/// Correlation of a font's letter widths with the typical ones, from -1 to 1, and the number of letters; `None` if nothing can be said.
pub(super) fn fit<'a>(glyphs: impl Iterator<Item = &'a Glyph>) -> Option<(f64, usize)> {
    let mut own: BTreeMap<char, f64> = BTreeMap::new();
    for glyph in glyphs.filter(|glyph| glyph.visible) {
        let mut letters = glyph.text.chars();
        if let (Some(letter), None) = (letters.next(), letters.next()) {
            own.entry(letter).or_insert(f64::from(glyph.em_width));
        }
    }
    let pairs: Vec<(f64, f64)> = TYPICAL
        .iter()
        .filter_map(|(letter, typical)| Some((*own.get(letter)?, *typical / 1000.0)))
        .collect();
    if pairs.len() < FEWEST {
        return None;
    }
    let count = pairs.len() as f64;
    let mean = |of: fn(&(f64, f64)) -> f64| pairs.iter().map(of).sum::<f64>() / count;
    let (own_mean, typical_mean) = (mean(|pair| pair.0), mean(|pair| pair.1));
    let mut product = 0.0;
    let mut own_square = 0.0;
    let mut typical_square = 0.0;
    for (own, typical) in &pairs {
        product += (own - own_mean) * (typical - typical_mean);
        own_square += (own - own_mean).powi(2);
        typical_square += (typical - typical_mean).powi(2);
    }
    let deviation = (own_square / count).sqrt();
    if deviation < ONE_WIDTH {
        return None;
    }
    Some((product / (own_square * typical_square).sqrt(), pairs.len()))
}
