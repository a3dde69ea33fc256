//! Pictures of pages, as a PDF holds them: the data of the file where a PDF knows its compression, else their pixels, deflated.

mod jpeg;
mod pixels;
mod png;
mod tiff;

use std::borrow::Cow;
use std::io::Cursor;

use image::metadata::Orientation;
use image::{ImageDecoder, ImageReader};
use pdf_writer::{Chunk, Filter, Finish, Name, Ref};

use crate::error::PictureError;

/// Resolution of scans that state none, or none that a scanner has, in pixels an inch.
pub(crate) const USUAL_DPI: f64 = 300.0;
const LIKELY_DPI: std::ops::RangeInclusive<f64> = 50.0..=2400.0;

/// Picture of a page.
#[derive(Debug, Clone)]
pub struct PagePicture<'a> {
    /// Pixels in a row, before orientation.
    width: u32,
    height: u32,
    /// Pixels an inch across and down, before orientation.
    dpi: [f64; 2],
    orientation: Orientation,
    data: Data<'a>,
}

/// Encoded pixels, with what a PDF must know of them.
#[derive(Debug, Clone)]
enum Data<'a> {
    /// JPEG file.
    Jpeg {
        file: &'a [u8],
        colours: Colours,
        is_inverted: bool,
    },
    /// Strip of CCITT group 4.
    Group4 { strip: &'a [u8], black_is_1: bool },
    /// zlib stream of rows, each with a PNG filter.
    Png {
        stream: Vec<u8>,
        bits: u8,
        colours: Colours,
        /// Colours of the indices, three bytes each.
        palette: Option<&'a [u8]>,
    },
    /// zlib stream of rows.
    Deflated {
        stream: Vec<u8>,
        bits: u8,
        colours: Colours,
    },
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Colours {
    Gray,
    Rgb,
    Cmyk,
}

/// Resolution and data of a file that goes into a PDF as it is.
#[derive(Debug)]
struct Embedded<'a> {
    width: u32,
    height: u32,
    dpi: Option<[f64; 2]>,
    data: Data<'a>,
}

impl<'a> PagePicture<'a> {
    /// Takes the file of a picture. JPEG, PNG without transparency or interlacing, and TIFF of one strip in group 4 keep their data; other
    /// files are decoded, in at most half a gigabyte of memory.
    ///
    /// # Errors
    ///
    /// [`PictureError::Decode`] for what is no picture, or one that needs decoding and cannot be decoded.
    pub fn from_file(file: &'a [u8]) -> Result<Self, PictureError> {
        let stated = tiff::resolution(file);
        let embedded = jpeg::embedded(file)
            .or_else(|| png::embedded(file))
            .or_else(|| tiff::embedded(file));
        let orientation = orientation(file);
        let embedded = match embedded {
            Some(embedded) => embedded,
            None => pixels::decoded(file)?,
        };
        Ok(Self {
            width: embedded.width,
            height: embedded.height,
            dpi: likely(embedded.dpi.or(stated)),
            orientation,
            data: embedded.data,
        })
    }

    /// Takes pixels in grey, one byte each, row after row, and upright.
    ///
    /// # Errors
    ///
    /// [`PictureError::Size`] if there are not `width` times `height` of them, or none.
    pub fn from_gray(width: u32, height: u32, pixels: &[u8]) -> Result<PagePicture<'static>, PictureError> {
        let expected = width as usize * height as usize;
        if pixels.len() != expected || expected == 0 {
            return Err(PictureError::Size {
                width,
                height,
                expected: pixels.len(),
            });
        }
        Ok(PagePicture {
            width,
            height,
            dpi: likely(None),
            orientation: Orientation::NoTransforms,
            data: pixels::deflated_gray(width, pixels),
        })
    }

    /// Width and height in pixels as displayed, after the orientation that the file states.
    pub fn size(&self) -> (u32, u32) {
        if self.is_turned() {
            (self.height, self.width)
        } else {
            (self.width, self.height)
        }
    }

    /// Pixels an inch across and down as displayed.
    pub(crate) fn dpi(&self) -> [f64; 2] {
        let [across, down] = self.dpi;
        if self.is_turned() {
            [down, across]
        } else {
            [across, down]
        }
    }

    fn is_turned(&self) -> bool {
        use Orientation::{Rotate90, Rotate90FlipH, Rotate270, Rotate270FlipH};
        matches!(
            self.orientation,
            Rotate90 | Rotate270 | Rotate90FlipH | Rotate270FlipH
        )
    }

    /// Matrix that draws the picture, which is a unit square, upright on a page of this size in points.
    pub(crate) fn placement(&self, width: f64, height: f64) -> [f64; 6] {
        match self.orientation {
            Orientation::NoTransforms => [width, 0.0, 0.0, height, 0.0, 0.0],
            Orientation::FlipHorizontal => [-width, 0.0, 0.0, height, width, 0.0],
            Orientation::Rotate180 => [-width, 0.0, 0.0, -height, width, height],
            Orientation::FlipVertical => [width, 0.0, 0.0, -height, 0.0, height],
            Orientation::Rotate90 => [0.0, -height, width, 0.0, 0.0, height],
            Orientation::Rotate270 => [0.0, height, -width, 0.0, width, 0.0],
            Orientation::Rotate90FlipH => [0.0, -height, -width, 0.0, width, height],
            Orientation::Rotate270FlipH => [0.0, height, width, 0.0, 0.0, 0.0],
        }
    }

    /// Makes the object of the picture.
    pub(crate) fn object(&self, id: Ref) -> Chunk {
        let bytes: Cow<'_, [u8]> = match &self.data {
            Data::Jpeg { file, .. } => Cow::Borrowed(file),
            Data::Group4 { strip, .. } => Cow::Borrowed(strip),
            Data::Png { stream, .. } | Data::Deflated { stream, .. } => Cow::Borrowed(stream),
        };
        let [width, height] = [self.width, self.height].map(|side| i32::try_from(side).unwrap_or(i32::MAX));
        let mut chunk = Chunk::with_capacity(bytes.len() + 1024);
        let mut picture = chunk.image_xobject(id, &bytes);
        picture.width(width).height(height);
        match &self.data {
            Data::Jpeg {
                colours, is_inverted, ..
            } => {
                picture.bits_per_component(8).filter(Filter::DctDecode);
                picture.color_space_name(colours.name());
                if *is_inverted {
                    picture.decode([1.0, 0.0, 1.0, 0.0, 1.0, 0.0, 1.0, 0.0]);
                }
            }
            Data::Group4 { black_is_1, .. } => {
                picture.bits_per_component(1).filter(Filter::CcittFaxDecode);
                picture.color_space_name(Colours::Gray.name());
                picture
                    .decode_parms()
                    .k(-1)
                    .columns(width)
                    .rows(height)
                    .black_is_1(*black_is_1);
            }
            Data::Png {
                bits,
                colours,
                palette,
                ..
            } => {
                picture
                    .bits_per_component((*bits).into())
                    .filter(Filter::FlateDecode);
                if let Some(palette) = palette {
                    let last = i32::try_from(palette.len() / 3).unwrap_or(256) - 1;
                    picture.color_space().indexed(Colours::Rgb.name(), last, palette);
                } else {
                    picture.color_space_name(colours.name());
                }
                picture
                    .decode_parms()
                    .predictor(pdf_writer::types::Predictor::PngOptimum)
                    .colors(colours.samples())
                    .bits_per_component((*bits).into())
                    .columns(width);
            }
            Data::Deflated { bits, colours, .. } => {
                picture
                    .bits_per_component((*bits).into())
                    .filter(Filter::FlateDecode);
                picture.color_space_name(colours.name());
            }
        }
        picture.finish();
        chunk
    }
}

impl Colours {
    fn name(self) -> Name<'static> {
        Name(match self {
            Self::Gray => b"DeviceGray",
            Self::Rgb => b"DeviceRGB",
            Self::Cmyk => b"DeviceCMYK",
        })
    }

    fn samples(self) -> i32 {
        match self {
            Self::Gray => 1,
            Self::Rgb => 3,
            Self::Cmyk => 4,
        }
    }
}

fn likely(stated: Option<[f64; 2]>) -> [f64; 2] {
    stated
        .filter(|dpi| dpi.iter().all(|dpi| LIKELY_DPI.contains(dpi)))
        .unwrap_or([USUAL_DPI; 2])
}

/// Orientation that the file states in EXIF or in a tag.
fn orientation(file: &[u8]) -> Orientation {
    let decoder = ImageReader::new(Cursor::new(file))
        .with_guessed_format()
        .ok()
        .and_then(|reader| reader.into_decoder().ok());
    decoder
        .and_then(|mut decoder| decoder.orientation().ok())
        .unwrap_or(Orientation::NoTransforms)
}
