//! Streams that a page uses and that stand for much.

use super::*;

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
    // The library takes the usual ones if those of the document have the wrong shape, or are too few.
    for entries in [
        "/Filter/CCITTFaxDecode/DecodeParms[<</Columns 1/Rows 1>>]",
        "/Filter[/ASCIIHexDecode/CCITTFaxDecode]/DecodeParms[<</Columns 1/Rows 1>>]",
    ] {
        let high = format!("/Width 1/Height 60000/BitsPerComponent 1{entries}");
        let what = refused(with_picture(&high, &[b'0'; 10]));
        assert!(what.contains("pixels"), "{entries}: {what}");
    }
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
