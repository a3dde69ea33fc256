//! How well texts were read, without a truth: by the confidence of whoever read them, and by their perplexity under the n-grams that come
//! with the program, so that readings of all engines and models can be compared.

use std::collections::BTreeMap;

use parkhang_core::domain::TextEncoding;
use parkhang_models::recognition::ewts::to_unicode_exact;
use parkhang_models::recognition::perplexity::TextScore;
use parkhang_models::weights::shipped::text_scorer;
use serde::Serialize;

/// Number of pages that are named as a volume's worst.
const WORST: usize = 5;
/// Stacks below which a page is not named: page numbers and titles are surprising by nature.
const MIN_STACKS: u32 = 40;

/// Score of a line; that of an empty one if the program lacks its n-grams.
pub fn text_score(text: &str, encoding: TextEncoding) -> TextScore {
    let Ok(scorer) = text_scorer() else {
        return TextScore::default();
    };
    match encoding {
        TextEncoding::Unicode => scorer.score(text),
        TextEncoding::Wylie => scorer.score(&to_unicode_exact(text)),
    }
}

/// Text of a line, and how sure its reader was.
#[derive(Debug, Clone, Copy)]
pub(super) struct ReadText<'t> {
    pub page_index: i32,
    pub text: &'t str,
    pub encoding: TextEncoding,
    pub confidence: Option<f32>,
}

/// Page as one of a volume's worst.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub(super) struct PageQuality {
    /// Number of the page, from 1.
    page: i32,
    perplexity: f32,
    /// Mean over its lines; absent where the reader has none.
    confidence: Option<f32>,
}

/// Quality of a volume's text.
#[derive(Debug, Clone, PartialEq, Default)]
pub(super) struct TextQuality {
    /// Perplexity of the whole text; `None` if little of it is Tibetan.
    pub perplexity: Option<f32>,
    /// The pages that were read worst, the worst first: by confidence, or by perplexity where the reader has none.
    pub worst_pages: Vec<PageQuality>,
}

/// Sums of a page.
#[derive(Debug, Clone, Copy, Default)]
struct PageSums {
    score: TextScore,
    confidence: f64,
    sure_lines: u32,
}

/// Quality of the text that lines make up.
pub(super) fn text_quality<'t>(lines: impl Iterator<Item = ReadText<'t>>) -> TextQuality {
    let mut pages: BTreeMap<i32, PageSums> = BTreeMap::new();
    for line in lines {
        let page = pages.entry(line.page_index).or_default();
        page.score = page.score + text_score(line.text, line.encoding);
        if let Some(confidence) = line.confidence {
            page.confidence += f64::from(confidence);
            page.sure_lines += 1;
        }
    }
    let whole: TextScore = pages.values().map(|page| page.score).sum();
    let mut worst: Vec<PageQuality> = pages
        .iter()
        .filter(|(_, page)| page.score.stacks() >= MIN_STACKS)
        .filter_map(|(&index, page)| {
            Some(PageQuality {
                page: index.saturating_add(1),
                perplexity: page.score.perplexity()?,
                confidence: (page.sure_lines > 0)
                    .then(|| (page.confidence / f64::from(page.sure_lines)) as f32),
            })
        })
        .collect();
    // A page without confidence beside pages that have one has no line that was read.
    let is_sure = worst.iter().any(|page| page.confidence.is_some());
    worst.sort_by(|one, other| match is_sure {
        true => one
            .confidence
            .unwrap_or(1.0)
            .total_cmp(&other.confidence.unwrap_or(1.0)),
        false => other.perplexity.total_cmp(&one.perplexity),
    });
    worst.truncate(WORST);
    TextQuality {
        perplexity: whole.perplexity(),
        worst_pages: worst,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const RIGHT: &str = "བཅོམ་ལྡན་འདས་མཉན་ཡོད་ན་རྒྱལ་བུ་རྒྱལ་བྱེད་ཀྱི་ཚལ་མགོན་མེད་ཟས་སྦྱིན་གྱི་ཀུན་དགའ་ར་བ་ན་བཞུགས་སོ།";
    const MISREAD: &str = "བཙོམ་ལྡན་འདས་མཉན་ཡོང་ན་རྒྱལ་བུ་རྒྱལ་བྱེང་ཀྱི་ཆལ་མགོན་མེང་ཟས་སྦྱིན་གྱི་ཀུན་དཀའ་ར་བ་ན་བཤུགས་སེ།";

    fn line(page_index: i32, text: &str) -> ReadText<'_> {
        ReadText {
            page_index,
            text,
            encoding: TextEncoding::Unicode,
            confidence: None,
        }
    }

    fn numbers(quality: &TextQuality) -> Vec<i32> {
        quality.worst_pages.iter().map(|page| page.page).collect()
    }

    /// Rows: 87.
    #[test]
    fn the_worst_pages_are_named_first() {
        let lines = [
            line(0, RIGHT),
            line(1, MISREAD),
            line(1, RIGHT),
            line(2, "༡༢"),
            line(3, MISREAD),
        ];
        let quality = text_quality(lines.into_iter());
        assert_eq!(numbers(&quality), [4, 2, 1]);
        let whole = quality.perplexity.unwrap();
        assert!(quality.worst_pages[2].perplexity < whole && whole < quality.worst_pages[0].perplexity);

        let sure = lines.map(|line| ReadText {
            confidence: Some(0.9 - 0.1 * line.page_index as f32),
            ..line
        });
        let quality = text_quality(sure.into_iter());
        assert_eq!(numbers(&quality), [4, 2, 1]);
        let unsure = sure.map(|line| ReadText {
            confidence: line.confidence.map(|confidence| 1.0 - confidence),
            ..line
        });
        assert_eq!(numbers(&text_quality(unsure.into_iter())), [1, 2, 4]);
    }

    /// Rows: 87.
    #[test]
    fn a_text_in_wylie_is_as_surprising_as_in_tibetan_letters() {
        let unicode = text_score("བཅོམ་ལྡན་འདས་", TextEncoding::Unicode);
        let wylie = text_score("bcom ldan 'das ", TextEncoding::Wylie);
        assert_eq!(unicode.perplexity(), wylie.perplexity());
    }

    #[test]
    fn english_has_no_perplexity() {
        assert_eq!(
            text_quality([line(0, "Fair value")].into_iter()),
            TextQuality::default()
        );
    }
}
