//! Documents that are made to cost time and memory. Each gives a page or an error, by what it holds and not by a clock.

#![allow(clippy::unwrap_used, clippy::panic, reason = "a test fails by panicking")]

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
fn bombs_of_deflate_are_refused_before_they_are_inflated() {
    let bomb = deflated(&vec![b' '; 30_000_000]);
    let twice = deflated(&bomb);
    for (filter, data) in [
        ("/Filter/FlateDecode", &bomb),
        ("/Filter[/FlateDecode/FlateDecode]", &twice),
    ] {
        let what = refused(page("", stream(filter, data), Vec::new()));
        assert_eq!(what, "the content of the page in bytes");
        let size = "/Width 100/Height 100/BitsPerComponent 8";
        let what = refused(with_picture(&format!("{size}{filter}"), data));
        assert_eq!(what, "a picture in bytes");
        // A font, by way of its description.
        let fonts = vec![
            b"<</Type/Font/Subtype/TrueType/FontDescriptor 7 0 R>>".to_vec(),
            b"<</Type/FontDescriptor/FontFile2 8 0 R>>".to_vec(),
            stream(filter, data),
        ];
        let shown = stream("", b"BT /F 9 Tf (a) Tj ET");
        assert_eq!(
            refused(page("/Font<</F 6 0 R>>", shown, fonts)),
            "a stream in bytes"
        );
    }
}

#[test]
fn a_name_that_the_document_chooses_hides_nothing() {
    let twice = deflated(&deflated(&vec![b' '; 30_000_000]));
    let filter = "/Filter[/FlateDecode/FlateDecode]";
    for name in [
        "A",
        "AA",
        "P",
        "Parent",
        "Dest",
        "Popup",
        "Metadata",
        "PieceInfo",
        "Resources",
    ] {
        let size = "/Width 100/Height 100/BitsPerComponent 8";
        let what = refused(with_picture_named(name, &format!("{size}{filter}"), &twice));
        assert_eq!(what, "a picture in bytes", "{name}");
        let glyph = format!(
            "<</Type/Font/Subtype/Type3/FontBBox[0 0 9 9]/FontMatrix[.1 0 0 .1 0 0]/FirstChar 97/LastChar 97/Widths[9]\
            /Encoding<</Differences[97/{name}]>>/CharProcs<</{name} 7 0 R>>>>"
        );
        let shown = stream("", format!("BT /{name} 9 Tf (a) Tj ET").as_bytes());
        let resources = format!("/Font<</{name} 6 0 R>>");
        let what = refused(page(
            &resources,
            shown,
            vec![glyph.into(), stream(filter, &twice)],
        ));
        assert_eq!(what, "a stream in bytes", "{name}");
    }
}

#[test]
fn chains_of_filters_are_weighed_to_their_end() {
    let bomb = deflated(&vec![b' '; 30_000_000]);
    let size = "/Width 100/Height 100/BitsPerComponent 8";
    let data = lzw(&deflated(&bomb));
    let what = refused(with_picture(
        &format!("{size}/Filter[/LZWDecode/FlateDecode/FlateDecode]"),
        &data,
    ));
    assert_eq!(what, "a picture in bytes");
    for filters in [
        "[/DCTDecode/RunLengthDecode]",
        "[/JPXDecode/FlateDecode]",
        "[/CCITTFaxDecode/CCITTFaxDecode]",
    ] {
        let document = open(with_picture(&format!("{size}/Filter{filters}"), &bomb)).unwrap();
        let error = document.text(0).unwrap_err();
        assert!(
            error.to_string().contains("a filter follows one of pictures"),
            "{filters}: {error}"
        );
        document.text(1).unwrap();
    }
}

#[test]
fn parameters_of_a_picture_are_found_whatever_their_shape() {
    let small = "/Width 100/Height 100/BitsPerComponent 1";
    let large = "<</K -1/Columns 60000/Rows 60000>>";
    for entries in [
        format!("/Filter/CCITTFaxDecode/DP{large}/DecodeParms<<>>"),
        format!("/Filter[/CCITTFaxDecode]/DecodeParms[{large}<</Columns 8/Rows 8>>]"),
        format!("/F/CCF/DP{large}"),
    ] {
        let what = refused(with_picture(&format!("{small}{entries}"), &[0; 10]));
        assert!(what.contains("pixels"), "{entries}: {what}");
    }
    // Of the wrong shape: the library takes the usual ones.
    let high =
        "/Width 1/Height 60000/BitsPerComponent 1/Filter/CCITTFaxDecode/DecodeParms[<</Columns 1/Rows 1>>]";
    assert!(refused(with_picture(high, &[0; 10])).contains("pixels"));
}

#[test]
fn pictures_in_the_content_itself_are_weighed() {
    let bomb = deflated(&vec![0; 30_000_000]);
    let inline = |entries: &str, data: &[u8]| {
        let head = format!("q 595 0 0 842 0 0 cm BI /W 1/H 1/BPC 8/CS/G{entries} ID ");
        [head.as_bytes(), data, b" EI Q"].concat()
    };
    let form = "/Subtype/Form/BBox[0 0 595 842]";
    for (entries, data, expected) in [
        ("/F/Fl", bomb, "a picture in bytes"),
        (
            "/F/CCF/DP<</K -1/Columns 60000/Rows 60000>>",
            vec![0; 10],
            "the number of pixels of a picture",
        ),
    ] {
        let content = inline(entries, &data);
        assert_eq!(refused(page("", stream("", &content), Vec::new())), expected);
        let forms = vec![stream(form, &content)];
        let file = page(&format!("/XObject<<{PICTURE}>>"), stream("", b"/I Do"), forms);
        assert_eq!(refused(file), expected);
    }
    let small = stream("", &inline("", b"x").repeat(9));
    open(page("", small, Vec::new()))
        .unwrap()
        .pixels(0, 20.0)
        .unwrap();
}

#[test]
fn a_content_that_repeats_one_stream_is_as_long_as_all() {
    let contents = [b"[".as_slice(), &b"6 0 R ".repeat(60), b"]"].concat();
    let content = b"q Q ".repeat(10_000);
    for repeated in [
        stream("", &content),
        stream("/Filter/FlateDecode", &deflated(&content)),
    ] {
        let what = refused(page("", contents.clone(), vec![repeated]));
        assert_eq!(what, "the content of the page in bytes");
    }
}

#[test]
fn pictures_of_absurd_sizes_are_refused_by_their_headers() {
    let number =
        |numbers: &[u32]| -> Vec<u8> { numbers.iter().flat_map(|number| number.to_be_bytes()).collect() };
    let small = "/Width 100/Height 100/BitsPerComponent 8";
    let side = 60_000;
    // Page and generic region, ISO 14492.
    let region = [number(&[side, side, 0, 0]), vec![0; 30]].concat();
    let jbig2 = [
        number(&[0]),
        vec![48, 0, 1],
        number(&[19, side, side, 0, 0]),
        vec![0; 3],
        number(&[1]),
        vec![38, 0, 1],
        number(&[region.len() as u32]),
        region,
    ];
    // SOC and SIZ, ISO 15444-1: a large picture, and one of tiles of a pixel.
    let jpx = |side: u32, tile: u32| {
        let size = [
            vec![0xff, 0x4f, 0xff, 0x51, 0, 41, 0, 0],
            number(&[side, side, 0, 0, tile, tile, 0, 0]),
        ];
        [size.concat(), vec![0, 1, 7, 1, 1]].concat()
    };
    let fax = "/Filter/CCITTFaxDecode/DecodeParms<</K -1/Columns 60000/Rows 60000>>";
    for (entries, data) in [
        (
            format!("/Width {side}/Height {side}/BitsPerComponent 8"),
            vec![0; 10],
        ),
        (format!("{small}/Filter/JBIG2Decode"), jbig2.concat()),
        (format!("{small}/Filter/JPXDecode"), jpx(side, side)),
        (format!("{small}/Filter/JPXDecode"), jpx(900, 1)),
        (format!("{small}{fax}"), vec![0; 10]),
    ] {
        let what = refused(with_picture(&entries, &data));
        assert!(what.contains("pixels"), "{entries}: {what}");
    }
}

#[test]
fn symbols_and_patterns_that_a_picture_declares_are_refused() {
    let number = |number: u32| number.to_be_bytes().to_vec();
    let segment = |kind: u8, data: &[Vec<u8>]| {
        let data = data.concat();
        [number(1), vec![kind, 0, 1], number(data.len() as u32), data].concat()
    };
    let region = [number(50), number(50), number(0), number(0), vec![0]].concat();
    let huffman = vec![0, 1];
    let padding = vec![0; 2_000];
    for (wanted, data) in [
        (
            "symbols",
            segment(0, &[huffman.clone(), number(1), number(1 << 20)]),
        ),
        (
            "symbols",
            segment(0, &[huffman.clone(), number(1 << 20), number(1), padding.clone()]),
        ),
        (
            "symbols",
            segment(0, &[huffman.clone(), number(1), number(21_000), padding.clone()]),
        ),
        (
            "symbols",
            segment(6, &[region.clone(), vec![0; 2], number(21_000), padding]),
        ),
        ("pixels", segment(16, &[vec![0, 255, 255], number(1_000)])),
        (
            "pixels",
            segment(22, &[region, vec![0], number(60_000), number(60_000)]),
        ),
    ] {
        let entries = "/Type/XObject/Subtype/Image/ColorSpace/DeviceGray/Width 50/Height 50/BitsPerComponent 1/Filter/JBIG2Decode";
        let own = stream(entries, &data);
        let shared = stream(&format!("{entries}/DecodeParms<</JBIG2Globals 7 0 R>>"), b"");
        for picture in [vec![own], vec![shared, stream("", &data)]] {
            let file = page(&format!("/XObject<<{PICTURE}>>"), stream("", DRAWN), picture);
            let what = refused(file);
            assert!(what.contains(wanted), "{wanted}: {what}");
        }
    }
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

#[test]
fn streams_that_opening_decodes_are_refused() {
    let bomb = deflated(&vec![b'1'; 30_000_000]);
    for (entries, data) in [
        ("/Type/ObjStm/N 1000000/First 5/Filter/FlateDecode", bomb.clone()),
        (
            "/Type/XRef/W[1 4 2]/Size 4000000/Filter/FlateDecode",
            bomb.clone(),
        ),
        (
            "/Type/Obj#53tm/N 9/First 5/Filter[/FlateDecode/FlateDecode]",
            deflated(&bomb),
        ),
        // Cross-references of no type, and a type with what looks like the beginning of another object behind it.
        ("/W[1 4 2]/Size 9/Filter/FlateDecode", bomb.clone()),
        (
            "/Type/ObjStm/N 9/First 5/Filter/FlateDecode/X( obj<</Y 1%)\n",
            bomb.clone(),
        ),
        // Behind so much that a look at the bytes before the data does not show it.
        (
            &format!(
                "/Type/ObjStm/N 9/First 5/Filter/FlateDecode/X({})",
                " ".repeat(9_000)
            ),
            bomb.clone(),
        ),
    ] {
        let file = page("", stream("", b""), vec![stream(entries, &data)]);
        let error = open(file).unwrap_err();
        assert!(matches!(error, PdfError::TooLarge { .. }), "{entries}: {error}");
    }
}

#[test]
fn a_stream_is_weighed_if_cross_references_lead_to_it() {
    let bomb = deflated(&vec![b'1'; 30_000_000]);
    let picture = "/Type/XObject/Subtype/Image/Width 1/Height 1/Filter/FlateDecode";
    // Rows of a kind, a number of two bytes, and a place: object 6 is free, and objects lie in 6.
    for (row, is_refused) in [([0, 0, 6, 0], false), ([2, 0, 6, 0], true)] {
        let references = stream("/W[1 2 1]/Size 9", &row);
        let file = page("", stream("", b""), vec![stream(picture, &bomb), references]);
        let opened = open(file).map(|document| document.page_count());
        match opened {
            Err(PdfError::TooLarge { what, .. }) if is_refused => {
                assert_eq!(what, "a stream of its objects in bytes");
            }
            Ok(2) if !is_refused => {}
            other => panic!("{row:?}: {other:?}"),
        }
    }
    // As broken cross-references are mended, objects are looked for by the last number before.
    let unnumbered = b"<</Type/ObjStm/N 1/First 5/Length 1>>stream\nx\nendstream";
    let file = page("", stream("", b""), vec![[b"7 ".as_slice(), unnumbered].concat()]);
    let error = open(file).unwrap_err();
    assert!(error.to_string().contains("no number before it"), "{error}");
}

#[test]
fn streams_of_objects_are_bounded_together() {
    let objects = stream(
        "/Type/ObjStm/N 1/First 5/Filter/FlateDecode",
        &deflated(&vec![b'1'; 900_000]),
    );
    let file = |count: usize| page("", stream("", b""), vec![objects.clone(); count]);
    assert_eq!(open(file(4)).unwrap().page_count(), 2);
    let error = open(file(5)).unwrap_err();
    assert!(
        error.to_string().contains("the streams of its objects"),
        "{error}"
    );
}

#[test]
fn streams_of_objects_that_cannot_be_looked_into_are_bounded_by_their_length() {
    let file = |entries: &str, length: usize| {
        let objects = stream(&format!("/Type/ObjStm/N 1/First 5{entries}"), &vec![b'x'; length]);
        page("", stream("", b""), vec![objects, b"[/FlateDecode]".to_vec()])
    };
    let encrypted = |file: Vec<u8>| {
        let text = String::from_utf8(file).unwrap();
        text.replace("/Root", "/Encr#79pt<</Filter/Standard/V 9>>/Root")
            .into_bytes()
    };
    let flate = "/Filter/FlateDecode";
    assert_eq!(open(file(flate, 2_000)).unwrap().page_count(), 2);
    for too_large in [file(flate, 2_000), file("/Filter[/FlateDecode/FlateDecode]", 10)] {
        let error = open(encrypted(too_large)).unwrap_err();
        assert!(matches!(error, PdfError::TooLarge { .. }), "{error}");
    }
    let error = open(encrypted(file(flate, 900))).unwrap_err();
    assert!(
        matches!(error, PdfError::Damaged { .. }),
        "nobody knows this encryption: {error}"
    );

    let error = open(file("/Filter 7 0 R", 10)).unwrap_err();
    assert!(matches!(error, PdfError::Damaged { .. }), "{error}");
    assert!(error.to_string().contains("filters"), "{error}");
}

#[test]
fn trees_and_references_in_circles_end() {
    let catalog = b"<</Type/Catalog/Pages 2 0 R>>".to_vec();
    let leaf = b"<</Type/Page/Parent 2 0 R/MediaBox[0 0 9 9]>>".to_vec();
    let circle = pdf(&[
        catalog.clone(),
        b"<</Type/Pages/Kids[3 0 R 4 0 R]/Count 2>>".to_vec(),
        b"<</Type/Pages/Kids[2 0 R 3 0 R]/Count 9>>".to_vec(),
        leaf.clone(),
    ]);
    assert_eq!(open(circle).unwrap().page_count(), 1);

    let mut kids = b"<</Type/Pages/Count 9/Kids[".to_vec();
    kids.extend(b"<</Type/Page/MediaBox[0 0 9 9]>>".repeat(2_500));
    kids.extend(b"]>>");
    let error = open(pdf(&[catalog.clone(), kids])).unwrap_err();
    assert!(matches!(error, PdfError::TooLarge { .. }), "{error}");

    let depth = 50_000;
    let mut deep = b"<</Type/Pages/Kids[".repeat(depth);
    deep.extend(b"]>>".repeat(depth));
    // A tree that is too deep is not looked into.
    let error = open(pdf(&[catalog, deep])).unwrap_err();
    assert!(
        matches!(error, PdfError::Empty | PdfError::Damaged { .. }),
        "{error}"
    );

    let content = page("", b"6 0 R".to_vec(), vec![b"5 0 R".to_vec()]);
    let _ = open(content).unwrap().text(0).unwrap();
    let form = stream(
        "/Subtype/Form/BBox[0 0 9 9]/Resources<</XObject<</I 6 0 R>>>>",
        b"/I Do",
    );
    let file = page(
        &format!("/XObject<<{PICTURE}>>"),
        stream("", b"/I Do"),
        vec![form],
    );
    let _ = open(file).unwrap().pixels(0, 20.0).unwrap();
}

#[test]
fn a_chain_of_cross_references_that_is_a_circle_ends() {
    let mut file = page("", stream("", b""), Vec::new());
    let start = file.windows(4).rposition(|window| window == b"xref").unwrap();
    let start = file[..start]
        .windows(4)
        .rposition(|window| window == b"xref")
        .unwrap_or(start);
    let text = String::from_utf8(file.split_off(start)).unwrap();
    file.extend(text.replace("/Root", &format!("/Prev {start}/Root")).into_bytes());
    assert_eq!(open(file).unwrap().page_count(), 2);
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
