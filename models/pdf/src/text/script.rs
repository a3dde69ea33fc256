/// Writing system of a character, as far as it is told apart here.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Script {
    Latin,
    Greek,
    Cyrillic,
    Han,
    Kana,
    Tibetan,
    /// Letters of any other script.
    Other,
    /// Digits, punctuation, symbols, spaces.
    Common,
}

/// Returns the writing system of a character, by the blocks of Unicode.
pub fn script_of(c: char) -> Script {
    match u32::from(c) {
        0x41..=0x5A | 0x61..=0x7A | 0xAA | 0xBA | 0xC0..=0xD6 | 0xD8..=0xF6 | 0xF8..=0x2B8 => Script::Latin,
        0x1E00..=0x1EFF | 0xFB00..=0xFB06 | 0xFF21..=0xFF3A | 0xFF41..=0xFF5A => Script::Latin,
        0x370..=0x373 | 0x376..=0x377 | 0x37B..=0x37D | 0x386..=0x3FF | 0x1F00..=0x1FFF => Script::Greek,
        0x400..=0x52F => Script::Cyrillic,
        0xF00..=0xFFF => Script::Tibetan,
        0x3005 | 0x3007 | 0x3400..=0x4DBF | 0x4E00..=0x9FFF | 0xF900..=0xFAFF | 0x20000..=0x323AF => {
            Script::Han
        }
        0x3041..=0x30FF | 0x31F0..=0x31FF | 0xFF66..=0xFF9D => Script::Kana,
        _ if c.is_alphabetic() => Script::Other,
        _ => Script::Common,
    }
}

/// Whether a character is a word by itself.
pub(super) fn stands_alone(c: char) -> bool {
    matches!(script_of(c), Script::Han | Script::Kana)
        || matches!(u32::from(c), 0x3001..=0x3004 | 0x3008..=0x303F | 0xFF01..=0xFF0F | 0xFF1A..=0xFF20 | 0xFF3B..=0xFF40 | 0xFF5B..=0xFF65)
}

/// Whether a syllable of Tibetan ends with this character: tsheg, shad and their variants.
pub(super) fn ends_syllable(c: char) -> bool {
    matches!(u32::from(c), 0xF0B..=0xF14)
}
