//! Damage to an input.

use fastrand::Rng;

/// Longest input that is made, and longest piece that is moved, in bytes.
const LONGEST: usize = 1 << 20;
const PIECE: usize = 256;

/// Numbers at which arithmetic and limits err.
const NUMBERS: [u64; 12] = [
    0,
    1,
    0x7f,
    0x80,
    0xff,
    0x7fff,
    0xffff,
    0x7fff_ffff,
    0x8000_0000,
    0xffff_ffff,
    i64::MAX as u64,
    u64::MAX,
];

/// Pieces of texts that parsers may stumble over.
const WORDS: [&str; 16] = [
    "-1",
    "1e999",
    "NaN",
    "99999999999999999999",
    "\u{0}",
    "\u{feff}",
    "\u{202e}",
    "\u{f71}\u{f0b}",
    "\r\n",
    "\"",
    "<![CDATA[",
    "&#0;",
    "[[[[[[[[[[[[[[[[",
    "{\"a\":",
    "../",
    "%00",
];

/// Changes an input once; `other` is one that pieces are taken from.
pub(crate) fn damage(input: &mut Vec<u8>, other: &[u8], random: &mut Rng) {
    let at = random.usize(..=input.len());
    match random.u32(0..10) {
        0 => flip(input, random),
        1 => {
            if let Some(byte) = input.get_mut(at) {
                *byte = random.u8(..);
            }
        }
        2 | 3 => number(input, at, random),
        4 => input.truncate(at),
        5 => {
            let end = (at + random.usize(..=PIECE)).min(input.len());
            input.drain(at..end);
        }
        6 => {
            let own = piece(input, random);
            insert(input, at, &own);
        }
        7 => insert(input, at, &piece(other, random)),
        8 => insert(input, at, WORDS[random.usize(..WORDS.len())].as_bytes()),
        _ => digits(input, at, random),
    }
}

fn flip(input: &mut [u8], random: &mut Rng) {
    if !input.is_empty() {
        let at = random.usize(..input.len());
        input[at] ^= 1 << random.u32(0..8);
    }
}

/// Writes a number of some width in either order of bytes over what is there.
fn number(input: &mut [u8], at: usize, random: &mut Rng) {
    let number = NUMBERS[random.usize(..NUMBERS.len())];
    let number = number.wrapping_add(random.u64(0..3)).wrapping_sub(1);
    let width = 1 << random.usize(0..4);
    let bytes = match random.bool() {
        true => number.to_le_bytes()[..width].to_vec(),
        false => number.to_be_bytes()[8 - width..].to_vec(),
    };
    for (place, byte) in input.iter_mut().skip(at).zip(bytes) {
        *place = byte;
    }
}

/// Makes a decimal number longer, where one is near.
fn digits(input: &mut Vec<u8>, at: usize, random: &mut Rng) {
    let near = input.iter().skip(at).take(PIECE);
    if let Some(digit) = near.clone().position(u8::is_ascii_digit) {
        let more: Vec<u8> = (0..random.usize(1..=10))
            .map(|_| random.u8(b'0'..=b'9'))
            .collect();
        insert(input, at + digit, &more);
    }
}

fn piece(of: &[u8], random: &mut Rng) -> Vec<u8> {
    let begin = random.usize(..=of.len());
    let end = (begin + random.usize(..=PIECE)).min(of.len());
    of[begin..end].to_vec()
}

fn insert(input: &mut Vec<u8>, at: usize, piece: &[u8]) {
    if input.len() + piece.len() <= LONGEST {
        input.splice(at..at, piece.iter().copied());
    }
}
