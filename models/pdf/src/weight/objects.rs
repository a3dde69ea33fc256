//! Streams that a page uses, by whatever way it refers to them.

use std::borrow::Cow;
use std::collections::HashSet;
use std::sync::{Mutex, MutexGuard, PoisonError};

use hayro_syntax::Filter;
use hayro_syntax::object::{Array, Dict, MaybeRef, Object, ObjectIdentifier, Stream};
use hayro_syntax::page::Page;
use parkhang_cv::decode::probe_page;

use super::filters::{Decoded, decoded, is_light, is_of_pictures};
use super::jbig2;
use crate::limits::within;
use crate::{Limits, PdfError};

/// Marker that begins a JPEG.
const JPEG: &[u8] = &[0xff, 0xd8];

/// Objects of a document that were looked at and are not too heavy.
#[derive(Debug, Default)]
pub(crate) struct Checked(Mutex<HashSet<(u32, i32)>>);

/// Checks what drawing a page would decode, but for pictures that stand in contents ([`check_inline_picture`]).
///
/// # Errors
///
/// [`PdfError::TooLarge`], and [`PdfError::Damaged`] where a filter follows one of pictures.
pub(crate) fn check_page(page: &Page<'_>, limits: &Limits, checked: &Checked) -> Result<(), PdfError> {
    check_contents(page, limits)?;
    let mut walk = Walk {
        checked,
        new: HashSet::new(),
        queue: Vec::new(),
    };
    let resources = page.resources();
    for dict in [
        &resources.ext_g_states,
        &resources.fonts,
        &resources.color_spaces,
        &resources.x_objects,
        &resources.patterns,
        &resources.shadings,
    ] {
        walk.queue.push(Object::Dict(dict.clone()));
    }
    if let Some(annotations) = page.raw().get::<Array<'_>>(b"Annots".as_slice()) {
        let appearances = annotations
            .iter::<Dict<'_>>()
            .filter_map(|annotation| annotation.get::<Object<'_>>(b"AP".as_slice()));
        walk.queue.extend(appearances);
    }
    let mut looked = 0;
    while let Some(object) = walk.queue.pop() {
        looked += 1;
        within("the number of its objects", looked, limits.max_objects as u64)?;
        match &object {
            Object::Stream(stream) => {
                check_stream(stream, limits)?;
                walk.follow_dict(stream.dict(), page);
            }
            Object::Dict(dict) => walk.follow_dict(dict, page),
            Object::Array(array) => {
                for item in array.raw_iter() {
                    walk.follow(item, page);
                }
            }
            _ => {}
        }
    }
    checked.lock().extend(walk.new);
    Ok(())
}

impl Checked {
    fn lock(&self) -> MutexGuard<'_, HashSet<(u32, i32)>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

struct Walk<'a, 'c> {
    checked: &'c Checked,
    new: HashSet<(u32, i32)>,
    queue: Vec<Object<'a>>,
}

impl<'a> Walk<'a, '_> {
    fn follow_dict(&mut self, dict: &Dict<'a>, page: &Page<'a>) {
        // Whatever the key: those of resources are names that the document chooses.
        for (_, value) in dict.entries() {
            self.follow(value, page);
        }
    }

    fn follow(&mut self, value: MaybeRef<Object<'a>>, page: &Page<'a>) {
        let object = match value {
            MaybeRef::NotRef(object) => object,
            MaybeRef::Ref(reference) => {
                let id = ObjectIdentifier::from(reference);
                let name = (id.obj_number, id.gen_number);
                if !self.new.insert(name) || self.checked.lock().contains(&name) {
                    return;
                }
                match page.xref().get::<Object<'a>>(id) {
                    Some(object) => object,
                    None => return,
                }
            }
        };
        if matches!(object, Object::Dict(_) | Object::Array(_) | Object::Stream(_)) {
            self.queue.push(object);
        }
    }
}

/// Checks the content of a page, in which a stream may stand many times.
fn check_contents(page: &Page<'_>, limits: &Limits) -> Result<(), PdfError> {
    let what = "the content of the page in bytes";
    let mut sum = 0;
    let mut add = |stream: &Stream<'_>| {
        let length = match decoded(stream.raw_data(), &stream.filters(), limits.max_stream_bytes) {
            Decoded::Bytes(bytes) => bytes.len() as u64,
            Decoded::Length(length) => length,
        };
        sum += length;
        within(what, sum, limits.max_stream_bytes)
    };
    match page.raw().get::<Object<'_>>(b"Contents".as_slice()) {
        Some(Object::Stream(stream)) => add(&stream),
        Some(Object::Array(array)) => {
            within(
                "the number of its contents",
                array.raw_iter().count() as u64,
                limits.max_contents,
            )?;
            array.iter::<Stream<'_>>().try_for_each(|stream| add(&stream))
        }
        _ => Ok(()),
    }
}

/// Checks a picture that is drawn, if it stands in the content itself: no object leads to it.
///
/// # Errors
///
/// Those of [`check_page`].
pub(crate) fn check_inline_picture(stream: &Stream<'_>, limits: &Limits) -> Result<(), PdfError> {
    // The library's number of a stream that is no object.
    if stream.obj_id() == ObjectIdentifier::new(0, 0) {
        check_stream(stream, limits)?;
    }
    Ok(())
}

fn check_stream(stream: &Stream<'_>, limits: &Limits) -> Result<(), PdfError> {
    let dict = stream.dict();
    let side = |long: &[u8], short: &[u8]| dict.get::<u32>(long).or_else(|| dict.get::<u32>(short));
    let sides = side(b"Width", b"W").zip(side(b"Height", b"H"));
    let filters = stream.filters();
    if filters.iter().rev().skip(1).any(is_of_pictures) {
        // Nothing bounds how much it makes of the pixels.
        return Err(PdfError::damaged("a filter follows one of pictures"));
    }
    let (what, limit) = match sides {
        Some(_) => ("a picture in bytes", limits.max_picture_bytes),
        None => ("a stream in bytes", limits.max_stream_bytes),
    };
    let pixels = |width: u32, height: u32| {
        within(
            "the number of pixels of a picture",
            u64::from(width) * u64::from(height),
            limits.max_picture_pixels,
        )
    };
    let raw = stream.raw_data();
    if is_light(&raw, &filters, limit) {
        return Ok(());
    }
    let data = match decoded(raw, &filters, limit) {
        Decoded::Length(length) => return within(what, length, limit),
        Decoded::Bytes(bytes) => bytes,
    };
    within(what, data.len() as u64, limit)?;
    match filters.last() {
        // The filter makes nothing of what is no JPEG.
        Some(Filter::DctDecode) if !data.starts_with(JPEG) => Ok(()),
        Some(Filter::DctDecode) => match probe_page(&data) {
            Ok(header) => pixels(header.width, header.height),
            // Without a header there are no pixels.
            Err(_) => Ok(()),
        },
        Some(Filter::JpxDecode) => match jpx_sides(&data) {
            Some((width, height)) => pixels(width, height),
            None => Ok(()),
        },
        Some(Filter::Jbig2Decode) => parameters(dict).iter().try_for_each(|parameters| {
            let globals = parameters.get::<Stream<'_>>(b"JBIG2Globals".as_slice());
            let globals = globals.map(|globals| bytes_of(&globals, limits)).transpose()?;
            jbig2::check(&[&globals.unwrap_or_default(), &data], limits)
        }),
        Some(Filter::CcittFaxDecode) => parameters(dict).iter().try_for_each(|parameters| {
            let columns = parameters.get::<u32>(b"Columns".as_slice()).unwrap_or(1728);
            let rows = parameters.get::<u32>(b"Rows".as_slice());
            let rows = rows.or(sides.map(|(_, height)| height)).unwrap_or(0);
            pixels(columns, rows)
        }),
        _ => Ok(()),
    }
}

/// Bytes of a stream that is not too long; none of one that cannot be decoded.
fn bytes_of(stream: &Stream<'_>, limits: &Limits) -> Result<Vec<u8>, PdfError> {
    match decoded(stream.raw_data(), &stream.filters(), limits.max_stream_bytes) {
        Decoded::Bytes(bytes) => Ok(bytes.into_owned()),
        Decoded::Length(length) => {
            within("a stream in bytes", length, limits.max_stream_bytes)?;
            let bytes = stream.decoded_data().map(Cow::into_owned);
            Ok(bytes.unwrap_or_default())
        }
    }
}

/// Parameters that may be those of the last filter of a stream: a document may give some of the wrong shape or number, of which the library
/// takes others, or none.
fn parameters<'a>(dict: &Dict<'a>) -> Vec<Dict<'a>> {
    let filters = [b"F".as_slice(), b"Filter"]
        .iter()
        .find_map(|key| dict.get::<Array<'_>>(key))
        .map(|filters| filters.raw_iter().count());
    let mut found = Vec::new();
    let mut is_told = false;
    for key in [b"DP".as_slice(), b"DecodeParms"] {
        if let Some(one) = dict.get::<Dict<'a>>(key) {
            is_told |= filters.is_none();
            found.push(one);
        } else if let Some(list) = dict.get::<Array<'a>>(key) {
            let items: Vec<Option<Dict<'a>>> = list.iter::<Object<'a>>().map(Object::into_dict).collect();
            is_told |=
                filters.is_some_and(|filters| filters <= items.len()) && items.iter().all(Option::is_some);
            found.extend(items.into_iter().flatten());
        }
    }
    if !is_told || found.is_empty() {
        found.push(Dict::empty());
    }
    found
}

/// Width and height of a JPEG 2000 picture, from the SIZ marker of its code stream (ISO 15444-1, A.5.1). A picture of too many tiles counts
/// as one of too many pixels, as each tile costs as much as many pixels.
fn jpx_sides(data: &[u8]) -> Option<(u32, u32)> {
    let start = data
        .windows(4)
        .position(|window| window == [0xff, 0x4f, 0xff, 0x51])?;
    let number = |place: usize| {
        let at = start + 8 + 4 * place;
        let bytes = data.get(at..at + 4)?;
        Some(u32::from_be_bytes(bytes.try_into().ok()?))
    };
    let (width, height) = (
        number(0)?.saturating_sub(number(2)?),
        number(1)?.saturating_sub(number(3)?),
    );
    let tiles = |side: u32, tile: u32| u64::from(side).div_ceil(u64::from(tile.max(1)));
    let count = tiles(width, number(4)?) * tiles(height, number(5)?);
    // The standard has numbers for no more.
    if count > 65_535 {
        return Some((u32::MAX, u32::MAX));
    }
    Some((width, height))
}
