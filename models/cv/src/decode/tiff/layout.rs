//! The directory of a TIFF page as one validated description of how its samples lie in the file.

use std::io::{Cursor, ErrorKind};

use image::metadata::Orientation;
use tiff::decoder::{ChunkType, Decoder};
use tiff::tags::{ByteOrder, CompressionMethod, PhotometricInterpretation, Tag};
use tiff::{TiffError, TiffFormatError};

use super::{DecodeError, TRUNCATED, gray, malformed, unsupported};

const PREDICTOR_NONE: u64 = 1;
const PREDICTOR_HORIZONTAL: u64 = 2;
const PLANAR: u64 = 2;
const FILL_ORDER_REVERSED: u64 = 2;
const T4_TWO_DIMENSIONAL: u64 = 1;
const SAMPLE_FORMAT_UNSIGNED: u64 = 1;
const SAMPLE_FORMAT_FLOAT: u64 = 3;
const SAMPLE_FORMAT_UNDEFINED: u64 = 4;
const ALPHA_ASSOCIATED: u64 = 1;
const ALPHA_UNASSOCIATED: u64 = 2;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Compression {
    None,
    PackBits,
    Lzw,
    Deflate,
    Jpeg,
    /// Modified Huffman, rows aligned to bytes, no end-of-line codes.
    CcittRle,
    Group3 {
        two_dimensional: bool,
    },
    Group4,
}

/// Meaning of the colour samples of a pixel.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Photometric {
    WhiteIsZero,
    BlackIsZero,
    Rgb,
    /// Grey of each palette entry.
    Palette(Vec<u8>),
    /// Amounts of cyan, magenta, yellow and black ink.
    Cmyk,
}

impl Photometric {
    pub(super) fn samples(&self) -> usize {
        match self {
            Self::WhiteIsZero | Self::BlackIsZero | Self::Palette(_) => 1,
            Self::Rgb => 3,
            Self::Cmyk => 4,
        }
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Alpha {
    None,
    /// Transparency that the colours are already multiplied by.
    Associated,
    Unassociated,
}

/// Layout of the samples of a page in the file. A chunk is a strip or a tile.
#[derive(Debug)]
pub(super) struct Layout {
    pub(super) width: u32,
    pub(super) height: u32,
    /// Bits of one sample: 1, 2, 4, 8 or 16.
    pub(super) bits: usize,
    /// Samples of one pixel, extra ones included; never fewer than `photometric` needs.
    pub(super) samples: usize,
    pub(super) photometric: Photometric,
    pub(super) alpha: Alpha,
    pub(super) big_endian: bool,
    /// `true` where each sample has chunks of its own.
    pub(super) planar: bool,
    pub(super) compression: Compression,
    /// Each sample is stored as the difference to its left neighbour.
    pub(super) differences: bool,
    /// `true` where the first pixel of a byte is its lowest bit.
    pub(super) reversed_bits: bool,
    /// JPEG chunks hold YCbCr, of which only the luma is wanted.
    pub(super) jpeg_luma: bool,
    pub(super) jpeg_tables: Vec<u8>,
    pub(super) chunk_width: u32,
    pub(super) chunk_height: u32,
    tiled: bool,
    offsets: Vec<u64>,
    lengths: Vec<u64>,
    pub(super) orientation: Orientation,
    pub(super) more_pages: bool,
}

impl Layout {
    pub(super) fn read(bytes: &[u8]) -> Result<Self, DecodeError> {
        let mut file = Decoder::new(Cursor::new(bytes)).map_err(refusal)?;
        let (width, height) = file.dimensions().map_err(refusal)?;
        let tiled = file.get_chunk_type() == ChunkType::Tile;
        let (chunk_width, chunk_height) = file.chunk_dimensions();
        let more_pages = file.more_images();
        let big_endian = file.byte_order() == ByteOrder::BigEndian;
        let mut tags = Tags(&mut file);

        let compression = compression(&mut tags)?;
        let mut samples = tags.number(Tag::SamplesPerPixel, 1)? as usize;
        let bits = bits(&mut tags, compression)?;
        let (mut photometric, jpeg_luma) = photometric(&mut tags, bits, compression)?;
        if jpeg_luma {
            // The JPEG decoder is asked for luma alone, so a pixel has one sample from here on, whatever the
            // tags say.
            photometric = Photometric::BlackIsZero;
            samples = 1;
        }
        if samples < photometric.samples() || samples > MAX_SAMPLES {
            return Err(unsupported(format!("{samples} samples a pixel")));
        }
        // The predictor belongs to these two compressions; elsewhere the tag says nothing about the samples.
        let differences = matches!(compression, Compression::Lzw | Compression::Deflate)
            && tags.number(Tag::Predictor, PREDICTOR_NONE)? == PREDICTOR_HORIZONTAL;
        if differences && bits < 8 {
            return Err(unsupported(format!(
                "the horizontal predictor on {bits}-bit samples"
            )));
        }
        let alpha = match tags.numbers(Tag::ExtraSamples)?.first() {
            // The tag names an extra sample, but no pixel has room for one.
            Some(_) if samples == photometric.samples() => Alpha::None,
            Some(&ALPHA_ASSOCIATED) => Alpha::Associated,
            Some(&ALPHA_UNASSOCIATED) => Alpha::Unassociated,
            _ => Alpha::None,
        };
        let (offset_tag, length_tag) = if tiled {
            (Tag::TileOffsets, Tag::TileByteCounts)
        } else {
            (Tag::StripOffsets, Tag::StripByteCounts)
        };
        let orientation = u8::try_from(tags.number(Tag::Orientation, 1)?)
            .ok()
            .and_then(Orientation::from_exif)
            .unwrap_or(Orientation::NoTransforms);

        let layout = Self {
            width,
            height,
            bits,
            samples,
            photometric,
            alpha,
            big_endian,
            planar: samples > 1 && tags.number(Tag::PlanarConfiguration, 1)? == PLANAR,
            compression,
            differences,
            reversed_bits: tags.number(Tag::FillOrder, 1)? == FILL_ORDER_REVERSED,
            jpeg_luma,
            jpeg_tables: tags.bytes(Tag::JPEGTables)?,
            chunk_width,
            chunk_height: if tiled {
                chunk_height
            } else {
                // A page in one strip often states the default, 2^32 - 1 rows a strip, which as such would
                // break every limit.
                chunk_height.min(height)
            },
            tiled,
            offsets: tags.numbers(offset_tag)?,
            lengths: tags.numbers(length_tag)?,
            orientation,
            more_pages,
        };
        // `chunk_range` indexes both lists by chunk and plane.
        let wanted = layout.chunks_in_plane() as u64 * layout.planes() as u64;
        if (layout.offsets.len() as u64).min(layout.lengths.len() as u64) >= wanted {
            Ok(layout)
        } else {
            Err(malformed("fewer strips or tiles than the size needs"))
        }
    }

    /// Planes that are stored apart from each other.
    pub(super) fn planes(&self) -> usize {
        if self.planar { self.samples } else { 1 }
    }

    /// Samples of a pixel that lie side by side.
    pub(super) fn interleaved(&self) -> usize {
        if self.planar { 1 } else { self.samples }
    }

    /// Bytes of one decompressed row of a chunk, in one plane.
    pub(super) fn row_bytes(&self) -> usize {
        (self.chunk_width as usize * self.interleaved() * self.bits).div_ceil(8)
    }

    /// Upper bound for the bytes of a decompressed pixel.
    pub(super) fn bytes_per_pixel(&self) -> u64 {
        (self.samples * self.bits).div_ceil(8) as u64
    }

    pub(super) fn is_gray8(&self) -> bool {
        self.bits == 8 && self.samples == 1 && !matches!(self.photometric, Photometric::Palette(_))
    }

    /// Index and number of stored rows of every chunk of a plane.
    pub(super) fn chunks(&self) -> impl Iterator<Item = (usize, usize)> + '_ {
        (0..self.chunks_in_plane()).map(|index| (index, self.chunk_rows(index)))
    }

    /// Rows that a chunk stores. Tiles are padded to full size, the last strip is not.
    pub(super) fn chunk_rows(&self, index: usize) -> usize {
        let rows = self.chunk_height as usize;
        if self.tiled {
            rows
        } else {
            rows.min(self.height as usize - index * rows)
        }
    }

    /// Left and top of a chunk on the page.
    pub(super) fn chunk_origin(&self, index: usize) -> (usize, usize) {
        let across = self.chunks_across();
        (
            index % across * self.chunk_width as usize,
            index / across * self.chunk_height as usize,
        )
    }

    /// Offset and length of a chunk's data in the file.
    pub(super) fn chunk_range(&self, index: usize, plane: usize) -> (u64, u64) {
        let at = plane * self.chunks_in_plane() + index;
        (self.offsets[at], self.lengths[at])
    }

    /// Pixels of all chunks of a plane, those beside the page included.
    pub(super) fn stored_pixels(&self) -> u64 {
        let rows: u64 = if self.tiled {
            u64::from(self.height.div_ceil(self.chunk_height)) * u64::from(self.chunk_height)
        } else {
            u64::from(self.height)
        };
        let columns = self.chunks_across() as u64 * u64::from(self.chunk_width);
        rows.saturating_mul(columns)
    }

    /// Bytes of all chunks that are read, each with the JPEG tables that go before it.
    pub(super) fn stored_bytes(&self) -> u64 {
        let chunks = self.chunks_in_plane() * self.planes();
        let lengths = self.lengths.iter().take(chunks);
        let data = lengths.fold(0, |sum: u64, length| sum.saturating_add(*length));
        let tables = (chunks as u64).saturating_mul(self.jpeg_tables.len() as u64);
        data.saturating_add(tables)
    }

    fn chunks_across(&self) -> usize {
        self.width.div_ceil(self.chunk_width) as usize
    }

    fn chunks_in_plane(&self) -> usize {
        self.chunks_across() * self.height.div_ceil(self.chunk_height) as usize
    }
}

/// More than any scanner writes; a bound on what a forged file can ask for.
const MAX_SAMPLES: usize = 16;

fn compression(tags: &mut Tags<'_, '_>) -> Result<Compression, DecodeError> {
    // No compression has the largest number, so a value out of range ends in the error that names it.
    let number = u16::try_from(tags.number(Tag::Compression, 1)?).unwrap_or(u16::MAX);
    Ok(match CompressionMethod::from_u16_exhaustive(number) {
        CompressionMethod::None => Compression::None,
        CompressionMethod::PackBits => Compression::PackBits,
        CompressionMethod::LZW => Compression::Lzw,
        CompressionMethod::Deflate | CompressionMethod::OldDeflate => Compression::Deflate,
        CompressionMethod::ModernJPEG => Compression::Jpeg,
        CompressionMethod::Huffman => Compression::CcittRle,
        CompressionMethod::Fax3 => {
            let options = tags.number(Tag::Unknown(T4_OPTIONS), 0)?;
            Compression::Group3 {
                two_dimensional: options & T4_TWO_DIMENSIONAL != 0,
            }
        }
        CompressionMethod::Fax4 => Compression::Group4,
        other => return Err(unsupported(format!("{other:?} compression"))),
    })
}

const T4_OPTIONS: u16 = 292;

fn bits(tags: &mut Tags<'_, '_>, compression: Compression) -> Result<usize, DecodeError> {
    for format in tags.numbers(Tag::SampleFormat)? {
        match format {
            SAMPLE_FORMAT_UNSIGNED | SAMPLE_FORMAT_UNDEFINED => {}
            SAMPLE_FORMAT_FLOAT => return Err(unsupported("floating-point samples")),
            _ => return Err(unsupported(format!("sample format {format}"))),
        }
    }
    let bits = tags.numbers(Tag::BitsPerSample)?.first().copied().unwrap_or(1);
    let possible = match compression {
        Compression::Jpeg => bits == 8,
        Compression::CcittRle | Compression::Group3 { .. } | Compression::Group4 => bits == 1,
        _ => matches!(bits, 1 | 2 | 4 | 8 | 16),
    };
    if possible {
        Ok(bits as usize)
    } else {
        Err(unsupported(format!("{bits}-bit samples")))
    }
}

/// The meaning of the samples, and whether they are YCbCr inside JPEG.
fn photometric(
    tags: &mut Tags<'_, '_>,
    bits: usize,
    compression: Compression,
) -> Result<(Photometric, bool), DecodeError> {
    use PhotometricInterpretation as P;
    let number = u16::try_from(tags.number(Tag::PhotometricInterpretation, 0)?).unwrap_or(u16::MAX);
    let photometric = match P::from_u16(number) {
        Some(P::WhiteIsZero) => Photometric::WhiteIsZero,
        Some(P::BlackIsZero) => Photometric::BlackIsZero,
        Some(P::RGB) => Photometric::Rgb,
        Some(P::RGBPalette) if bits <= 8 => Photometric::Palette(palette(tags, bits)?),
        Some(P::CMYK) => Photometric::Cmyk,
        Some(P::YCbCr) if compression == Compression::Jpeg => return Ok((Photometric::BlackIsZero, true)),
        Some(other) => return Err(unsupported(format!("{other:?} colours"))),
        None => return Err(unsupported(format!("colour space {number}"))),
    };
    Ok((photometric, false))
}

/// Reads the palette, three runs of 16-bit values, all reds first. Writers scale 8-bit colours to it by 257 or by 256, which
/// the high byte undoes in either case; some fill only the low byte.
fn palette(tags: &mut Tags<'_, '_>, bits: usize) -> Result<Vec<u8>, DecodeError> {
    let values = tags.numbers(Tag::ColorMap)?;
    // The index of a pixel is at most 2^bits - 1, so with this check each has its grey.
    let entries = 1 << bits;
    if values.len() < 3 * entries {
        return Err(malformed("the palette is too short"));
    }
    let narrow = values.iter().all(|&v| v <= u64::from(u8::MAX));
    let to_u8 = |v: u64| if narrow { v as u8 } else { (v >> 8) as u8 };
    Ok((0..entries)
        .map(|i| gray::luma([values[i], values[i + entries], values[i + 2 * entries]].map(to_u8)))
        .collect())
}

/// Tags of the first directory, in the types that are needed here.
struct Tags<'a, 'b>(&'a mut Decoder<Cursor<&'b [u8]>>);

impl Tags<'_, '_> {
    /// The values of a tag; none if it is absent.
    fn numbers(&mut self, tag: Tag) -> Result<Vec<u64>, DecodeError> {
        Ok(self
            .0
            .find_tag_unsigned_vec(tag)
            .map_err(refusal)?
            .unwrap_or_default())
    }

    fn number(&mut self, tag: Tag, default: u64) -> Result<u64, DecodeError> {
        Ok(self.numbers(tag)?.first().copied().unwrap_or(default))
    }

    fn bytes(&mut self, tag: Tag) -> Result<Vec<u8>, DecodeError> {
        match self.0.find_tag(tag).map_err(refusal)? {
            Some(value) => value.into_u8_vec().map_err(refusal),
            None => Ok(Vec::new()),
        }
    }
}

fn refusal(error: TiffError) -> DecodeError {
    match error {
        TiffError::IoError(e) if e.kind() == ErrorKind::UnexpectedEof => TRUNCATED,
        TiffError::FormatError(TiffFormatError::InvalidDimensions(width, height)) => {
            DecodeError::ZeroDimension { width, height }
        }
        TiffError::UnsupportedError(feature) => unsupported(feature),
        other => malformed(other),
    }
}
