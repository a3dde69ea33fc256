//! JPEG files, which a PDF holds as they are.

use super::{Colours, Data, Embedded};

/// Takes a baseline, extended or progressive JPEG of eight bits, which is all that PDF knows (ISO 32000-2, 7.4.8).
pub(super) fn embedded(file: &[u8]) -> Option<Embedded<'_>> {
    let mut rest = file.strip_prefix(&[0xff, 0xd8])?;
    let mut dpi = None;
    let mut is_adobe = false;
    loop {
        let [0xff, marker, tail @ ..] = rest else {
            return None;
        };
        rest = tail;
        match *marker {
            // A filler before the marker.
            0xff => {
                rest = &file[file.len() - tail.len() - 1..];
                continue;
            }
            // Markers without a length.
            0x01 | 0xd0..=0xd7 => continue,
            0xd9 | 0xda => return None,
            _ => {}
        }
        let length = usize::from(u16::from_be_bytes(*rest.first_chunk()?));
        let segment = rest.get(2..length)?;
        rest = rest.get(length..)?;
        match (*marker, segment) {
            (0xe0, [b'J', b'F', b'I', b'F', 0, _, _, units, x1, x2, y1, y2, ..]) => {
                dpi = density(*units, [*x1, *x2], [*y1, *y2]);
            }
            (0xee, segment) if segment.starts_with(b"Adobe") => is_adobe = true,
            (0xc0..=0xc2, [8, y1, y2, x1, x2, components, ..]) => {
                let colours = match components {
                    1 => Colours::Gray,
                    3 => Colours::Rgb,
                    4 => Colours::Cmyk,
                    _ => return None,
                };
                let [width, height] =
                    [[*x1, *x2], [*y1, *y2]].map(|side| u32::from(u16::from_be_bytes(side)));
                // A height of zero stands for one that follows the pixels.
                return (width > 0 && height > 0).then_some(Embedded {
                    width,
                    height,
                    dpi,
                    data: Data::Jpeg {
                        file,
                        colours,
                        // Programs of Adobe write ink inverted, and so do those that follow them.
                        is_inverted: is_adobe && colours == Colours::Cmyk,
                    },
                });
            }
            // Other kinds of compression; the three among the numbers are tables.
            (0xc0..=0xcf, _) if !matches!(*marker, 0xc4 | 0xc8 | 0xcc) => return None,
            _ => {}
        }
    }
}

fn density(units: u8, across: [u8; 2], down: [u8; 2]) -> Option<[f64; 2]> {
    let an_inch = match units {
        1 => 1.0,
        2 => 2.54,
        _ => return None,
    };
    Some([across, down].map(|density| f64::from(u16::from_be_bytes(density)) * an_inch))
}
