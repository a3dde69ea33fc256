//! Fonts of a page: which glyphs belong to one, and how high its letters are.

use std::collections::HashMap;

use hayro_interpret::font::Glyph;
use skrifa::MetadataProvider;
use skrifa::instance::{LocationRef, Size};

/// Height of letters over and under the base line, as parts of the font's size.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Heights {
    pub ascent: f64,
    pub descent: f64,
}

/// Heights of common text fonts, for a font that states none.
const USUAL: Heights = Heights {
    ascent: 0.9,
    descent: -0.23,
};
/// Heights that a font may state and be believed.
const PLAUSIBLE: std::ops::RangeInclusive<f64> = 0.5..=3.0;

/// Fonts that a page has used so far.
#[derive(Debug, Default)]
pub(super) struct Fonts {
    known: HashMap<FontKey, (usize, Heights)>,
}

/// Name of a font. Those of which the library shows nothing count as one.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
enum FontKey {
    Program(u128),
    Opaque,
    Drawn,
}

impl Fonts {
    pub(super) fn len(&self) -> usize {
        self.known.len()
    }

    /// Returns the number of the font of a glyph, and its heights.
    pub(super) fn of(&mut self, glyph: &Glyph<'_>) -> (usize, Heights) {
        let (key, data) = match glyph {
            Glyph::Outline(outline) => match outline.font_data() {
                Some(data) => (FontKey::Program(data.cache_key), Some(data.data)),
                None => (FontKey::Opaque, None),
            },
            Glyph::Type3(_) => (FontKey::Drawn, None),
        };
        let next = self.known.len();
        *self.known.entry(key).or_insert_with(|| {
            let stated = data.as_ref().and_then(|data| heights((**data).as_ref()));
            (next, stated.unwrap_or(USUAL))
        })
    }
}

fn heights(font: &[u8]) -> Option<Heights> {
    let font = skrifa::FontRef::new(font).ok()?;
    let metrics = font.metrics(Size::unscaled(), LocationRef::default());
    let em = f64::from(metrics.units_per_em);
    let heights = Heights {
        ascent: f64::from(metrics.ascent) / em,
        descent: -f64::from(metrics.descent).abs() / em,
    };
    PLAUSIBLE
        .contains(&(heights.ascent - heights.descent))
        .then_some(heights)
}
