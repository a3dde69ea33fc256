//! Reads of opening a document: cross-references, streams of objects, trees of pages.

use super::*;

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
    // The library takes the last number before it when it mends cross-references.
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
