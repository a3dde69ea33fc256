//! Separation of the lines of a page that are writing from those that are not.

use super::read::LineText;

/// Flags of the lines of a page that were read: such a line has text, and its confidence is at least `least_share` of what is
/// usual on the page. Smudges, ornaments and foreign script are read with far less confidence than the writing beside them,
/// while on a hard page all lines are unsure. With a share of 0 every line counts as read.
pub fn legible(lines: &[LineText], least_share: f32) -> Vec<bool> {
    if least_share <= 0.0 {
        return vec![true; lines.len()];
    }
    let least = least_share * usual_confidence(lines);
    lines
        .iter()
        .map(|line| !line.text.is_empty() && line.confidence >= least)
        .collect()
}

/// The median, where a line counts as much as it has characters that are likely right: a title page may have more of what is no
/// writing than of lines, and now and then it is read as a long text. 0 without text.
fn usual_confidence(lines: &[LineText]) -> f32 {
    let mut weights: Vec<(f32, f32)> = lines
        .iter()
        .map(|line| {
            let length = line.text.chars().count() as f32;
            (line.confidence, line.confidence * length)
        })
        .collect();
    weights.sort_by(|a, b| a.0.total_cmp(&b.0));
    let total: f32 = weights.iter().map(|(_, weight)| weight).sum();
    let mut seen = 0.0;
    let middle = weights.iter().find(|(_, weight)| {
        seen += weight;
        // Where no line has any weight the page has no text, and no confidence is usual on it.
        seen > 0.0 && 2.0 * seen >= total
    });
    middle.map_or(0.0, |(confidence, _)| *confidence)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn line(text: &str, confidence: f32) -> LineText {
        LineText {
            text: text.to_owned(),
            confidence,
            syllables: Vec::new(),
            inked: None,
        }
    }

    #[test]
    fn a_smudge_beside_writing_is_left_out() {
        let page = [line("་ས་ས", 0.1), line("ཀ", 0.9), line("ཁ", 0.85), line("ག", 0.5)];
        assert_eq!(legible(&page, 0.4), [false, true, true, true]);
    }

    #[test]
    fn a_title_is_not_outvoted_by_what_surrounds_it() {
        let page = [line("ས་ས་", 0.3), line("བཀྲ་ཤིས་བདེ་ལེགས", 0.9), line("ན་མ་", 0.1)];
        assert_eq!(legible(&page, 0.4), [false, true, false]);
    }

    #[test]
    fn a_hard_page_keeps_its_lines() {
        let page = [line("ཀ", 0.2), line("ཁ", 0.15), line("ག", 0.25)];
        assert_eq!(legible(&page, 0.4), [true; 3]);
        assert_eq!(legible(&page[..1], 0.4), [true]);
        assert_eq!(legible(&[], 0.4), [true; 0]);
    }

    #[test]
    fn a_line_without_text_was_not_read() {
        let page = [line("", 0.99), line("ཀ", 0.9)];
        assert_eq!(legible(&page, 0.4), [false, true]);
        assert_eq!(legible(&page, 0.0), [true, true]);
    }
}
