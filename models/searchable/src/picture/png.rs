//! PNG files, whose compression and filters a PDF knows.

use super::{Colours, Data, Embedded};

const SIGNATURE: &[u8] = b"\x89PNG\r\n\x1a\n";

/// Takes a PNG without interlacing and transparency, which a PDF would hold otherwise.
pub(super) fn embedded(file: &[u8]) -> Option<Embedded<'_>> {
    let mut rest = file.strip_prefix(SIGNATURE)?;
    let mut header = None;
    let mut palette = None;
    let mut dpi = None;
    let mut stream = Vec::new();
    loop {
        let length = usize::try_from(u32::from_be_bytes(*rest.first_chunk()?)).ok()?;
        let kind = rest.get(4..8)?;
        let chunk = rest.get(8..length.checked_add(8)?)?;
        rest = rest.get(length.checked_add(12)?..)?;
        match kind {
            b"IHDR" => header = Some(*chunk.first_chunk::<13>()?),
            b"PLTE" => palette = Some(chunk),
            b"IDAT" => stream.extend_from_slice(chunk),
            b"pHYs" => dpi = density(chunk),
            b"tRNS" => return None,
            b"IEND" => break,
            _ => {}
        }
    }
    let [w1, w2, w3, w4, h1, h2, h3, h4, bits, colour, 0, 0, 0] = header? else {
        return None;
    };
    let (colours, palette) = match colour {
        0 => (Colours::Gray, None),
        2 => (Colours::Rgb, None),
        3 => (
            Colours::Gray,
            Some(palette.filter(|colours| colours.len() % 3 == 0 && (3..=768).contains(&colours.len()))?),
        ),
        _ => return None,
    };
    let [width, height] = [[w1, w2, w3, w4], [h1, h2, h3, h4]].map(u32::from_be_bytes);
    (width > 0 && height > 0 && !stream.is_empty() && matches!(bits, 1 | 2 | 4 | 8 | 16)).then_some(
        Embedded {
            width,
            height,
            dpi,
            data: Data::Png {
                stream,
                bits,
                colours,
                palette,
            },
        },
    )
}

/// Pixels an inch; they are stated by the metre.
fn density(chunk: &[u8]) -> Option<[f64; 2]> {
    let [x1, x2, x3, x4, y1, y2, y3, y4, 1] = *chunk else {
        return None;
    };
    Some([[x1, x2, x3, x4], [y1, y2, y3, y4]].map(|density| f64::from(u32::from_be_bytes(density)) * 0.0254))
}
