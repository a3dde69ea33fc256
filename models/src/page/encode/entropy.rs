//! Quantised coefficients to bits.

use super::tables::{AC_LENGTHS, AC_VALUES, Code, DC_LENGTHS, DC_VALUES, ZIGZAG, codes};

/// Sixteen zeros.
const ZERO_RUN: usize = 0xF0;
/// Nothing but zeros follows.
const END_OF_BLOCK: usize = 0x00;
const LONGEST_RUN: u32 = 15;

/// Writes blocks of one component, with the Huffman tables of Annex K.
#[derive(Debug)]
pub(super) struct EntropyCoder {
    bytes: Vec<u8>,
    pending: PendingBits,
    dc: [Code; 256],
    ac: [Code; 256],
    /// The first coefficient of the block before.
    level: i16,
}

impl EntropyCoder {
    /// Goes on after `header`.
    pub(super) fn new(header: Vec<u8>) -> Self {
        Self {
            bytes: header,
            pending: PendingBits::default(),
            dc: codes(&DC_LENGTHS, &DC_VALUES),
            ac: codes(&AC_LENGTHS, &AC_VALUES),
            level: 0,
        }
    }

    /// Writes a block whose coefficients lie row by row.
    #[inline(always)]
    pub(super) fn write(&mut self, block: &[i16; 64]) {
        let mut values = [0; 64];
        for (value, &place) in values.iter_mut().zip(&ZIGZAG) {
            *value = block[usize::from(place)];
        }
        // A copy stays in registers.
        let mut bits = self.pending;
        let step = i32::from(values[0]) - i32::from(self.level);
        self.level = values[0];
        bits.put(coded(&self.dc, 0, step), &mut self.bytes);

        let mut rest = nonzero(&values) & !1;
        let mut previous = 0;
        while rest != 0 {
            let place = rest.trailing_zeros();
            rest &= rest - 1;
            let mut run = place - previous - 1;
            previous = place;
            while run > LONGEST_RUN {
                bits.put(self.ac[ZERO_RUN], &mut self.bytes);
                run -= LONGEST_RUN + 1;
            }
            let value = i32::from(values[place as usize & 63]);
            bits.put(coded(&self.ac, run, value), &mut self.bytes);
        }
        if previous != 63 {
            bits.put(self.ac[END_OF_BLOCK], &mut self.bytes);
        }
        self.pending = bits;
    }

    /// The header and all that was written.
    pub(super) fn finish(mut self) -> Vec<u8> {
        self.pending.finish(&mut self.bytes);
        self.bytes
    }
}

/// A value after so many zeros: its size in bits as part of the symbol, then its bits; below zero, those of the number
/// before it.
#[inline(always)]
fn coded(codes: &[Code; 256], run: u32, value: i32) -> Code {
    let size = u32::BITS - value.unsigned_abs().leading_zeros();
    let Code { bits, length } = codes[(run << 4 | size) as usize & 0xFF];
    let value = (value + (value >> 31)) as u32 & ((1 << size) - 1);
    Code {
        bits: bits | value,
        length,
    }
}

/// Which values are not zero: bit `i` for value `i`.
#[inline(always)]
fn nonzero(values: &[i16; 64]) -> u64 {
    /// Brings the lowest bit of byte `i` to bit `56 + i`.
    const GATHER: u64 = 0x0102_0408_1020_4080;
    let mut flags = [0; 64];
    for (flag, &value) in flags.iter_mut().zip(values) {
        *flag = u8::from(value != 0);
    }
    let bytes = flags.as_chunks().0.iter();
    bytes.rev().fold(0, |mask, &flags| {
        mask << 8 | u64::from_le_bytes(flags).wrapping_mul(GATHER) >> 56
    })
}

/// Bits that do not fill a word yet. They fill bytes from the highest bit to the lowest; a byte of ones is followed by a zero
/// byte.
#[derive(Debug, Clone, Copy, Default)]
struct PendingBits {
    /// The lowest `count` bits are still to be written; those above are of no meaning.
    bits: u64,
    count: u32,
}

impl PendingBits {
    /// Adds the lowest bits of `code`, whose others are zero.
    #[inline(always)]
    fn put(&mut self, code: Code, bytes: &mut Vec<u8>) {
        let bits = u64::from(code.bits);
        let count = self.count + code.length;
        if count < u64::BITS {
            self.bits = self.bits << code.length | bits;
            self.count = count;
        } else {
            let left = count - u64::BITS;
            write_word(self.bits << (code.length - left) | bits >> left, bytes);
            self.bits = bits;
            self.count = left;
        }
    }

    /// Fills the last byte with ones.
    fn finish(mut self, bytes: &mut Vec<u8>) {
        let ones = Code {
            bits: 0x7F,
            length: 7,
        };
        self.put(ones, bytes);
        let whole = self.count / 8;
        let last = self.bits << (u64::BITS - self.count).min(u64::BITS - 1);
        stuff(&last.to_be_bytes()[..whole as usize], bytes);
    }
}

#[inline(always)]
fn write_word(word: u64, bytes: &mut Vec<u8>) {
    const LOWEST: u64 = 0x0101_0101_0101_0101;
    const HIGHEST: u64 = LOWEST << 7;
    // A byte of ones loses its highest bit when one is added.
    if word & !word.wrapping_add(LOWEST) & HIGHEST == 0 {
        bytes.extend_from_slice(&word.to_be_bytes());
    } else {
        stuff(&word.to_be_bytes(), bytes);
    }
}

#[cold]
fn stuff(word: &[u8], bytes: &mut Vec<u8>) {
    for &byte in word {
        bytes.push(byte);
        if byte == u8::MAX {
            bytes.push(0);
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// The bits of a block one by one, as T.81 tells them (F.1.2).
    fn plain_bits(block: &[i16; 64], level: i16, bits: &mut Vec<bool>) {
        let (dc, ac) = (codes(&DC_LENGTHS, &DC_VALUES), codes(&AC_LENGTHS, &AC_VALUES));
        let mut put = |codes: &[Code; 256], run: usize, value: i32| {
            let size = (0..16).find(|size| value.abs() < 1 << size).unwrap();
            let Code { bits: code, length } = codes[run * 16 + size];
            let value = if value < 0 { value - 1 + (1 << size) } else { value };
            let code = code + value as u32;
            bits.extend((0..length).rev().map(|place| code >> place & 1 == 1));
        };
        put(&dc, 0, i32::from(block[0]) - i32::from(level));
        let mut run = 0;
        for &place in &ZIGZAG[1..] {
            match block[usize::from(place)] {
                0 => run += 1,
                value => {
                    (0..run / 16).for_each(|_| put(&ac, 15, 0));
                    put(&ac, run % 16, value.into());
                    run = 0;
                }
            }
        }
        if run > 0 {
            put(&ac, 0, 0);
        }
    }

    fn plain_bytes(blocks: &[[i16; 64]]) -> Vec<u8> {
        let (mut bits, mut level) = (Vec::new(), 0);
        for block in blocks {
            plain_bits(block, level, &mut bits);
            level = block[0];
        }
        bits.resize(bits.len().next_multiple_of(8), true);
        let bytes = bits
            .chunks(8)
            .map(|bits| bits.iter().fold(0, |byte, &bit| byte << 1 | u8::from(bit)));
        bytes
            .flat_map(|byte| [byte].into_iter().chain((byte == 0xFF).then_some(0)))
            .collect()
    }

    fn coefficient() -> impl Strategy<Value = i16> {
        prop_oneof![6 => Just(0), 2 => -2_i16..=2, 1 => -1023_i16..=1023]
    }

    proptest! {
        #[test]
        fn bits_are_those_written_one_by_one(
            blocks in proptest::collection::vec(proptest::collection::vec(coefficient(), 64), 0..12),
        ) {
            let blocks: Vec<[i16; 64]> = blocks.into_iter().map(|block| block.try_into().unwrap()).collect();
            let mut coder = EntropyCoder::new(Vec::new());
            blocks.iter().for_each(|block| coder.write(block));
            prop_assert_eq!(coder.finish(), plain_bytes(&blocks));
        }
    }
}
