//! Fonts of a page: which glyphs belong to one, and how high its letters are.

use std::collections::HashMap;

use hayro_interpret::font::{FontData, Glyph, PositionedGlyph};
use hayro_interpret::hayro_cmap::BfString;
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

/// Fonts that a page has used so far. Two fonts of a document may have one program and say different things about its glyphs, and the
/// library shows the program alone: they are told apart by what they say.
#[derive(Debug, Default)]
pub(super) struct Fonts {
    known: HashMap<FontKey, (Heights, Vec<usize>)>,
    texts: Vec<HashMap<u32, Option<BfString>>>,
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
        self.texts.len()
    }

    /// Returns the number of the font of a run of glyphs, and its heights.
    pub(super) fn of(&mut self, run: &[PositionedGlyph<'_>]) -> Option<(usize, Heights)> {
        let first: &Glyph<'_> = run.first()?;
        let (key, data) = key(first);
        let (heights, fonts) = self.known.entry(key).or_insert_with(|| {
            let stated = data.as_ref().and_then(|data| heights((**data).as_ref()));
            (stated.unwrap_or(USUAL), Vec::new())
        });
        // The font that contradicts the run nowhere and agrees with it most.
        let fitting = fonts
            .iter()
            .filter_map(|font| Some((agreement(self.texts.get(*font)?, run)?, *font)))
            .max();
        let font = match fitting {
            Some((_, font)) => font,
            None => {
                self.texts.push(HashMap::new());
                fonts.push(self.texts.len() - 1);
                self.texts.len() - 1
            }
        };
        let known = self.texts.get_mut(font)?;
        known.extend(run.iter().map(|glyph| (glyph.char_code(), glyph.as_unicode())));
        Some((font, *heights))
    }
}

/// Number of glyphs of a run about which a font says the same; `None` if it says something else about one.
fn agreement(known: &HashMap<u32, Option<BfString>>, run: &[PositionedGlyph<'_>]) -> Option<usize> {
    let mut same = 0;
    for glyph in run {
        match known.get(&glyph.char_code()) {
            Some(text) if *text == glyph.as_unicode() => same += 1,
            Some(_) => return None,
            None => {}
        }
    }
    Some(same)
}

fn key(glyph: &Glyph<'_>) -> (FontKey, Option<FontData>) {
    match glyph {
        Glyph::Outline(outline) => match outline.font_data() {
            Some(data) => (FontKey::Program(data.cache_key), Some(data.data)),
            None => (FontKey::Opaque, None),
        },
        Glyph::Type3(_) => (FontKey::Drawn, None),
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
