//! Character codes of the invisible font: one for each cluster of letters, which a viewer then copies as a whole.

use std::collections::HashMap;

use unicode_segmentation::UnicodeSegmentation;

/// Codes of one font: 1 to 65,535, as 0 is the glyph for what a font does not have.
const CODES: usize = 65_535;
/// Longest text of one code in characters, which in UTF-16 fits the 512 bytes that a ToUnicode map may give it.
const LONGEST: usize = 100;

/// Code in the `font`th font of the file.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Code {
    pub(crate) font: usize,
    pub(crate) code: u16,
}

/// Codes given so far; a cluster has the same code throughout a file.
#[derive(Debug, Default)]
pub(crate) struct Codes {
    by_cluster: HashMap<Box<str>, Code>,
    clusters: Vec<Box<str>>,
}

impl Codes {
    /// Encodes a text, giving codes to clusters that have none.
    pub(crate) fn encode(&mut self, text: &str) -> Vec<Code> {
        let mut codes = Vec::new();
        for cluster in text.graphemes(true) {
            let mut rest = cluster;
            while !rest.is_empty() {
                let end = rest
                    .char_indices()
                    .nth(LONGEST)
                    .map_or(rest.len(), |(end, _)| end);
                let (part, tail) = rest.split_at(end);
                codes.push(self.code(part));
                rest = tail;
            }
        }
        codes
    }

    fn code(&mut self, cluster: &str) -> Code {
        if let Some(code) = self.by_cluster.get(cluster) {
            return *code;
        }
        let index = self.clusters.len();
        let code = Code {
            font: index / CODES,
            code: code_of(index),
        };
        self.by_cluster.insert(cluster.into(), code);
        self.clusters.push(cluster.into());
        code
    }

    /// Codes with their texts, one list for each font.
    pub(crate) fn fonts(&self) -> impl Iterator<Item = impl Iterator<Item = (u16, &str)>> {
        let fonts = self.clusters.chunks(CODES);
        fonts.map(|font| {
            font.iter()
                .enumerate()
                .map(|(index, cluster)| (code_of(index), &**cluster))
        })
    }
}

fn code_of(index: usize) -> u16 {
    u16::try_from(index % CODES + 1).unwrap_or(u16::MAX)
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;

    fn texts(codes: &Codes) -> BTreeMap<Code, String> {
        let fonts = codes.fonts().enumerate();
        fonts
            .flat_map(|(font, codes)| codes.map(move |(code, text)| (Code { font, code }, text.to_owned())))
            .collect()
    }

    #[test]
    fn a_stack_has_one_code_and_a_repeated_one_no_other() {
        let mut codes = Codes::default();
        let first = codes.encode("བསྒྲུབས་");
        assert_eq!(first.len(), 5, "b, the stack with its vowel, b, s and the tsheg");
        assert_eq!(codes.encode("བསྒྲུབས་"), first);
        let texts = texts(&codes);
        assert_eq!(texts[&first[1]], "སྒྲུ");
        assert!(texts.keys().all(|code| code.code > 0 && code.font == 0));
    }

    #[test]
    fn there_are_codes_for_more_characters_than_a_font_has() {
        let mut codes = Codes::default();
        let all: Vec<char> = ('\u{20}'..='\u{18000}')
            .filter(|letter| !letter.is_control())
            .collect();
        let encoded: Vec<Code> = all
            .iter()
            .flat_map(|letter| codes.encode(letter.encode_utf8(&mut [0; 4])))
            .collect();
        assert_eq!(encoded.len(), all.len());
        let texts = texts(&codes);
        let decoded: String = encoded.iter().map(|code| texts[code].as_str()).collect();
        assert!(decoded.chars().eq(all));
        assert!(codes.fonts().count() > 1);
    }

    #[test]
    fn a_cluster_without_end_is_cut() {
        let text = format!("e{}", "\u{301}".repeat(1000));
        let mut codes = Codes::default();
        let encoded = codes.encode(&text);
        assert!(encoded.len() <= 11);
        let texts = texts(&codes);
        assert_eq!(
            encoded
                .iter()
                .map(|code| texts[code].as_str())
                .collect::<String>(),
            text
        );
    }
}
