//! Marks at the beginning of lines, by which readers know items, sections and captions.

/// Signs that begin an item of a list.
const BULLETS: &[char] = &[
    '•', '◦', '‣', '▪', '■', '●', '○', '–', '—', '*', '·', '□', '☐', '☑', '☒', '➢', '►',
];
/// Ideographs of numbers.
const HAN_NUMBERS: &str = "一二三四五六七八九十百零〇甲乙丙丁戊己庚辛壬癸";
/// Words before the number of a figure or table.
const CAPTIONED: &[&str] = &["figure", "fig.", "table", "chart", "exhibit", "plate"];
const CAPTIONED_HAN: &[char] = &['圖', '图', '表'];
/// Words with which notes begin.
const NOTES: &[&str] = &[
    "note:", "notes:", "source:", "sources:", "附註", "附注", "註：", "注：", "备注", "備註",
];

/// Beginning of a line.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Marker {
    Bullet,
    /// A number or letter in brackets, or before a bracket: `(1)`, `b)`.
    Bracketed,
    /// A number or letter before a dot: `1.`, `iv.`; or sections in sections: `2.3`.
    Dotted,
    /// A number before words: `2 Method`.
    Number,
    /// A number in ideographs before a comma, `三、`, or with a chapter, `第三章`.
    Han,
}

/// The mark that a line begins with. A bullet is one only before a letter or digit.
pub(crate) fn marker(text: &str) -> Option<Marker> {
    let text = text.trim_start();
    let first = text.chars().next()?;
    let after = |mark: &str| text[mark.len()..].trim_start().chars().next();
    if BULLETS.contains(&first) {
        let mark = &text[..first.len_utf8()];
        return after(mark)
            .is_some_and(char::is_alphanumeric)
            .then_some(Marker::Bullet);
    }
    let is_open = matches!(first, '(' | '（' | '[');
    let inner = if is_open { &text[first.len_utf8()..] } else { text };
    let length = inner.find(|letter: char| !is_numbering(letter) && letter != '.')?;
    let (number, rest) = inner.split_at(length);
    let number_of_letters = number.trim_end_matches('.').chars().count();
    if number_of_letters == 0 || number_of_letters > 7 {
        return chapter(text);
    }
    let is_short = number_of_letters <= 4 && is_one_kind(number.trim_end_matches('.'));
    let next = rest.chars().next()?;
    match next {
        ')' | '）' | ']' if is_short => Some(Marker::Bracketed),
        _ if is_open => None,
        '、' if is_short && number.chars().all(|letter| HAN_NUMBERS.contains(letter)) => Some(Marker::Han),
        ' ' if number.ends_with('.') && is_short => Some(Marker::Dotted),
        ' ' if number.contains('.') && starts_with_digit(number) => Some(Marker::Dotted),
        ' ' if number.len() <= 2 && number.chars().all(|letter| letter.is_ascii_digit()) => {
            Some(Marker::Number)
        }
        _ => chapter(text),
    }
}

/// The text of an item without its bullet, which lists of other forms have by themselves. Numbers stay.
pub(crate) fn without_bullet(text: &str) -> &str {
    match marker(text) {
        Some(Marker::Bullet) => text.trim_start().trim_start_matches(BULLETS).trim_start(),
        _ => text,
    }
}

fn chapter(text: &str) -> Option<Marker> {
    let rest = text.strip_prefix('第')?;
    let end = rest.find(['章', '節', '节', '條', '条', '部'])?;
    let number = &rest[..end];
    let is_number = |letter: char| HAN_NUMBERS.contains(letter) || letter.is_ascii_digit();
    (!number.is_empty() && number.chars().all(is_number)).then_some(Marker::Han)
}

fn starts_with_digit(text: &str) -> bool {
    text.starts_with(|letter: char| letter.is_ascii_digit())
}

fn is_numbering(letter: char) -> bool {
    letter.is_ascii_alphanumeric() || HAN_NUMBERS.contains(letter)
}

/// True for a number, a single letter or a Roman number.
fn is_one_kind(number: &str) -> bool {
    let all = |of: fn(char) -> bool| number.chars().all(of);
    all(|letter| letter.is_ascii_digit())
        || all(|letter| HAN_NUMBERS.contains(letter))
        || (number.len() == 1 && all(|letter| letter.is_ascii_alphabetic()))
        || all(|letter| matches!(letter, 'i' | 'v' | 'x'))
        || all(|letter| matches!(letter, 'I' | 'V' | 'X'))
}

/// True for text that begins as captions do: with the number of a figure or table.
pub(crate) fn is_caption(text: &str) -> bool {
    let text = text.trim_start();
    let lower = text.to_lowercase();
    let numbered = |rest: &str| {
        let rest = rest.trim_start();
        rest.starts_with(|letter: char| letter.is_ascii_digit() || HAN_NUMBERS.contains(letter))
    };
    CAPTIONED
        .iter()
        .any(|word| lower.strip_prefix(word).is_some_and(numbered))
        || text.strip_prefix(CAPTIONED_HAN).is_some_and(numbered)
}

/// True for text that begins as notes do.
pub(crate) fn is_note(text: &str) -> bool {
    let lower = text.trim_start().to_lowercase();
    NOTES.iter().any(|word| lower.starts_with(word))
}

/// True for the number of a page, with what is written around it.
pub(crate) fn is_page_number(text: &str) -> bool {
    let bare: String = text.chars().filter(|letter| letter.is_alphanumeric()).collect();
    let bare = bare.to_lowercase();
    let bare = bare.strip_prefix("page").unwrap_or(&bare);
    let is_roman = !bare.is_empty() && bare.chars().all(|letter| matches!(letter, 'i' | 'v' | 'x' | 'l'));
    let is_number = !bare.is_empty() && bare.chars().all(char::is_numeric);
    bare.chars().count() <= 9 && (is_number || is_roman)
}

/// True for a line with a sign of equality or the like that is not written in words.
pub(crate) fn is_formula(text: &str) -> bool {
    let has_sign = text.contains(['=', '≤', '≥', '≈', '∑', '∫']);
    let longest = text
        .split(|letter: char| !letter.is_alphabetic())
        .map(|word| word.chars().count())
        .max();
    has_sign && longest.unwrap_or(0) <= 4 && text.chars().count() <= 80
}

/// True for an entry of a table of contents, whose page number stands behind dots.
pub(crate) fn has_leader(text: &str) -> bool {
    text.contains("....") || text.contains(". . . .") || text.contains("……")
}

/// True if a text ends as sentences do.
pub(crate) fn ends_sentence(text: &str) -> bool {
    let last = text.trim_end().chars().next_back();
    last.is_some_and(|last| {
        matches!(
            last,
            '.' | '!' | '?' | ':' | ';' | '。' | '！' | '？' | '：' | '；' | '།' | '༎' | '"' | '”' | '」'
        )
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn marks_are_known_and_words_are_not() {
        for (text, expected) in [
            ("• item", Some(Marker::Bullet)),
            ("– item", Some(Marker::Bullet)),
            ("– 1 –", Some(Marker::Bullet)),
            ("(1) a note", Some(Marker::Bracketed)),
            ("(iv) a note", Some(Marker::Bracketed)),
            ("b) a note", Some(Marker::Bracketed)),
            ("（二）本公司", Some(Marker::Bracketed)),
            ("1. Reasons", Some(Marker::Dotted)),
            ("2.3 Method", Some(Marker::Dotted)),
            ("2 Method", Some(Marker::Number)),
            ("三、上市規則", Some(Marker::Han)),
            ("第三章 總則", Some(Marker::Han)),
            ("2019 was a year", None),
            ("(including tax)", None),
            ("Item one", None),
            ("a dog", None),
            ("97,281", None),
            ("1.5% of all", None),
            ("", None),
        ] {
            assert_eq!(marker(text), expected, "{text}");
        }
    }

    #[test]
    fn captions_and_page_numbers_are_known() {
        assert!(is_caption("Figure 2. Rates"));
        assert!(is_caption("表1：收入"));
        assert!(!is_caption("Figures rose"));
        assert!(!is_caption("表示"));
        for number in ["1", "– 12 –", "Page 3", "xiv", "༡", "3/10"] {
            assert!(is_page_number(number), "{number}");
        }
        assert!(!is_page_number("Page one of"));
        assert!(!is_page_number("–"));
    }
}
