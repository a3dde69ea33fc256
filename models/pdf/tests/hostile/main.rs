//! Documents that are made to cost time and memory. Each gives a page or an error, by what it holds and not by a clock.

#![allow(clippy::unwrap_used, clippy::panic, reason = "a test fails by panicking")]

mod opening;
mod streams;

use std::io::Write;
use std::time::Duration;

use flate2::Compression;
use flate2::write::ZlibEncoder;
use parkhang_pdf::{DEFAULT_DPI, Document, Limits, PdfError};

/// Limits under which a small document is too large, and no clock decides.
fn limits() -> Limits {
    Limits {
        max_picture_pixels: 1_000_000,
        max_picture_bytes: 4_000_000,
        max_stream_bytes: 1_000_000,
        max_contents: 100,
        max_objects: 20_000,
        max_pages: 1_000,
        open_time: Duration::from_secs(600),
        page_time: Duration::from_secs(600),
        ..Limits::default()
    }
}

fn deflated(bytes: &[u8]) -> Vec<u8> {
    let mut encoder = ZlibEncoder::new(Vec::new(), Compression::best());
    encoder.write_all(bytes).unwrap();
    encoder.finish().unwrap()
}

fn stream(entries: &str, data: &[u8]) -> Vec<u8> {
    let head = format!("<<{entries}/Length {}>>stream\n", data.len());
    [head.as_bytes(), data, b"\nendstream"].concat()
}

/// Assembles a file of these objects, numbered from 1, of which the first is the catalog.
fn pdf(objects: &[Vec<u8>]) -> Vec<u8> {
    let mut file = b"%PDF-1.7\n".to_vec();
    let mut table = format!("xref\n0 {}\n0000000000 65535 f \n", objects.len() + 1);
    for (number, object) in (1..).zip(objects) {
        table.push_str(&format!("{:010} 00000 n \n", file.len()));
        file.extend_from_slice(format!("{number} 0 obj\n").as_bytes());
        file.extend_from_slice(object);
        file.extend_from_slice(b"\nendobj\n");
    }
    let (start, size) = (file.len(), objects.len() + 1);
    file.extend_from_slice(table.as_bytes());
    file.extend_from_slice(
        format!("trailer\n<</Size {size}/Root 1 0 R>>\nstartxref\n{start}\n%%EOF").as_bytes(),
    );
    file
}

/// File of two pages: the first with this content and these resources, which may name the objects from 6 on, and an empty one.
fn page(resources: &str, content: Vec<u8>, others: Vec<Vec<u8>>) -> Vec<u8> {
    let page =
        format!("<</Type/Page/Parent 2 0 R/MediaBox[0 0 595 842]/Contents 5 0 R/Resources<<{resources}>>>>");
    let mut objects = vec![
        b"<</Type/Catalog/Pages 2 0 R>>".to_vec(),
        b"<</Type/Pages/Kids[3 0 R 4 0 R]/Count 2>>".to_vec(),
        page.into_bytes(),
        b"<</Type/Page/Parent 2 0 R/MediaBox[0 0 595 842]>>".to_vec(),
        content,
    ];
    objects.extend(others);
    pdf(&objects)
}

fn open(file: Vec<u8>) -> Result<Document, PdfError> {
    Document::open(file.into(), None, &limits())
}

/// Asks all that can be asked of the first page, which must be too large, and of the second, which must be as it is.
fn refused(file: Vec<u8>) -> &'static str {
    let document = open(file).unwrap();
    let errors = [
        document.text(0).err(),
        document.pixels(0, DEFAULT_DPI).err(),
        document.picture(0, 500).err(),
    ];
    let [Some(PdfError::TooLarge { what, .. }), Some(pixels), Some(picture)] = errors else {
        panic!("{errors:?}");
    };
    assert!(matches!(pixels, PdfError::TooLarge { .. }), "{pixels}");
    assert!(matches!(picture, PdfError::TooLarge { .. }), "{picture}");
    document.text(1).unwrap();
    document.pixels(1, 20.0).unwrap();
    what
}

const DRAWN: &[u8] = b"q 595 0 0 842 0 0 cm /I Do Q";
const PICTURE: &str = "/I 6 0 R";

fn with_picture(entries: &str, data: &[u8]) -> Vec<u8> {
    with_picture_named("I", entries, data)
}

fn with_picture_named(name: &str, entries: &str, data: &[u8]) -> Vec<u8> {
    let entries = format!("/Type/XObject/Subtype/Image/ColorSpace/DeviceGray{entries}");
    page(
        &format!("/XObject<</{name} 6 0 R>>"),
        stream("", format!("q 595 0 0 842 0 0 cm /{name} Do Q").as_bytes()),
        vec![stream(&entries, data)],
    )
}

fn lzw(bytes: &[u8]) -> Vec<u8> {
    weezl::encode::Encoder::with_tiff_size_switch(weezl::BitOrder::Msb, 8)
        .encode(bytes)
        .unwrap()
}

#[test]
fn a_picture_that_is_drawn_again_and_again_costs_its_pixels_each_time() {
    let data = deflated(&[0; 250_000]);
    let drawn = DRAWN.repeat(5);
    let entries = "/Type/XObject/Subtype/Image/ColorSpace/DeviceGray/Width 500/Height 500/BitsPerComponent 8/Filter/FlateDecode";
    let file = page(
        &format!("/XObject<<{PICTURE}>>"),
        stream("", &drawn),
        vec![stream(entries, &data)],
    );
    assert_eq!(refused(file), "the number of pixels of the pictures on the page");
}

#[test]
fn what_is_drawn_is_counted_by_its_cost() {
    let form = |name: usize| {
        let entries =
            format!("/Type/XObject/Subtype/Form/BBox[0 0 9 9]/Resources<</XObject<</I {name} 0 R>>>>");
        stream(&entries, b"/I Do /I Do")
    };
    let recursion: Vec<Vec<u8>> = (7..40)
        .map(form)
        .chain([stream("/Subtype/Form/BBox[0 0 9 9]", b"")])
        .collect();
    let tile = "/Type/Pattern/PatternType 1/PaintType 1/TilingType 1/BBox[0 0 600 900]/XStep 1/YStep 1/Resources<<>>";
    let filled = b"/Pattern cs /P scn 0 0 595 842 re f";
    // Glyphs that are contents: each shows two of its own kind, in the font of the page, or draws much.
    let glyph = |procedure: &[u8]| {
        let font = "<</Type/Font/Subtype/Type3/FontBBox[0 0 1000 1000]/FontMatrix[.001 0 0 .001 0 0]/FirstChar 97/LastChar 97\
            /Widths[1000]/Encoding<</Differences[97/a]>>/CharProcs<</a 7 0 R>>>>";
        let shown = stream("", b"BT /F 9 Tf (aaaaaaaaaaaaaaaaaaaaaaaaa) Tj ET");
        page(
            "/Font<</F 6 0 R>>",
            shown,
            vec![font.into(), stream("", procedure)],
        )
    };
    let much = [b"1000 0 d0 ".as_slice(), &b"0 0 9 9 re f ".repeat(1_000)].concat();
    let mask = "/ExtGState<</G<</SMask<</S/Luminosity/G 6 0 R>>>>>>";
    let group = stream(
        "/Subtype/Form/BBox[0 0 595 842]/Group<</S/Transparency/CS/DeviceGray>>",
        b"0 0 595 842 re f",
    );
    for (name, file) in [
        (
            "marks",
            page("", stream("", &b"0 0 9 9 re f ".repeat(21_000)), Vec::new()),
        ),
        (
            "large marks",
            page("", stream("", &b"0 0 595 842 re f ".repeat(3_000)), Vec::new()),
        ),
        (
            "dashes",
            page("", stream("", b"[0.001] 0 d 0 0 m 500 500 l S"), Vec::new()),
        ),
        (
            "tiles",
            page(
                "/Pattern<</P 6 0 R>>",
                stream("", filled),
                vec![stream(tile, b"0 0 1 1 re f")],
            ),
        ),
        (
            "forms",
            page(&format!("/XObject<<{PICTURE}>>"), stream("", b"/I Do"), recursion),
        ),
        ("glyphs in glyphs", glyph(b"1000 0 d0 BT /F 9 Tf (aa) Tj ET")),
        ("large glyphs", glyph(&much)),
        (
            "groups",
            page(
                &format!("/XObject<<{PICTURE}>>"),
                stream("", &b"/I Do ".repeat(1_000)),
                vec![group.clone()],
            ),
        ),
        (
            "masks",
            page(
                mask,
                stream("", &b"q /G gs 0 0 9 9 re f Q ".repeat(1_000)),
                vec![group],
            ),
        ),
    ] {
        let what = refused(file);
        assert!(
            what.starts_with("the number of things on the page"),
            "{name}: {what}"
        );
    }
}

/// A picture for people is bounded as a rendering is, however large the page.
#[test]
fn a_picture_of_a_huge_page_is_small() {
    let objects = [
        b"<</Type/Catalog/Pages 2 0 R>>".to_vec(),
        b"<</Type/Pages/Kids[3 0 R]/Count 1>>".to_vec(),
        b"<</Type/Page/Parent 2 0 R/MediaBox[0 0 14400 14400]>>".to_vec(),
    ];
    let limits = Limits {
        max_rendered_pixels: 250_000,
        ..limits()
    };
    let document = Document::open(pdf(&objects).into(), None, &limits).unwrap();
    assert_eq!(document.picture(0, u16::MAX).unwrap().dimensions(), (500, 500));
}

#[test]
fn pages_that_are_painted_over_and_over_are_refused() {
    let paths = b"0 0 595 842 re f ".repeat(60_000);
    let lines = b"900 w 0 421 m 595 421 l S ".repeat(60_000);
    let pictures = [b"q 595 0 0 842 0 0 cm ".as_slice(), &b"/I Do ".repeat(100_000)].concat();
    let picture = stream(
        "/Type/XObject/Subtype/Image/ColorSpace/DeviceGray/Width 1/Height 1/BitsPerComponent 8",
        b"x",
    );
    for content in [paths, lines, pictures] {
        let content = stream("/Filter/FlateDecode", &deflated(&content));
        let file = page(&format!("/XObject<<{PICTURE}>>"), content, vec![picture.clone()]);
        let limits = Limits {
            page_time: Duration::from_secs(600),
            ..Limits::default()
        };
        let document = Document::open(file.into(), None, &limits).unwrap();
        let error = document.text(0).unwrap_err();
        assert!(matches!(error, PdfError::TooLarge { .. }), "{error}");
    }
}

#[test]
fn a_drawing_of_many_lines_is_rendered() {
    // Each goes from corner to corner, and covers little of the page.
    let lines = b"0.2 w 0 0 m 595 842 l S ".repeat(10_000);
    let content = stream("/Filter/FlateDecode", &deflated(&lines));
    let limits = Limits {
        page_time: Duration::from_secs(600),
        ..Limits::default()
    };
    let document = Document::open(page("", content, Vec::new()).into(), None, &limits).unwrap();
    document.text(0).unwrap();
}
