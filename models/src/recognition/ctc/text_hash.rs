//! A hash of a text that grows with the text.

use std::hash::{BuildHasherDefault, Hasher};

/// A Mersenne prime: products of two residues fit 128 bits and the remainder is cheap.
const MODULUS: u64 = (1 << 61) - 1;
const BASE: u64 = 0x0b5a_d4ec_eda1_ce2a % MODULUS;

/// Polynomial hash of a text's bytes. `of(a).followed_by(of(b)) == of(a + b)`, however the text is split.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct TextHash {
    value: u64,
    /// `BASE` to the power of the length.
    shift: u64,
}

impl TextHash {
    pub(super) fn of(text: &str) -> Self {
        let empty = Self { value: 0, shift: 1 };
        // One more than the byte, so that a zero byte counts.
        text.bytes().fold(empty, |hash, byte| {
            hash.followed_by(Self {
                value: u64::from(byte) + 1,
                shift: BASE,
            })
        })
    }

    pub(super) fn followed_by(self, next: Self) -> Self {
        // Two residues below 2^61 add up within 64 bits.
        let value = multiply(self.value, next.shift) + next.value;
        Self {
            value: if value >= MODULUS { value - MODULUS } else { value },
            shift: multiply(self.shift, next.shift),
        }
    }

    /// A table key for this text together with a class.
    pub(super) fn with_class(self, class: usize) -> u64 {
        // Odd factors make this a bijection of the text for each class; they spread classes, which are small
        // numbers, over all bits.
        (self.value ^ (class as u64).wrapping_mul(0x9e37_79b9_7f4a_7c15)).wrapping_mul(0xff51_afd7_ed55_8ccd)
    }
}

fn multiply(a: u64, b: u64) -> u64 {
    // The remainder is below 2^61, so that the cast loses nothing.
    (u128::from(a) * u128::from(b) % u128::from(MODULUS)) as u64
}

/// Hasher for keys that are hashes already.
pub(super) type IdentityHash = BuildHasherDefault<IdentityHasher>;

#[derive(Debug, Default)]
pub(super) struct IdentityHasher(u64);

impl Hasher for IdentityHasher {
    fn finish(&self) -> u64 {
        self.0
    }

    fn write(&mut self, bytes: &[u8]) {
        for &byte in bytes {
            self.0 = self.0.rotate_left(8) ^ u64::from(byte);
        }
    }

    fn write_u64(&mut self, value: u64) {
        // Tables take the low bits, and the product before has mixed the high ones best.
        self.0 = value ^ (value >> 32);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_split_does_not_matter() {
        let whole = TextHash::of("བསྒྲུབས་");
        assert_eq!(TextHash::of("བསྒྲ").followed_by(TextHash::of("ུབས་")), whole);
        assert_eq!(
            TextHash::of("").followed_by(whole).followed_by(TextHash::of("")),
            whole
        );
        assert_ne!(TextHash::of("ab"), TextHash::of("ba"));
        assert_ne!(TextHash::of("a"), TextHash::of("a\0"));
        assert_ne!(whole.with_class(0), whole.with_class(1));
    }
}
