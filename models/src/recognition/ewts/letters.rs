//! The signs of EWTS and their Unicode counterparts.

/// A consonant as the top of a stack and, where it can stand there, below another.
#[derive(Debug)]
pub(super) struct Consonant {
    pub(super) wylie: &'static str,
    pub(super) top: &'static str,
    pub(super) subjoined: Option<&'static str>,
}

const fn consonant(wylie: &'static str, top: &'static str, subjoined: &'static str) -> Consonant {
    Consonant {
        wylie,
        top,
        subjoined: Some(subjoined),
    }
}

const fn top_only(wylie: &'static str, top: &'static str) -> Consonant {
    Consonant {
        wylie,
        top,
        subjoined: None,
    }
}

/// Spellings of consonants.
pub(super) const CONSONANTS: &[Consonant] = &[
    consonant("k", "\u{f40}", "\u{f90}"),
    consonant("kh", "\u{f41}", "\u{f91}"),
    consonant("g", "\u{f42}", "\u{f92}"),
    consonant("gh", "\u{f42}\u{fb7}", "\u{f92}\u{fb7}"),
    consonant("g+h", "\u{f42}\u{fb7}", "\u{f92}\u{fb7}"),
    consonant("ng", "\u{f44}", "\u{f94}"),
    consonant("c", "\u{f45}", "\u{f95}"),
    consonant("ch", "\u{f46}", "\u{f96}"),
    consonant("j", "\u{f47}", "\u{f97}"),
    consonant("ny", "\u{f49}", "\u{f99}"),
    consonant("T", "\u{f4a}", "\u{f9a}"),
    consonant("-t", "\u{f4a}", "\u{f9a}"),
    consonant("Th", "\u{f4b}", "\u{f9b}"),
    consonant("-th", "\u{f4b}", "\u{f9b}"),
    consonant("D", "\u{f4c}", "\u{f9c}"),
    consonant("-d", "\u{f4c}", "\u{f9c}"),
    consonant("Dh", "\u{f4c}\u{fb7}", "\u{f9c}\u{fb7}"),
    consonant("D+h", "\u{f4c}\u{fb7}", "\u{f9c}\u{fb7}"),
    consonant("-dh", "\u{f4c}\u{fb7}", "\u{f9c}\u{fb7}"),
    consonant("-d+h", "\u{f4c}\u{fb7}", "\u{f9c}\u{fb7}"),
    consonant("N", "\u{f4e}", "\u{f9e}"),
    consonant("-n", "\u{f4e}", "\u{f9e}"),
    consonant("t", "\u{f4f}", "\u{f9f}"),
    consonant("th", "\u{f50}", "\u{fa0}"),
    consonant("d", "\u{f51}", "\u{fa1}"),
    consonant("dh", "\u{f51}\u{fb7}", "\u{fa1}\u{fb7}"),
    consonant("d+h", "\u{f51}\u{fb7}", "\u{fa1}\u{fb7}"),
    consonant("n", "\u{f53}", "\u{fa3}"),
    consonant("p", "\u{f54}", "\u{fa4}"),
    consonant("ph", "\u{f55}", "\u{fa5}"),
    consonant("b", "\u{f56}", "\u{fa6}"),
    consonant("bh", "\u{f56}\u{fb7}", "\u{fa6}\u{fb7}"),
    consonant("b+h", "\u{f56}\u{fb7}", "\u{fa6}\u{fb7}"),
    consonant("m", "\u{f58}", "\u{fa8}"),
    consonant("ts", "\u{f59}", "\u{fa9}"),
    consonant("tsh", "\u{f5a}", "\u{faa}"),
    consonant("dz", "\u{f5b}", "\u{fab}"),
    consonant("dzh", "\u{f5b}\u{fb7}", "\u{fab}\u{fb7}"),
    consonant("dz+h", "\u{f5b}\u{fb7}", "\u{fab}\u{fb7}"),
    consonant("w", "\u{f5d}", "\u{fad}"),
    consonant("zh", "\u{f5e}", "\u{fae}"),
    consonant("z", "\u{f5f}", "\u{faf}"),
    consonant("'", "\u{f60}", "\u{fb0}"),
    consonant("y", "\u{f61}", "\u{fb1}"),
    consonant("r", "\u{f62}", "\u{fb2}"),
    consonant("l", "\u{f63}", "\u{fb3}"),
    consonant("sh", "\u{f64}", "\u{fb4}"),
    consonant("Sh", "\u{f65}", "\u{fb5}"),
    consonant("-sh", "\u{f65}", "\u{fb5}"),
    consonant("s", "\u{f66}", "\u{fb6}"),
    consonant("h", "\u{f67}", "\u{fb7}"),
    consonant("W", "\u{f5d}", "\u{fba}"),
    consonant("Y", "\u{f61}", "\u{fbb}"),
    consonant("R", "\u{f6a}", "\u{fbc}"),
    top_only("f", "\u{f55}\u{f39}"),
    top_only("v", "\u{f56}\u{f39}"),
];

/// The letter that carries vowels, and the vowel that is not written.
pub(super) const A_CHEN: &str = "\u{f68}";

/// Vowel signs; `a` has none.
pub(super) const VOWELS: &[(&str, &str)] = &[
    ("a", ""),
    ("A", "\u{f71}"),
    ("i", "\u{f72}"),
    ("I", "\u{f71}\u{f72}"),
    ("u", "\u{f74}"),
    ("U", "\u{f71}\u{f74}"),
    ("e", "\u{f7a}"),
    ("ai", "\u{f7b}"),
    ("o", "\u{f7c}"),
    ("au", "\u{f7d}"),
    ("-i", "\u{f80}"),
    ("-I", "\u{f71}\u{f80}"),
];

/// Signs that exclude each other on one stack.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum FinalClass {
    Anusvara,
    Honorific,
    Visarga,
    Halanta,
    TsaPhru,
    Paluta,
}

/// A sign at the end of a stack.
#[derive(Debug)]
pub(super) struct Final {
    pub(super) wylie: &'static str,
    pub(super) sign: char,
    pub(super) class: FinalClass,
}

pub(super) const CARET: &str = "^";
pub(super) const TSA_PHRU: char = '\u{f39}';

/// Signs at the end of a stack, in both directions.
pub(super) const FINALS: &[Final] = &[
    Final {
        wylie: "M",
        sign: '\u{f7e}',
        class: FinalClass::Anusvara,
    },
    Final {
        wylie: "~M`",
        sign: '\u{f82}',
        class: FinalClass::Anusvara,
    },
    Final {
        wylie: "~M",
        sign: '\u{f83}',
        class: FinalClass::Anusvara,
    },
    Final {
        wylie: "X",
        sign: '\u{f37}',
        class: FinalClass::Honorific,
    },
    Final {
        wylie: "~X",
        sign: '\u{f35}',
        class: FinalClass::Honorific,
    },
    Final {
        wylie: "H",
        sign: '\u{f7f}',
        class: FinalClass::Visarga,
    },
    Final {
        wylie: "?",
        sign: '\u{f84}',
        class: FinalClass::Halanta,
    },
    Final {
        wylie: CARET,
        sign: TSA_PHRU,
        class: FinalClass::TsaPhru,
    },
    Final {
        wylie: "&",
        sign: '\u{f85}',
        class: FinalClass::Paluta,
    },
];

/// Digits, punctuation and head marks, in both directions.
pub(super) const STANDALONE: &[(&str, char)] = &[
    (" ", '\u{f0b}'),
    ("/", '\u{f0d}'),
    ("_", ' '),
    ("0", '\u{f20}'),
    ("1", '\u{f21}'),
    ("2", '\u{f22}'),
    ("3", '\u{f23}'),
    ("4", '\u{f24}'),
    ("5", '\u{f25}'),
    ("6", '\u{f26}'),
    ("7", '\u{f27}'),
    ("8", '\u{f28}'),
    ("9", '\u{f29}'),
    ("*", '\u{f0c}'),
    ("//", '\u{f0e}'),
    (";", '\u{f0f}'),
    ("|", '\u{f11}'),
    ("!", '\u{f08}'),
    (":", '\u{f14}'),
    ("=", '\u{f34}'),
    ("<", '\u{f3a}'),
    (">", '\u{f3b}'),
    ("(", '\u{f3c}'),
    (")", '\u{f3d}'),
    ("@", '\u{f04}'),
    ("#", '\u{f05}'),
    ("$", '\u{f06}'),
    ("%", '\u{f07}'),
];

/// Wylie of U+0F40 to U+0F6A as the top of a stack; empty where no letter is assigned.
const TOPS: [&str; 43] = [
    "k", "kh", "g", "g+h", "ng", "c", "ch", "j", "", "ny", "T", "Th", "D", "D+h", "N", "t", "th", "d", "d+h",
    "n", "p", "ph", "b", "b+h", "m", "ts", "tsh", "dz", "dz+h", "w", "zh", "z", "'", "y", "r", "l", "sh",
    "Sh", "s", "h", "a", "k+Sh", "R",
];

/// Wylie of U+0F90 to U+0FBC below another letter; empty where no letter is assigned.
const SUBJOINED: [&str; 45] = [
    "k", "kh", "g", "g+h", "ng", "c", "ch", "j", "", "ny", "T", "Th", "D", "D+h", "N", "t", "th", "d", "d+h",
    "n", "p", "ph", "b", "b+h", "m", "ts", "tsh", "dz", "dz+h", "w", "zh", "z", "'", "y", "r", "l", "sh",
    "Sh", "s", "h", "a", "k+Sh", "W", "Y", "R",
];

pub(super) fn top_wylie(letter: char) -> Option<&'static str> {
    at_offset(&TOPS, letter, '\u{f40}')
}

pub(super) fn subjoined_wylie(letter: char) -> Option<&'static str> {
    at_offset(&SUBJOINED, letter, '\u{f90}')
}

/// Vowel signs that are one character. The long ones are spelled out before the text is read.
pub(super) fn vowel_wylie(sign: char) -> Option<&'static str> {
    let mut utf8 = [0; 4];
    let sign: &str = sign.encode_utf8(&mut utf8);
    VOWELS
        .iter()
        .find(|(_, unicode)| *unicode == sign)
        .map(|(wylie, _)| *wylie)
}

pub(super) fn final_sign(sign: char) -> Option<&'static Final> {
    FINALS.iter().find(|known| known.sign == sign)
}

pub(super) fn standalone_wylie(sign: char) -> Option<&'static str> {
    STANDALONE
        .iter()
        .find(|(_, known)| *known == sign)
        .map(|(wylie, _)| *wylie)
}

fn at_offset(table: &[&'static str], letter: char, first: char) -> Option<&'static str> {
    let offset = u32::from(letter).checked_sub(u32::from(first))?;
    table
        .get(offset as usize)
        .copied()
        .filter(|wylie| !wylie.is_empty())
}
