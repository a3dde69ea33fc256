//! Length of what an LZW stream stands for (ISO 32000-2, 7.4.4). The texts of the codes do not matter for it.

const CLEAR: usize = 256;
const END: usize = 257;
/// Most codes of the table.
const CODES: usize = 4096;

/// Length of the decoded data, or more than `limit` if it is longer than that. Codes widen one entry before they must, as is usual; a
/// stream for which that is wrong gives another length of the same magnitude.
pub(super) fn lzw_length(data: &[u8], limit: u64) -> u64 {
    let mut lengths: Vec<u64> = Vec::with_capacity(CODES);
    let mut length = 0;
    let mut before: Option<u64> = None;
    let (mut bits, mut held) = (0_u32, 0_u32);
    let mut bytes = data.iter();
    loop {
        let next = END + 1 + lengths.len();
        let width = match next + usize::from(before.is_some()) {
            ..512 => 9,
            512..1024 => 10,
            1024..2048 => 11,
            _ => 12,
        };
        while held < width {
            let Some(byte) = bytes.next() else { return length };
            bits = (bits << 8) | u32::from(*byte);
            held += 8;
        }
        held -= width;
        let code = (bits >> held) as usize;
        bits &= (1 << held) - 1;
        let own = match code {
            CLEAR => {
                lengths.clear();
                before = None;
                continue;
            }
            END => return length,
            ..CLEAR => 1,
            _ => match (lengths.get(code - END - 1), before) {
                (Some(own), _) => *own,
                (None, Some(before)) => before + 1,
                (None, None) => return length,
            },
        };
        length += own;
        if length > limit {
            return length;
        }
        if let Some(before) = before
            && next < CODES
        {
            lengths.push(before + 1);
        }
        before = Some(own);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lengths_are_those_of_the_text() {
        // The example of the standard, 7.4.4.2, which stands for 10 bytes.
        let example = [0x80, 0x0b, 0x60, 0x50, 0x22, 0x0c, 0x0c, 0x85, 0x01];
        assert_eq!(lzw_length(&example, 100), 10);
        assert!(lzw_length(&example, 3) > 3);
        assert_eq!(lzw_length(&[], 100), 0);
        assert_eq!(lzw_length(&[0xff; 4], 100), 0);
    }
}
