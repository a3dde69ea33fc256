//! Wylie to Tibetan letters.

use super::legal;
use super::letters::{A_CHEN, CARET, Consonant, FinalClass, TSA_PHRU};
use super::sloppy;
use super::token::{Sign, Token, tokenize};

/// Reads Wylie as people type it: [`to_unicode_exact`] after the usual slips have been repaired. The repairs read `x` and
/// `X` as U+0FBE, so that the spellings `X` and `~X` are out of reach; Wylie made by a program needs no repair.
pub fn to_unicode(wylie: &str) -> String {
    convert(&sloppy::repair(trim_start(wylie)))
}

/// Reads Wylie to the letter. What is no Wylie passes through; white space at the start is dropped, and spaces in a row
/// are one tsheg.
pub fn to_unicode_exact(wylie: &str) -> String {
    convert(trim_start(wylie))
}

/// White space as Python understands it: the four separators of ASCII belong to it.
fn trim_start(text: &str) -> &str {
    text.trim_start_matches(|c: char| c.is_whitespace() || ('\u{1c}'..='\u{1f}').contains(&c))
}

fn convert(wylie: &str) -> String {
    let tokens = tokenize(wylie);
    let mut out = String::with_capacity(wylie.len() * 2);
    let mut rest = tokens.as_slice();
    while let Some((token, mut tail)) = rest.split_first() {
        match token.sign {
            Sign::OpenBracket => tail = copy_bracketed(tail, &mut out),
            Sign::Standalone(sign) => {
                out.push(sign);
                if token.text == " " {
                    tail = skip_spaces(tail);
                }
            }
            Sign::Vowel(_) | Sign::Consonant(_) => tail = &rest[stack(rest, &mut out)..],
            Sign::Invisible => {}
            Sign::Escape => unescape(token.text, &mut out),
            Sign::Newline => {
                out.push_str(token.text);
                tail = skip_spaces(tail);
            }
            Sign::Final(_) | Sign::Plus | Sign::Dot | Sign::CloseBracket | Sign::Other => {
                out.push_str(token.text)
            }
        }
        rest = tail;
    }
    out
}

fn skip_spaces<'t, 'a>(tokens: &'t [Token<'a>]) -> &'t [Token<'a>] {
    let spaces = tokens.iter().take_while(|token| token.text == " ").count();
    &tokens[spaces..]
}

/// Copies text up to the closing bracket and returns what follows it.
fn copy_bracketed<'t, 'a>(tokens: &'t [Token<'a>], out: &mut String) -> &'t [Token<'a>] {
    for (index, token) in tokens.iter().enumerate() {
        match token.sign {
            Sign::CloseBracket => return &tokens[index + 1..],
            Sign::Escape => unescape(token.text, out),
            _ => out.push_str(token.text),
        }
    }
    &[]
}

/// Writes the character of an escape. A code that is no character writes nothing.
fn unescape(escape: &str, out: &mut String) {
    let Some(body) = escape.strip_prefix('\\') else {
        return;
    };
    match body.strip_prefix(['u', 'U']) {
        Some(code) if !code.is_empty() => {
            if code
                .bytes()
                .all(|digit| matches!(digit, b'0'..=b'9' | b'a'..=b'f'))
            {
                out.extend(u32::from_str_radix(code, 16).ok().and_then(char::from_u32));
            }
        }
        _ => out.push_str(body),
    }
}

/// Writes the stack at the start of `tokens`, which is a vowel or a consonant; returns the number of tokens it took.
fn stack(tokens: &[Token<'_>], out: &mut String) -> usize {
    let start = out.len();
    let mut reader = StackReader {
        tokens,
        at: 0,
        out,
        start,
        consonants: 0,
        has_vowel: false,
        finals: Vec::new(),
    };
    let has_plus = reader.letters();
    reader.closing_signs();
    let StackReader {
        at,
        consonants,
        has_vowel,
        ..
    } = reader;
    // Only now, because the vowel that makes a stack of consonants stands behind all of them.
    if consonants > 1 && !has_vowel && !has_plus {
        // Several consonants without a vowel are several letters, not a stack.
        if let Some(Sign::Consonant(first)) = tokens.first().map(|token| token.sign) {
            out.truncate(start);
            out.push_str(first.top);
            return 1;
        }
    }
    at
}

struct StackReader<'s> {
    tokens: &'s [Token<'s>],
    at: usize,
    out: &'s mut String,
    /// Start of the stack in `out`, in bytes.
    start: usize,
    consonants: usize,
    has_vowel: bool,
    finals: Vec<FinalClass>,
}

impl StackReader<'_> {
    fn peek(&self) -> Option<Sign> {
        self.tokens.get(self.at).map(|token| token.sign)
    }

    /// Reads consonants and vowels; whether a `+` joined any of them.
    fn letters(&mut self) -> bool {
        let mut has_plus = false;
        let mut carets = self.superscript();
        loop {
            carets += self.consonant_with_subscripts();
            if carets > 0 {
                self.finals.push(FinalClass::TsaPhru);
                self.out.push(TSA_PHRU);
                carets = 0;
            }
            self.vowel();
            if !matches!(self.peek(), Some(Sign::Plus)) {
                return has_plus;
            }
            has_plus = true;
            self.at += 1;
            // A `+` before what cannot stand below is consumed, but joins nothing.
            let joins = match self.peek() {
                Some(Sign::Vowel(_)) => true,
                Some(Sign::Consonant(consonant)) => consonant.subjoined.is_some(),
                _ => false,
            };
            if !joins {
                return has_plus;
            }
        }
    }

    /// Reads a head letter, if the next letter may stand below it; the number of carets after it.
    fn superscript(&mut self) -> usize {
        let [head, below, ..] = self.tokens else { return 0 };
        let Sign::Consonant(letter) = head.sign else {
            return 0;
        };
        if !legal::is_superscript(head.text, below.text) {
            return 0;
        }
        self.out.push_str(letter.top);
        self.consonants += 1;
        self.at += 1;
        self.carets()
    }

    /// Reads a consonant and up to two letters below it; the number of carets among them.
    fn consonant_with_subscripts(&mut self) -> usize {
        let Some(Sign::Consonant(letter)) = self.peek() else {
            return 0;
        };
        let is_top = self.out.len() == self.start;
        self.out.push_str(if is_top {
            letter.top
        } else {
            // Head letters and `+` are taken only before letters that have a form below another, so it is
            // there.
            letter.subjoined.unwrap_or(letter.top)
        });
        self.at += 1;
        self.consonants += 1;
        let mut carets = self.carets();
        for _ in 0..2 {
            let Some(Sign::Consonant(Consonant {
                wylie,
                subjoined: Some(sign),
                ..
            })) = self.peek()
            else {
                break;
            };
            // `l` hangs below single letters only; after two it begins the next stack or belongs to it, as in
            // `brla`.
            if !legal::is_subscript(wylie) || (*wylie == "l" && self.consonants > 1) {
                break;
            }
            self.out.push_str(sign);
            self.at += 1;
            self.consonants += 1;
            carets += self.carets();
        }
        carets
    }

    fn carets(&mut self) -> usize {
        let count = self.tokens[self.at..]
            .iter()
            .take_while(|token| token.text == CARET)
            .count();
        self.at += count;
        count
    }

    fn vowel(&mut self) {
        let Some(Sign::Vowel(sign)) = self.peek() else {
            return;
        };
        if self.out.len() == self.start {
            self.out.push_str(A_CHEN);
        }
        self.out.push_str(sign);
        self.at += 1;
        self.has_vowel = true;
    }

    /// Reads the signs at the end of a stack, one of each class, and the dot that ends a prefix.
    fn closing_signs(&mut self) {
        while let Some(Sign::Final(closing)) = self.peek() {
            if !self.finals.contains(&closing.class) {
                self.finals.push(closing.class);
                self.out.push(closing.sign);
            }
            self.at += 1;
        }
        if matches!(self.peek(), Some(Sign::Dot)) {
            self.at += 1;
        }
    }
}
