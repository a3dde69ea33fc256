//! PDFs of pictures.

use std::io::Cursor;

use image::{DynamicImage, GrayImage, ImageFormat, Luma, RgbImage, RgbaImage};
use lopdf::{Document, Object, Stream};
use parkhang_searchable::{BookInfo, PagePicture, PictureBook, PictureError, Spacing, Word};

use crate::reader;

const BOOK: BookInfo<'_> = BookInfo {
    title: "W1-I1 བོད",
    producer: "test",
    language: Some("bo"),
};

fn book(pages: &[(&PagePicture<'_>, &[Word<'_>])]) -> Document {
    let mut book = PictureBook::new(Vec::new(), &BOOK).unwrap();
    for (picture, words) in pages {
        book.add_page(picture, words, Spacing::Written, None).unwrap();
    }
    Document::load_mem(&book.finish().unwrap()).unwrap()
}

/// Picture and media box of a page.
fn picture_of(document: &Document, page: u32) -> (Stream, Vec<f32>) {
    let page = document.get_dictionary(document.get_pages()[&page]).unwrap();
    let media_box = page.get(b"MediaBox").unwrap().as_array().unwrap();
    let media_box = media_box.iter().map(|side| side.as_float().unwrap()).collect();
    let resources = page.get(b"Resources").unwrap().as_dict().unwrap();
    let pictures = resources.get(b"XObject").unwrap().as_dict().unwrap();
    let (_, picture) = document.dereference(pictures.get(b"Picture").unwrap()).unwrap();
    (picture.as_stream().unwrap().clone(), media_box)
}

fn name(stream: &Stream, key: &[u8]) -> String {
    String::from_utf8_lossy(stream.dict.get(key).unwrap().as_name().unwrap()).into_owned()
}

fn file(picture: &DynamicImage, format: ImageFormat) -> Vec<u8> {
    let mut file = Cursor::new(Vec::new());
    picture.write_to(&mut file, format).unwrap();
    file.into_inner()
}

fn gray() -> GrayImage {
    GrayImage::from_fn(60, 30, |x, y| Luma([u8::try_from(4 * x + y / 2).unwrap()]))
}

fn jpeg(dpi: u16) -> Vec<u8> {
    let mut file = Vec::new();
    let mut encoder = jpeg_encoder::Encoder::new(&mut file, 80);
    encoder.set_density(jpeg_encoder::PixelDensity::dpi(dpi));
    encoder
        .encode(&gray(), 60, 30, jpeg_encoder::ColorType::Luma)
        .unwrap();
    file
}

#[test]
fn a_jpeg_stays_as_it_is_and_its_words_lie_in_their_boxes() {
    let file = jpeg(72);
    let picture = PagePicture::from_file(&file).unwrap();
    let words = [
        Word {
            text: "བཀྲ་",
            bbox: [6.0, 3.0, 20.0, 12.0],
            line: 0,
        },
        Word {
            text: "ཤིས།",
            bbox: [20.0, 3.0, 50.0, 12.0],
            line: 0,
        },
    ];
    let mut book = PictureBook::new(Vec::new(), &BOOK).unwrap();
    book.add_page(&picture, &words, Spacing::Written, None).unwrap();
    let written = book.finish().unwrap();
    let document = Document::load_mem(&written).unwrap();
    let (stream, media_box) = picture_of(&document, 1);
    assert_eq!(stream.content, file);
    assert_eq!(name(&stream, b"Filter"), "DCTDecode");
    assert_eq!(name(&stream, b"ColorSpace"), "DeviceGray");
    assert_eq!(media_box, [0.0, 0.0, 60.0, 30.0]);
    let page = reader::read(&written).remove(0);
    assert_eq!(reader::text(&page), "བཀྲ་ཤིས།");
    for (found, expected) in page[0].area.iter().zip([6.0, 18.0, 20.0, 27.0]) {
        assert!((found - expected).abs() < 0.01, "{page:?}");
    }
}

#[test]
fn pages_have_the_size_that_the_resolution_gives() {
    for (dpi, width) in [(72, 60.0), (144, 30.0), (0, 14.4), (1, 14.4)] {
        let file = jpeg(dpi);
        let document = book(&[(&PagePicture::from_file(&file).unwrap(), &[])]);
        let (_, media_box) = picture_of(&document, 1);
        assert!((media_box[2] - width).abs() < 1e-3, "{dpi}: {media_box:?}");
    }
    let long = PagePicture::from_gray(300_000, 1, &[0; 300_000]).unwrap();
    let (_, media_box) = picture_of(&book(&[(&long, &[])]), 1);
    assert_eq!(media_box[2], 14_400.0);
}

#[test]
fn pixels_come_back_from_every_format() {
    let gray = DynamicImage::from(gray());
    let colour = DynamicImage::from(RgbImage::from_fn(50, 20, |x, y| {
        image::Rgb([5 * x, 9 * y, x + y].map(|value| u8::try_from(value).unwrap()))
    }));
    let bilevel = DynamicImage::from(GrayImage::from_fn(13, 5, |x, y| {
        Luma([if (x + y) % 3 == 0 { 0 } else { 255 }])
    }));
    for (original, format) in [
        (&gray, ImageFormat::Png),
        (&gray, ImageFormat::Tiff),
        (&colour, ImageFormat::Png),
        (&colour, ImageFormat::Tiff),
        (&colour, ImageFormat::Bmp),
        (&bilevel, ImageFormat::Tiff),
        (&bilevel, ImageFormat::Bmp),
    ] {
        let file = file(original, format);
        let picture = PagePicture::from_file(&file).unwrap();
        assert_eq!(picture.size(), (original.width(), original.height()));
        let (stream, _) = picture_of(&book(&[(&picture, &[])]), 1);
        let bits = stream.dict.get(b"BitsPerComponent").unwrap().as_i64().unwrap();
        let pixels = stream.decompressed_content().unwrap();
        if bits == 1 {
            let luma = original.to_luma8();
            let row = luma.width().div_ceil(8);
            for (x, y, pixel) in luma.enumerate_pixels() {
                let byte = pixels[(y * row + x / 8) as usize];
                assert_eq!(byte >> (7 - x % 8) & 1, pixel.0[0] / 255, "{x} {y}");
            }
        } else {
            assert_eq!(pixels, original.as_bytes(), "{format:?}");
        }
    }
}

#[test]
fn what_is_transparent_is_paper() {
    let clear = DynamicImage::from(RgbaImage::from_pixel(2, 1, image::Rgba([9, 9, 9, 0])));
    let file = file(&clear, ImageFormat::Png);
    let (stream, _) = picture_of(&book(&[(&PagePicture::from_file(&file).unwrap(), &[])]), 1);
    assert_eq!(stream.decompressed_content().unwrap(), [255; 6]);
}

/// TIFF of one strip in group 4, with the data of all tags within the entries.
fn group_4(strip: &[u8], photometric: u32, strips: u32) -> Vec<u8> {
    let entries: [(u16, u32); 10] = [
        (256, 16),
        (257, 2),
        (258, 1),
        (259, 4),
        (262, photometric),
        (273, 8),
        (277, 1),
        (278, 2),
        (279, u32::try_from(strip.len()).unwrap()),
        (293, strips - 1),
    ];
    let mut file = b"II*\0".to_vec();
    file.extend_from_slice(&u32::try_from(8 + strip.len()).unwrap().to_le_bytes());
    file.extend_from_slice(strip);
    file.extend_from_slice(&10_u16.to_le_bytes());
    for (tag, value) in entries {
        file.extend_from_slice(&tag.to_le_bytes());
        file.extend_from_slice(&4_u16.to_le_bytes());
        file.extend_from_slice(&1_u32.to_le_bytes());
        file.extend_from_slice(&value.to_le_bytes());
    }
    file.extend_from_slice(&[0; 4]);
    file
}

#[test]
fn a_strip_of_group_4_stays_as_it_is() {
    // Two white rows and the end of the block.
    let strip = [0b1100_0000, 0b0000_0100, 0b0000_0000, 0b0100_0000];
    for (photometric, black_is_1) in [(0, false), (1, true)] {
        let file = group_4(&strip, photometric, 1);
        let picture = PagePicture::from_file(&file).unwrap();
        assert_eq!(picture.size(), (16, 2));
        let (stream, _) = picture_of(&book(&[(&picture, &[])]), 1);
        assert_eq!(stream.content, strip);
        assert_eq!(name(&stream, b"Filter"), "CCITTFaxDecode");
        let parameters = stream.dict.get(b"DecodeParms").unwrap().as_dict().unwrap();
        assert_eq!(parameters.get(b"K").unwrap(), &Object::Integer(-1));
        assert_eq!(parameters.get(b"BlackIs1").unwrap(), &Object::Boolean(black_is_1));
    }
}

#[test]
fn what_is_no_picture_is_refused() {
    for bytes in [
        &b""[..],
        b"no picture",
        b"\xff\xd8\xff",
        b"\x89PNG\r\n\x1a\n",
        b"II*\0",
    ] {
        let refused = PagePicture::from_file(bytes);
        assert!(matches!(refused, Err(PictureError::Decode(_))), "{refused:?}");
    }
    let refused = PagePicture::from_gray(3, 2, &[0; 5]);
    assert!(matches!(refused, Err(PictureError::Size { .. })), "{refused:?}");
}

#[test]
fn a_book_of_many_pages_has_a_tree_and_its_notes() {
    let picture = PagePicture::from_gray(10, 10, &[7; 100]).unwrap();
    let mut book = PictureBook::new(Vec::new(), &BOOK).unwrap();
    for number in 0..150 {
        let text = number.to_string();
        let word = Word {
            text: &text,
            bbox: [0.0, 0.0, 5.0, 5.0],
            line: 0,
        };
        book.add_page(&picture, &[word], Spacing::Written, None).unwrap();
    }
    book.add_page_without_picture((0, 0), &[], Spacing::Written, Some("not read: བོད"))
        .unwrap();
    let written = book.finish().unwrap();
    let pages = reader::read(&written);
    assert_eq!(pages.len(), 151);
    assert_eq!(reader::text(&pages[149]), "149");
    let document = Document::load_mem(&written).unwrap();
    let notes = document.get_page_annotations(document.get_pages()[&151]).unwrap();
    let note = lopdf::decode_text_string(notes[0].get(b"Contents").unwrap()).unwrap();
    assert_eq!(note, "not read: བོད");
}
