//! Rules of the script: letters that may stand before, above and below others.

/// Returns whether `above` is a head letter of `below`.
pub(super) fn is_superscript(above: &str, below: &str) -> bool {
    contains(SUPERSCRIPTS, above, below)
}

/// Returns whether a letter can hang below a stack without a `+`.
pub(super) fn is_subscript(letter: &str) -> bool {
    matches!(letter, "y" | "r" | "l" | "w")
}

/// Returns whether `prefix` may stand before the stack `root`.
pub(super) fn is_prefix(prefix: &str, root: &str) -> bool {
    contains(PREFIXES, prefix, root)
}

pub(super) fn is_suffix(letter: &str) -> bool {
    SUFFIXES.contains(&letter)
}

/// Returns whether `second` may follow the suffix `first`.
pub(super) fn is_second_suffix(first: &str, second: &str) -> bool {
    contains(SECOND_SUFFIXES, second, first)
}

/// Returns whether a stack, written with `+` between its letters, is read as one stack without them.
pub(super) fn is_plain_stack(stack: &str) -> bool {
    PLAIN_STACKS.contains(&stack)
}

/// Place of the root (0 or 1) in a syllable of three bare letters that could be prefix, root and second suffix. Only a
/// list decides between readings such as `dgas` and `dagas`.
pub(super) fn root_of_three(first: &str, second: &str, third: &str) -> usize {
    const FIRST_IS_ROOT: [[&str; 3]; 4] = [
        ["d", "ng", "s"],
        ["m", "ng", "s"],
        ["m", "g", "s"],
        ["b", "g", "s"],
    ];
    usize::from(!FIRST_IS_ROOT.contains(&[first, second, third]))
}

type Relation = &'static [(&'static str, &'static [&'static str])];

fn contains(relation: Relation, key: &str, value: &str) -> bool {
    relation
        .iter()
        .any(|(known, values)| *known == key && values.contains(&value))
}

/// Head letters of single letters: a head letter is recognised by the one letter that follows it. The `y` row is not a head
/// letter of the script; texts in circulation were converted with it.
const SUPERSCRIPTS: Relation = &[
    (
        "r",
        &["k", "g", "ng", "j", "ny", "t", "d", "n", "b", "m", "ts", "dz"],
    ),
    ("l", &["k", "g", "ng", "c", "j", "t", "d", "p", "b", "h"]),
    ("s", &["k", "g", "ng", "ny", "t", "d", "n", "p", "b", "m", "ts"]),
    ("y", &["k", "kh", "g", "p", "ph", "b", "m"]),
];

const PREFIXES: Relation = &[
    ("g", &["c", "ny", "t", "d", "n", "ts", "zh", "z", "y", "sh", "s"]),
    (
        "d",
        &[
            "k", "g", "ng", "p", "b", "m", "k+y", "g+y", "p+y", "b+y", "m+y", "k+r", "g+r", "p+r", "b+r",
        ],
    ),
    (
        "b",
        &[
            "k", "g", "c", "t", "d", "ts", "zh", "z", "sh", "s", "r", "l", "k+y", "g+y", "k+r", "g+r", "r+l",
            "s+l", "r+k", "r+g", "r+ng", "r+j", "r+ny", "r+t", "r+d", "r+n", "r+ts", "r+dz", "s+k", "s+g",
            "s+ng", "s+ny", "s+t", "s+d", "s+n", "s+ts", "r+k+y", "r+g+y", "s+k+y", "s+g+y", "s+k+r",
            "s+g+r", "l+d", "l+t", "k+l", "s+r", "z+l", "s+w",
        ],
    ),
    (
        "m",
        &[
            "kh", "g", "ng", "ch", "j", "ny", "th", "d", "n", "tsh", "dz", "kh+y", "g+y", "kh+r", "g+r",
        ],
    ),
    (
        "'",
        &[
            "kh", "g", "ch", "j", "th", "d", "ph", "b", "tsh", "dz", "kh+y", "g+y", "ph+y", "b+y", "kh+r",
            "g+r", "d+r", "ph+r", "b+r",
        ],
    ),
];

/// The last ones occur in Sanskrit words.
const SUFFIXES: [&str; 14] = [
    "'", "g", "ng", "d", "n", "b", "m", "r", "l", "s", "N", "T", "-n", "-t",
];

const SECOND_SUFFIXES: Relation = &[("s", &["g", "ng", "b", "m"]), ("d", &["n", "r", "l"])];

const PLAIN_STACKS: &[&str] = &[
    "b+l", "b+r", "b+y", "c+w", "d+r", "d+r+w", "d+w", "dz+r", "g+l", "g+r", "g+r+w", "g+w", "g+y", "h+r",
    "h+w", "k+l", "k+r", "k+w", "k+y", "kh+r", "kh+w", "kh+y", "l+b", "l+c", "l+d", "l+g", "l+h", "l+j",
    "l+k", "l+ng", "l+p", "l+t", "l+w", "m+r", "m+y", "n+r", "ny+w", "p+r", "p+y", "ph+r", "ph+y", "ph+y+w",
    "r+b", "r+d", "r+dz", "r+g", "r+g+w", "r+g+y", "r+j", "r+k", "r+k+y", "r+l", "r+m", "r+m+y", "r+n",
    "r+ng", "r+ny", "r+t", "r+ts", "r+ts+w", "r+w", "s+b", "s+b+r", "s+b+y", "s+d", "s+g", "s+g+r", "s+g+y",
    "s+k", "s+k+r", "s+k+y", "s+l", "s+m", "s+m+r", "s+m+y", "s+n", "s+n+r", "s+ng", "s+ny", "s+p", "s+p+r",
    "s+p+y", "s+r", "s+t", "s+ts", "s+w", "sh+r", "sh+w", "t+r", "t+w", "th+r", "ts+w", "tsh+w", "z+l",
    "z+w", "zh+w",
];
