//! CCITT T.4 and T.6 strips: Group 3 in one and two dimensions, Group 4, and TIFF's byte-aligned run lengths.

use hayro_ccitt::{DecodeSettings, Decoder, DecoderContext, EncodingMode};

use super::layout::{Compression, Layout};
use super::{DecodeError, DecodeWarning, TRUNCATED, malformed};

/// Decodes `rows` rows to packed bits, 1 where the code says black; what black looks like is the photometric tag's
/// affair.
///
/// Data that breaks the rules is decoded as far as it goes and warned of. Rows that follow an explicit end of block are
/// the code's white: some encoders leave out the blank foot of a page. Data that merely stops is an error.
pub(super) fn decode(
    data: &[u8],
    layout: &Layout,
    rows: usize,
    warnings: &mut Vec<DecodeWarning>,
) -> Result<Vec<u8>, DecodeError> {
    let width = layout.chunk_width;
    let mut sink = PackedRows::new(layout.row_bytes(), rows, width as usize);
    let mut settings = DecodeSettings {
        columns: width,
        rows: u32::try_from(rows).map_err(malformed)?,
        end_of_block: true,
        end_of_line: false,
        rows_are_byte_aligned: layout.compression == Compression::CcittRle,
        encoding: match layout.compression {
            Compression::Group3 {
                two_dimensional: true,
            } => EncodingMode::Group3_2D,
            Compression::Group4 => EncodingMode::Group4,
            _ => EncodingMode::Group3_1D,
        },
        strict: true,
    };
    // Strictly first, as only that tells damaged data from sound data; the lenient decoder does not report
    // the errors that it passes over.
    if let Err(strict) = hayro_ccitt::decode(data, &mut sink, &mut DecoderContext::new(settings)) {
        if strict == hayro_ccitt::DecodeError::UnexpectedEof {
            return Err(TRUNCATED);
        }
        sink.restart();
        settings.strict = false;
        match hayro_ccitt::decode(data, &mut sink, &mut DecoderContext::new(settings)) {
            // Rows that were read before the end do not make up for those that are missing.
            Err(hayro_ccitt::DecodeError::UnexpectedEof) => return Err(TRUNCATED),
            // Without a single row there is nothing to warn about, only a broken page.
            Err(error) if sink.filled == 0 => return Err(malformed(error)),
            Ok(_) | Err(_) => {
                let rows = sink.filled;
                let reason = format!("{strict} in a CCITT strip, {rows} rows of it were read");
                warnings.push(DecodeWarning::Damaged { reason });
            }
        }
    } else if sink.filled < rows {
        if !ends_block(data, settings.encoding) {
            return Err(TRUNCATED);
        }
        warnings.push(DecodeWarning::MissingRows {
            rows: (rows - sink.filled) as u32,
        });
    }
    Ok(sink.packed)
}

/// Returns whether the data closes with two end-of-line codes, the end of a block in every mode, before its padding.
fn ends_block(data: &[u8], encoding: EncodingMode) -> bool {
    // In two-dimensional Group 3 a tag bit follows each code.
    let (pattern, bits) = match encoding {
        EncodingMode::Group3_2D => (0x000_6003, 26),
        EncodingMode::Group3_1D | EncodingMode::Group4 => (0x00_1001, 24),
    };
    // Writers pad with zero bits and zero bytes. The last code ends in a one, so the lowest one of the data
    // is its end, at any of eight offsets.
    let end = data.iter().rposition(|&b| b != 0).map_or(0, |at| at + 1);
    let tail = data[end.saturating_sub(4)..end]
        .iter()
        .fold(0_u32, |tail, &b| tail << 8 | u32::from(b));
    (tail >> tail.trailing_zeros().min(7)) & ((1 << bits) - 1) == pattern
}

/// Rows of bits, the first pixel in the highest bit.
struct PackedRows {
    packed: Vec<u8>,
    row_bytes: usize,
    width: usize,
    filled: usize,
}

impl PackedRows {
    fn new(row_bytes: usize, rows: usize, width: usize) -> Self {
        Self {
            packed: vec![0; row_bytes * rows],
            row_bytes,
            width,
            filled: 0,
        }
    }

    fn restart(&mut self) {
        self.packed.fill(0);
        self.filled = 0;
    }
}

impl Decoder for PackedRows {
    fn push_row(&mut self, changes: &[u32]) {
        let start = self.filled * self.row_bytes;
        // Damaged data can hold more rows than the directory says.
        let Some(row) = self.packed.get_mut(start..start + self.row_bytes) else {
            return;
        };
        for run in changes.chunks(2) {
            let from = run[0] as usize;
            let to = run.get(1).map_or(self.width, |&to| to as usize);
            set_bits(row, from, to);
        }
        self.filled += 1;
    }
}

/// Sets the bits `from..to` of a row.
fn set_bits(row: &mut [u8], from: usize, to: usize) {
    if from >= to {
        return;
    }
    let (first, last) = (from / 8, (to - 1) / 8);
    let head = 0xff_u8 >> (from % 8);
    let foot = 0xff_u8 << (7 - (to - 1) % 8);
    if first == last {
        row[first] |= head & foot;
    } else {
        row[first] |= head;
        row[first + 1..last].fill(0xff);
        row[last] |= foot;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn set_bits_sets_the_run_and_nothing_else(a in 0_usize..=40, b in 0_usize..=40) {
            let (from, to) = (a.min(b), a.max(b));
            let mut row = [0; 5];
            set_bits(&mut row, from, to);
            for x in 0..40 {
                prop_assert_eq!(row[x / 8] >> (7 - x % 8) & 1 == 1, (from..to).contains(&x));
            }
        }
    }

    #[test]
    fn the_end_of_a_block_is_found_at_any_bit_offset() {
        for shift in 0..8 {
            let bits = 0x00_1001_u64 << shift | 1 << 32;
            assert!(
                ends_block(&bits.to_be_bytes(), EncodingMode::Group4),
                "shift {shift}"
            );
        }
        assert!(!ends_block(&[0, 1, 0xff], EncodingMode::Group4));
        assert!(!ends_block(&[], EncodingMode::Group3_1D));
    }
}
