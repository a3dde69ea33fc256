//! Tibetan letters to Wylie.

use std::iter::Peekable;
use std::str::Chars;

use super::legal;
use super::letters::{
    CARET, FinalClass, final_sign, standalone_wylie, subjoined_wylie, top_wylie, vowel_wylie,
};

/// Letters that Unicode has as one character and Wylie spells as several.
const DECOMPOSED: &[(char, &str)] = &[
    ('\u{f73}', "\u{f71}\u{f72}"),
    ('\u{f75}', "\u{f71}\u{f74}"),
    ('\u{f76}', "\u{fb2}\u{f80}"),
    ('\u{f77}', "\u{fb2}\u{f71}\u{f80}"),
    ('\u{f78}', "\u{fb3}\u{f80}"),
    ('\u{f79}', "\u{fb3}\u{f71}\u{f80}"),
    ('\u{f81}', "\u{f71}\u{f80}"),
];

/// Writes Tibetan as Wylie. Tibetan signs without a spelling become `\u` escapes, other scripts stand in brackets.
pub fn to_wylie(tibetan: &str) -> String {
    let mut text = String::with_capacity(tibetan.len());
    for letter in tibetan.chars() {
        match DECOMPOSED.iter().find(|(whole, _)| *whole == letter) {
            Some((_, parts)) => text.push_str(parts),
            None => text.push(letter),
        }
    }
    let mut out = String::with_capacity(text.len());
    let mut letters = text.chars().peekable();
    while let Some(&letter) = letters.peek() {
        if top_wylie(letter).is_some() {
            syllable(&mut letters, &mut out);
            continue;
        }
        if let Some(wylie) = standalone_wylie(letter)
            && (letter != ' ' || !foreign_follows(letters.clone()))
        {
            out.push_str(wylie);
            letters.next();
            continue;
        }
        match letter {
            '\r' | '\n' => out.push(letter),
            '\u{feff}' | '\u{200b}' => {}
            '\u{f00}'..='\u{fff}' => push_escape(letter, &mut out),
            _ => {
                foreign(&mut letters, &mut out);
                continue;
            }
        }
        letters.next();
    }
    out
}

/// Returns whether the next character after spaces starts a text in another script.
fn foreign_follows(mut letters: Peekable<Chars<'_>>) -> bool {
    letters
        .find(|&letter| letter != ' ')
        .is_some_and(|letter| !is_spelled(letter) && !is_newline(letter))
}

fn is_spelled(letter: char) -> bool {
    top_wylie(letter).is_some() || standalone_wylie(letter).is_some()
}

fn is_newline(letter: char) -> bool {
    matches!(letter, '\r' | '\n')
}

fn push_escape(letter: char, out: &mut String) {
    out.push_str(&format!("\\u{:04x}", u32::from(letter)));
}

/// Copies a run of another script, in brackets.
fn foreign(letters: &mut Peekable<Chars<'_>>, out: &mut String) {
    out.push('[');
    while let Some(letter) =
        letters.next_if(|&letter| letter == ' ' || !(is_spelled(letter) || is_newline(letter)))
    {
        match letter {
            '[' | ']' => out.extend(['\\', letter]),
            '\u{f00}'..='\u{fff}' => push_escape(letter, out),
            _ => out.push(letter),
        }
    }
    out.push(']');
}

/// A stack of letters and the signs around it.
#[derive(Debug)]
struct Stack {
    consonants: Vec<&'static str>,
    /// The consonants joined by `+`.
    joined: String,
    has_caret: bool,
    vowels: Vec<&'static str>,
    finals: Vec<&'static str>,
    has_visarga: bool,
    role: Role,
    has_dot: bool,
}

/// Role of a stack within its syllable. Only a root has the vowel that is not written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Role {
    Root,
    Affix,
}

impl Stack {
    fn read(letters: &mut Peekable<Chars<'_>>) -> Self {
        let mut consonants: Vec<&'static str> = letters.next().and_then(top_wylie).into_iter().collect();
        let (mut vowels, mut finals) = (Vec::new(), Vec::new());
        let (mut has_caret, mut has_visarga) = (false, false);
        while let Some(&letter) = letters.peek() {
            if let Some(wylie) = subjoined_wylie(letter) {
                consonants.push(wylie);
            } else if let Some(wylie) = vowel_wylie(letter) {
                vowels.push(wylie);
            } else if let Some(sign) = final_sign(letter) {
                if sign.class == FinalClass::TsaPhru {
                    has_caret = true;
                } else {
                    has_visarga |= sign.class == FinalClass::Visarga;
                    finals.push(sign.wylie);
                }
            } else {
                break;
            }
            letters.next();
        }
        // The letter a only carries the vowel, which is the whole spelling then.
        if consonants == ["a"] && !vowels.is_empty() {
            consonants.clear();
        }
        // Unicode writes a long vowel as two signs, EWTS as one capital.
        if let ["A", short, ..] = vowels[..]
            && let Some(long) = long_vowel(short)
        {
            vowels.splice(..2, [long]);
        }
        let with_caret = match consonants[..] {
            ["ph"] => Some("f"),
            ["b"] => Some("v"),
            _ => None,
        };
        if has_caret && let Some(letter) = with_caret {
            consonants = vec![letter];
            has_caret = false;
        }
        let joined = consonants.join("+");
        Self {
            consonants,
            joined,
            has_caret,
            vowels,
            finals,
            has_visarga,
            role: Role::Root,
            has_dot: false,
        }
    }

    /// The letter of a stack that is one consonant and nothing else.
    fn bare(&self) -> Option<&'static str> {
        match self.consonants[..] {
            [letter]
                if letter != "a" && !self.has_caret && self.vowels.is_empty() && self.finals.is_empty() =>
            {
                Some(letter)
            }
            _ => None,
        }
    }

    fn write(&self, out: &mut String) {
        if legal::is_plain_stack(&self.joined) {
            out.extend(self.consonants.iter().copied());
        } else {
            out.push_str(&self.joined);
        }
        if self.has_caret {
            out.push_str(CARET);
        }
        if !self.vowels.is_empty() {
            out.push_str(&self.vowels.join("+"));
        } else if self.role == Role::Root && !self.joined.ends_with('a') {
            out.push('a');
        }
        out.extend(self.finals.iter().copied());
        if self.has_dot {
            out.push('.');
        }
    }
}

fn long_vowel(short: &str) -> Option<&'static str> {
    match short {
        "i" => Some("I"),
        "u" => Some("U"),
        "-i" => Some("-I"),
        _ => None,
    }
}

/// Writes the stacks up to a visarga or to what is no letter.
fn syllable(letters: &mut Peekable<Chars<'_>>, out: &mut String) {
    let mut stacks = vec![Stack::read(letters)];
    while !stacks.last().is_some_and(|stack| stack.has_visarga)
        && letters.peek().is_some_and(|&l| top_wylie(l).is_some())
    {
        stacks.push(Stack::read(letters));
    }
    assign_roles(&mut stacks);
    for stack in &stacks {
        stack.write(out);
    }
}

/// Finds the root among the stacks of a syllable.
fn assign_roles(stacks: &mut [Stack]) {
    let Some(last) = stacks.len().checked_sub(1).filter(|&last| last > 0) else {
        return;
    };
    let has_prefix = stacks[0]
        .bare()
        // The table has no row for roots with wa-zur, which take the prefixes of the root without it.
        .is_some_and(|letter| legal::is_prefix(letter, &stacks[1].joined.replace("+w", "")));
    let has_suffix = stacks[last].bare().is_some_and(legal::is_suffix);
    let has_second_suffix = last > 1
        && matches!((stacks[last - 1].bare(), stacks[last].bare()), (Some(first), Some(second))
            if legal::is_suffix(first) && legal::is_second_suffix(first, second));

    let mut affixes = vec![false; stacks.len()];
    affixes[0] = has_prefix;
    affixes[last] |= has_suffix || has_second_suffix;
    affixes[last - 1] |= has_second_suffix;
    // Of two bare letters that could be prefix and suffix the first is the root, as `pyewts` reads them.
    if last == 1 && has_prefix && has_suffix {
        affixes[0] = false;
    }
    if last == 2
        && has_prefix
        && has_second_suffix
        && let (Some(first), Some(second), Some(third)) =
            (stacks[0].bare(), stacks[1].bare(), stacks[2].bare())
    {
        affixes[legal::root_of_three(first, second, third)] = false;
    }
    // Whatever comes after the prefix would be read as its subjoined letters.
    let has_dot = affixes[0]
        && stacks[0]
            .bare()
            .is_some_and(|letter| legal::is_plain_stack(&format!("{letter}+{}", stacks[1].joined)));
    stacks[0].has_dot = has_dot;
    for (stack, is_affix) in stacks.iter_mut().zip(affixes) {
        stack.role = if is_affix { Role::Affix } else { Role::Root };
    }
}
