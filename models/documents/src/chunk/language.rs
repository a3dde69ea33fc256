//! Language of a text, by the scripts of its letters and for English by its commonest words.

/// Words that every tenth word of an English text is, at least, and that other languages in Latin script do not have.
const ENGLISH: &[&str] = &[
    "the", "of", "and", "to", "is", "for", "that", "with", "on", "by", "are", "be", "this", "from", "or",
    "which", "not", "it",
];
/// Words of a Latin text to one English one from which it is taken for English.
const ENGLISH_OF: usize = 12;
/// Letters that an ideograph counts as.
const IDEOGRAPH: usize = 2;
/// Share of kana in a Japanese text, as letters to one of them.
const KANA_OF: usize = 8;

/// The language that most of a text is in, a tag of BCP 47: `bo`, `zh`, `ja`, `ko` or `en`. `None` where the letters do not tell.
pub fn language(text: &str) -> Option<&'static str> {
    let (mut tibetan, mut han, mut kana, mut hangul, mut latin, mut other) = (0, 0, 0, 0, 0, 0);
    for letter in text.chars().filter(|letter| letter.is_alphabetic()) {
        let script = match letter {
            '\u{0F00}'..='\u{0FFF}' => &mut tibetan,
            '\u{3040}'..='\u{30FF}' => &mut kana,
            '\u{3400}'..='\u{9FFF}' | '\u{F900}'..='\u{FAFF}' | '\u{20000}'..='\u{3FFFF}' => &mut han,
            '\u{1100}'..='\u{11FF}' | '\u{AC00}'..='\u{D7AF}' => &mut hangul,
            'A'..='Z' | 'a'..='z' | '\u{00C0}'..='\u{024F}' | '\u{1E00}'..='\u{1EFF}' => &mut latin,
            _ => &mut other,
        };
        *script += 1;
    }
    let japanese = kana * KANA_OF >= han + kana && kana > 0;
    let ideographs = IDEOGRAPH * (han + kana);
    let most = tibetan.max(ideographs).max(hangul).max(latin).max(other);
    match most {
        0 => None,
        most if most == tibetan => Some("bo"),
        most if most == ideographs => Some(if japanese { "ja" } else { "zh" }),
        most if most == hangul => Some("ko"),
        most if most == latin => is_english(text).then_some("en"),
        _ => None,
    }
}

fn is_english(text: &str) -> bool {
    let words = text.split(|letter: char| !letter.is_alphabetic());
    let (mut all, mut english) = (0, 0);
    for word in words.filter(|word| !word.is_empty()) {
        all += 1;
        english += usize::from(ENGLISH.iter().any(|known| known.eq_ignore_ascii_case(word)));
    }
    english > 0 && english * ENGLISH_OF >= all
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn languages_are_told_apart() {
        for (text, expected) in [
            ("བཀྲ་ཤིས་བདེ་ལེགས། OK", Some("bo")),
            ("香港聯合交易所有限公司 (HKEX)", Some("zh")),
            ("これは日本語の文章です", Some("ja")),
            ("한국어 문장", Some("ko")),
            (
                "The board of directors is pleased to announce the results",
                Some("en"),
            ),
            ("Die Sitzung des Ausschusses wurde eröffnet", None),
            ("Это русский текст", None),
            ("12,345 (6.7%)", None),
            ("", None),
        ] {
            assert_eq!(language(text), expected, "{text}");
        }
    }
}
