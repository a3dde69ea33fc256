//! Words and lines out of glyphs, in the order in which the page draws them. Spaces need not be characters, so words end at gaps.

use std::ops::Range;

use kurbo::{Point, Vec2};

use super::script::{Script, ends_syllable, script_of, stands_alone};
use super::{Scripts, Word};
use crate::content::{Content, Glyph};
use crate::geometry::Rect;

/// Gap that ends a word where spaces are characters, as a part of the font's size.
const GAP_BESIDE_SPACES: f64 = 0.35;
/// Gap that ends a word where there are none. A space is 0.25 or more, and may be narrowed to 0.17; letters are spaced by less than 0.1.
const GAP_ALONE: f64 = 0.16;
/// Share of spaces among the glyphs above which spaces are characters.
const SPACES: f64 = 0.03;
/// Distance by which a glyph may lie before the end of the one before it, in parts of the font's size: kerning, marks.
const OVERLAP: f64 = 0.6;
/// Shift from the base line within a word: raised and lowered characters.
const SHIFT: f64 = 0.45;
/// Shift from the base line, and gap, within a line.
const LINE_SHIFT: f64 = 0.6;

/// Word, with the glyphs that it is made of.
#[derive(Debug, Clone)]
pub(crate) struct FoundWord {
    pub word: Word,
    pub glyphs: Range<usize>,
}

/// Text layer before a verdict.
#[derive(Debug)]
pub(crate) struct Layer {
    pub words: Vec<FoundWord>,
    pub scripts: Scripts,
    pub content_rotation: u16,
}

/// Makes words of the glyphs of a page.
pub(crate) fn layer(content: &Content) -> Layer {
    let glyphs = &content.glyphs;
    let spaces = glyphs.iter().filter(|glyph| is_space(glyph)).count();
    let gap = if spaces as f64 > SPACES * glyphs.len() as f64 {
        GAP_BESIDE_SPACES
    } else {
        GAP_ALONE
    };
    let mut words: Vec<FoundWord> = Vec::new();
    let mut line = 0;
    let mut start: Option<usize> = None;
    let mut last_drawn: Option<usize> = None;
    for (index, glyph) in glyphs.iter().enumerate() {
        let before = last_drawn.and_then(|last| glyphs.get(last));
        let ends = is_space(glyph) || before.is_none_or(|before| !continues(before, glyph, gap));
        if ends {
            close(glyphs, start.take(), index, line, &mut words);
        }
        if is_space(glyph) {
            continue;
        }
        if before.is_some_and(|before| !same_line(before, glyph)) {
            line += 1;
        }
        start.get_or_insert(index);
        last_drawn = Some(index);
    }
    close(glyphs, start, glyphs.len(), line, &mut words);
    drop_repeated(&mut words);
    Layer {
        scripts: count_scripts(glyphs),
        content_rotation: rotation(glyphs),
        words,
    }
}

fn is_space(glyph: &Glyph) -> bool {
    !glyph.text.is_empty() && glyph.text.chars().all(|c| c.is_whitespace() || c == '\u{200b}')
}

/// Size of the font, in points.
fn size(glyph: &Glyph) -> f64 {
    (glyph.ascent - glyph.descent).hypot().max(1e-3)
}

fn direction(glyph: &Glyph) -> Vec2 {
    // Across the letters' height, as an advance may be zero or go back.
    let up = glyph.ascent - glyph.descent;
    let along = Vec2::new(-up.y, up.x);
    let advance = glyph.advance;
    let along = if advance.hypot2() > 1e-9 && advance.dot(along).abs() < 0.5 * advance.hypot() * along.hypot()
    {
        // Vertical writing.
        advance
    } else if advance.dot(along) < 0.0 && advance.hypot2() > 1e-9 {
        -along
    } else {
        along
    };
    along / along.hypot().max(1e-9)
}

/// Gap and shift from the end of one glyph to the start of another, in parts of the font's size.
fn step(before: &Glyph, glyph: &Glyph) -> (f64, f64) {
    let along = direction(before);
    let way = glyph.origin - (before.origin + before.advance);
    let size = size(before).max(size(glyph)) / 1.2;
    (way.dot(along) / size, way.cross(along).abs() / size)
}

fn parallel(before: &Glyph, glyph: &Glyph) -> bool {
    direction(before).dot(direction(glyph)) > 0.98
}

fn continues(before: &Glyph, glyph: &Glyph, most: f64) -> bool {
    if !parallel(before, glyph) || before.visible != glyph.visible {
        return false;
    }
    let (gap, shift) = step(before, glyph);
    if shift > SHIFT || gap > most {
        return false;
    }
    // A mark may be drawn far back over its letter; anything else that lies before is another word.
    if gap < -OVERLAP && glyph.advance.hypot() > 0.05 * size(glyph) {
        return false;
    }
    match (before.text.chars().last(), glyph.text.chars().next()) {
        (Some(last), Some(first)) => {
            let begins_syllable =
                ends_syllable(last) && !ends_syllable(first) && script_of(first) == Script::Tibetan;
            !(stands_alone(last) || stands_alone(first) || begins_syllable)
        }
        _ => true,
    }
}

fn same_line(before: &Glyph, glyph: &Glyph) -> bool {
    let (gap, shift) = step(before, glyph);
    parallel(before, glyph) && shift < LINE_SHIFT && (-2.0..4.0).contains(&gap)
}

fn close(glyphs: &[Glyph], start: Option<usize>, end: usize, line: u32, words: &mut Vec<FoundWord>) {
    let Some(start) = start else { return };
    let range = start..end;
    let parts = glyphs.get(range.clone()).unwrap_or_default();
    let text: String = parts
        .iter()
        .flat_map(|glyph| glyph.text.chars())
        .filter(|c| !c.is_whitespace())
        .collect();
    let bbox = parts.iter().map(bounds).fold(Rect::EMPTY, Rect::union);
    words.push(FoundWord {
        word: Word {
            text,
            bbox,
            line,
            visible: parts.iter().any(|glyph| glyph.visible),
        },
        glyphs: range,
    });
}

/// Box of a glyph: its advance, as high as its font's letters.
pub(crate) fn bounds(glyph: &Glyph) -> Rect {
    let end = glyph.origin + glyph.advance;
    let corners: [Point; 4] = [
        glyph.origin + glyph.ascent,
        glyph.origin + glyph.descent,
        end + glyph.ascent,
        end + glyph.descent,
    ];
    corners.iter().fold(Rect::EMPTY, |bounds, corner| {
        let (x, y) = (corner.x as f32, corner.y as f32);
        bounds.union(Rect {
            x0: x,
            y0: y,
            x1: x,
            y1: y,
        })
    })
}

/// Drops words that are drawn again at nearly the same place, as bold letters without a bold font are.
fn drop_repeated(words: &mut Vec<FoundWord>) {
    let mut last: std::collections::HashMap<String, Vec<Rect>> = std::collections::HashMap::new();
    words.retain(|found| {
        let places = last.entry(found.word.text.clone()).or_default();
        let own = found.word.bbox;
        let repeated = places.iter().rev().take(64).any(|place| {
            place.intersection(own).area() > 0.8 * own.area().max(place.area()) && own.area() > 0.0
        });
        places.push(own);
        !repeated
    });
}

fn count_scripts(glyphs: &[Glyph]) -> Scripts {
    let mut counts = Scripts::default();
    for c in glyphs.iter().flat_map(|glyph| glyph.text.chars()) {
        match script_of(c) {
            Script::Latin => counts.latin += 1,
            Script::Han => counts.han += 1,
            Script::Tibetan => counts.tibetan += 1,
            Script::Greek | Script::Cyrillic | Script::Kana | Script::Other => counts.other += 1,
            Script::Common => {}
        }
    }
    counts
}

fn rotation(glyphs: &[Glyph]) -> u16 {
    let mut turns = [0_usize; 4];
    for glyph in glyphs {
        let along = direction(glyph);
        // Clockwise, as y goes down.
        let quarter = (along.y.atan2(along.x) / std::f64::consts::FRAC_PI_2).round() as i64;
        if let Some(count) = turns.get_mut(quarter.rem_euclid(4) as usize) {
            *count += 1;
        }
    }
    let most = (0_u16..4)
        .zip(turns)
        .max_by_key(|(turn, count)| (*count, 4 - turn));
    most.map_or(0, |(turn, _)| turn * 90)
}
