//! The marker structure of a JPEG stream (ITU-T T.81, annex B), without decoding it.

const TEM: u8 = 0x01;
const RST0: u8 = 0xd0;
const RST7: u8 = 0xd7;
const SOI: u8 = 0xd8;
const EOI: u8 = 0xd9;

/// Structure of a stream as its markers state it.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Structure {
    /// `true` where the end marker is there: nothing was cut off.
    pub(super) ended: bool,
    /// Bits of a sample, from the frame header.
    pub(super) precision: Option<u8>,
    /// Width and height, from the frame header.
    pub(super) size: Option<(u32, u32)>,
}

impl Structure {
    /// Walks the markers from the start of `bytes`. Segments are stepped over by their length, so that the end marker of
    /// an embedded thumbnail is not taken for the image's own.
    pub(super) fn of(bytes: &[u8]) -> Self {
        let mut structure = Self::default();
        let mut rest = bytes;
        while let Some((marker, after)) = next_marker(rest) {
            rest = after;
            match marker {
                SOI | TEM | RST0..=RST7 => {}
                EOI => {
                    structure.ended = true;
                    break;
                }
                _ => {
                    let Some(&[high, low]) = rest.first_chunk() else {
                        break;
                    };
                    let length = usize::from(u16::from_be_bytes([high, low]));
                    if is_frame_header(marker)
                        && let Some(&[_, _, precision, h1, h0, w1, w0]) = rest.first_chunk()
                    {
                        structure.precision = Some(precision);
                        structure.size = Some((
                            u16::from_be_bytes([w1, w0]).into(),
                            u16::from_be_bytes([h1, h0]).into(),
                        ));
                    }
                    // The length counts its own two bytes.
                    let Some(after) = rest.get(length..) else { break };
                    rest = after;
                }
            }
        }
        structure
    }
}

/// SOF0 to SOF15; DHT, JPG and DAC share their range.
fn is_frame_header(marker: u8) -> bool {
    matches!(marker, 0xc0..=0xcf) && !matches!(marker, 0xc4 | 0xc8 | 0xcc)
}

/// The next marker and what follows it. Entropy-coded bytes and fill bytes are skipped.
fn next_marker(bytes: &[u8]) -> Option<(u8, &[u8])> {
    let mut rest = bytes;
    loop {
        let at = rest.iter().position(|&b| b == 0xff)?;
        rest = &rest[at + 1..];
        match rest.first()? {
            0x00 => rest = &rest[1..],
            0xff => {}
            &marker => return Some((marker, &rest[1..])),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_end_marker_inside_a_segment_does_not_count() {
        let thumbnail = b"\xff\xd8\xff\xe1\x00\x06\xff\xd8\xff\xd9\xff\xda\x00\x02\x12\xff\x00\x34";
        assert!(!Structure::of(thumbnail).ended);
        let whole = [&thumbnail[..], b"\xff\xd9"].concat();
        assert!(Structure::of(&whole).ended);
    }

    #[test]
    fn the_frame_header_is_read() {
        let frame = b"\xff\xd8\xff\xc4\x00\x02\xff\xc1\x00\x0b\x0c\x00\x10\x00\x20\x01\x01\x11\x00";
        let structure = Structure::of(frame);
        assert_eq!((structure.precision, structure.size), (Some(12), Some((32, 16))));
    }
}
