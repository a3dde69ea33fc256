//! Formats of image files, recognised by their first bytes.

use std::fmt;

use super::DecodeError;

/// An image format that pages come in.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum PageFormat {
    Jpeg,
    Tiff,
    Png,
    WebP,
    Bmp,
    Pnm,
}

impl fmt::Display for PageFormat {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Jpeg => "JPEG",
            Self::Tiff => "TIFF",
            Self::Png => "PNG",
            Self::WebP => "WebP",
            Self::Bmp => "BMP",
            Self::Pnm => "PNM",
        })
    }
}

/// Formats that archives hold beside page images, so that an error can name them.
const UNSUPPORTED: [(&[u8], &str); 8] = [
    (b"\x00\x00\x00\x0cjP  ", "JPEG 2000"),
    (b"\xff\x4f\xff\x51", "JPEG 2000"),
    (b"GIF8", "GIF"),
    (b"%PDF", "PDF"),
    (b"AT&TFORM", "DjVu"),
    (b"8BPS", "Photoshop"),
    (b"PK\x03\x04", "ZIP"),
    (b"\x1f\x8b", "gzip"),
];

impl PageFormat {
    /// The format of `bytes` by its signature.
    pub(super) fn of(bytes: &[u8]) -> Result<Self, DecodeError> {
        if bytes.is_empty() {
            return Err(DecodeError::Empty);
        }
        match bytes {
            [0xff, 0xd8, 0xff, ..] => Ok(Self::Jpeg),
            [b'I', b'I', 42 | 43, 0, ..] | [b'M', b'M', 0, 42 | 43, ..] => Ok(Self::Tiff),
            [0x89, b'P', b'N', b'G', b'\r', b'\n', 0x1a, b'\n', ..] => Ok(Self::Png),
            [b'R', b'I', b'F', b'F', _, _, _, _, b'W', b'E', b'B', b'P', ..] => Ok(Self::WebP),
            // BMP and PNM begin with letters that a text can begin with too: the reserved zeros of the one
            // and the white space after the digit of the other are looked at as well.
            [b'B', b'M', _, _, _, _, 0, 0, 0, 0, ..] => Ok(Self::Bmp),
            [b'P', b'1'..=b'7', b'\n' | b'\r' | b' ' | b'\t' | b'#', ..] => Ok(Self::Pnm),
            [_, _, _, _, b'f', b't', b'y', b'p', ..] => Err(DecodeError::UnsupportedFormat {
                name: "HEIF, AVIF or video",
            }),
            _ if is_markup(bytes) => Err(DecodeError::Markup),
            _ => match UNSUPPORTED.iter().find(|(magic, _)| bytes.starts_with(magic)) {
                Some((_, name)) => Err(DecodeError::UnsupportedFormat { name }),
                None => Err(DecodeError::UnknownFormat),
            },
        }
    }
}

fn is_markup(bytes: &[u8]) -> bool {
    let text = bytes
        .strip_prefix(b"\xef\xbb\xbf")
        .unwrap_or(bytes)
        .trim_ascii_start();
    matches!(text, [b'<', b'!' | b'?' | b'a'..=b'z' | b'A'..=b'Z', ..])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn other_contents_are_named() {
        for (bytes, error) in [
            (&b""[..], DecodeError::Empty),
            (b"\xef\xbb\xbf \n<!DOCTYPE html>", DecodeError::Markup),
            (b"<?xml version='1.0'?><Error/>", DecodeError::Markup),
            (b"<html>", DecodeError::Markup),
            (b"%PDF-1.4", DecodeError::UnsupportedFormat { name: "PDF" }),
            (b"GIF89a", DecodeError::UnsupportedFormat { name: "GIF" }),
            (b"not an image at all", DecodeError::UnknownFormat),
            (b"\x89PNG", DecodeError::UnknownFormat),
            (b"P", DecodeError::UnknownFormat),
            (b"II*", DecodeError::UnknownFormat),
        ] {
            assert_eq!(PageFormat::of(bytes), Err(error));
        }
    }
}
