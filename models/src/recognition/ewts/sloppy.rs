//! Repair of what people type for Wylie: a space where `_` is meant, capitals, curly apostrophes.

/// Applied one after the other to the whole text.
const REPLACEMENTS: &[(&str, &str)] = &[
    ("ʼ", "'"),
    ("ʹ", "'"),
    ("‘", "'"),
    ("’", "'"),
    ("ʾ", "'"),
    ("x", r"\u0fbe"),
    ("X", r"\u0fbe"),
    ("...", r"\u0f0b\u0f0b\u0f0b"),
    (" (", "_("),
    (") ", ")_"),
    ("/ ", "/_"),
    (" 0", "_0"),
    (" 1", "_1"),
    (" 2", "_2"),
    (" 3", "_3"),
    (" 4", "_4"),
    (" 5", "_5"),
    (" 6", "_6"),
    (" 7", "_7"),
    (" 8", "_8"),
    (" 9", "_9"),
    ("_ ", "__"),
    ("G", "g"),
    ("K", "k"),
    ("C", "c"),
    ("B", "b"),
    ("P", "p"),
    ("L", "l"),
    ("Z", "z"),
    (" b ", " ba "),
    (" b'i ", " ba'i "),
    (" m ", " ma "),
    (" m'i ", " ma'i "),
    (" M", " m"),
    ("(M", "(m"),
];

pub(super) fn repair(wylie: &str) -> String {
    let mut text = wylie.to_owned();
    for (from, to) in REPLACEMENTS {
        // Most texts have few of the slips, and looking allocates nothing.
        if text.contains(from) {
            text = text.replace(from, to);
        }
    }
    let mut repaired = String::with_capacity(text.len());
    let mut letters = text.chars().enumerate().peekable();
    while let Some((index, letter)) = letters.next() {
        let next = letters.peek().map(|(_, next)| *next);
        repaired.push(match letter {
            'S' if next != Some('h') => 's',
            'M' if index == 0 => 'm',
            other => other,
        });
    }
    repaired
}
