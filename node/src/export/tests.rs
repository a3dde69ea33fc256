//! The formats beside each other: all tell the same text, within the same page.

use parkhang_models::page::geometry::Point;
use proptest::prelude::*;
use roxmltree::{Document, Node, ParsingOptions};

use super::document::{LineDocument, PageDocument, RegionDocument, SegmentDocument, VolumeDocument};
use super::scanned::Scanned;
use super::{alto, hocr, lines, pagexml};

/// A page of two lines: one in two segments, one whose segments spell something else, with an outline that leaves the page.
pub fn page() -> PageDocument {
    PageDocument {
        image_name: "leaf 1".into(),
        source_name: "leaf \"1\" & more.jpg".into(),
        width: 200,
        height: 100,
        lines: vec![
            LineDocument {
                guid: "a".into(),
                polygon: outline(10, 20, 60, 30),
                text: "བཀྲ་ཤིས། །".into(),
                encoding: "unicode".into(),
                confidence: Some(0.975),
                segments: vec![segment(" བཀྲ་", 10, 0.99), segment("ཤིས། །", 40, 0.96)],
                corrected: None,
            },
            LineDocument {
                guid: "b".into(),
                polygon: outline(-5, 60, 215, 30),
                text: "<བདེ> & \"ལེགས\"".into(),
                encoding: "unicode".into(),
                confidence: Some(1.5),
                segments: vec![segment("བདེ", 0, 0.5)],
                corrected: None,
            },
        ],
        regions: Vec::new(),
        error: None,
        scanned: Scanned::default(),
    }
}

pub(super) fn volume(pages: Vec<PageDocument>) -> VolumeDocument {
    VolumeDocument {
        w_id: "W1".into(),
        i_id: "I1".into(),
        pages,
    }
}

pub(super) fn empty_page() -> PageDocument {
    PageDocument {
        lines: Vec::new(),
        ..page()
    }
}

fn segment(text: &str, x: i32, confidence: f32) -> SegmentDocument {
    let corners = [(x, 20), (x + 29, 20), (x + 29, 49), (x, 49)];
    SegmentDocument {
        text: text.into(),
        polygon: corners.map(|(x, y)| Point::new(x, y)),
        confidence,
    }
}

fn outline(x: i32, y: i32, width: i32, height: i32) -> Vec<Point> {
    let (right, bottom) = (x + width - 1, y + height - 1);
    let corners = [(x, y), (right, y), (right, bottom), (x, bottom)];
    corners.map(|(x, y)| Point::new(x, y)).to_vec()
}

#[test]
fn regions_beside_the_text_are_in_page_xml() {
    let region = |kind: &str, x| RegionDocument {
        kind: kind.into(),
        polygon: outline(x, 5, 20, 10),
    };
    let page = PageDocument {
        regions: vec![
            region("image", 0),
            region("margin", 30),
            region("caption", 195),
            region("page_number", 60),
            region("note", 90),
        ],
        ..empty_page()
    };
    let xml = text_of(pagexml::page_xml(&page, chrono::DateTime::UNIX_EPOCH));
    let document = Document::parse(&xml).unwrap();
    let regions: Vec<(&str, Option<&str>, Option<&str>)> = document
        .descendants()
        .filter(|node| node.tag_name().name() == "Coords")
        .map(|coords| {
            let region = coords.parent().unwrap();
            (
                region.tag_name().name(),
                region.attribute("type"),
                coords.attribute("points"),
            )
        })
        .collect();
    assert_eq!(
        regions,
        [
            ("ImageRegion", None, Some("0,5 19,5 19,14 0,14")),
            ("TextRegion", Some("marginalia"), Some("30,5 49,5 49,14 30,14")),
            ("TextRegion", Some("caption"), Some("195,5 199,5 199,14 195,14")),
            ("TextRegion", Some("page-number"), Some("60,5 79,5 79,14 60,14")),
            ("TextRegion", Some("floating"), Some("90,5 109,5 109,14 90,14")),
        ]
    );
}

#[test]
fn a_line_stands_in_the_region_that_most_of_it_lies_in() {
    let region = |kind: &str, polygon: &[Point]| RegionDocument {
        kind: kind.into(),
        polygon: polygon.to_vec(),
    };
    let beyond = outline(0, 0, 200, 55);
    let page = PageDocument {
        regions: vec![
            region("image", &beyond),
            region("note", &beyond),
            region("margin", &outline(10, 20, 20, 30)),
        ],
        ..page()
    };
    assert_eq!(
        (page.region_of(&page.lines[0]), page.region_of(&page.lines[1])),
        (Some(1), None)
    );
    let xml = text_of(pagexml::page_xml(&page, chrono::DateTime::UNIX_EPOCH));
    let document = Document::parse(&xml).unwrap();
    let of_lines: Vec<(Option<&str>, Option<&str>)> = document
        .descendants()
        .filter(|node| node.tag_name().name() == "TextLine")
        .map(|line| (line.attribute("id"), line.parent().unwrap().attribute("type")))
        .collect();
    assert_eq!(
        of_lines,
        [
            (Some("line_1"), Some("paragraph")),
            (Some("line_0"), Some("floating"))
        ]
    );
    let texts: Vec<&str> = document
        .descendants()
        .filter(|node| node.tag_name().name() == "TextRegion")
        .filter_map(|region| region.children().rfind(|node| node.has_tag_name("TextEquiv")))
        .filter_map(|text| text.children().find(|node| node.has_tag_name("Unicode"))?.text())
        .collect();
    assert_eq!(texts, ["<བདེ> & \"ལེགས\"", "བཀྲ་ཤིས། །"]);
}

#[test]
fn hocr_is_what_the_golden_page_shows() {
    let expected = include_str!("golden/leaf.hocr").replace("BUILD", env!("CARGO_PKG_VERSION"));
    assert_eq!(text_of(hocr(&page(), 3)), expected);
}

#[test]
fn alto_is_what_the_golden_page_shows() {
    let expected = include_str!("golden/leaf.alto.xml").replace("BUILD", env!("CARGO_PKG_VERSION"));
    assert_eq!(text_of(alto(&page(), 3)), expected);
}

#[test]
fn a_page_without_lines_has_no_blocks() {
    let hocr = text_of(hocr(&empty_page(), 1));
    assert_eq!(hocr_lines(&parsed(&hocr)), [""; 0]);
    assert!(!hocr.contains("class=\"ocr_carea\""));
    let alto = text_of(alto(&empty_page(), 1));
    assert_eq!(alto_lines(&parsed(&alto)), [""; 0]);
    let space = "<PrintSpace HPOS=\"0\" VPOS=\"0\" WIDTH=\"200\" HEIGHT=\"100\"/>";
    assert!(alto.contains(space), "{alto}");
}

#[test]
fn a_page_that_could_not_be_read_says_so_in_every_format() {
    let unread = PageDocument {
        width: 0,
        height: 0,
        error: Some("cut off\nafter <2000> bytes -- broken".into()),
        ..empty_page()
    };
    let mark = "not read: cut off after <2000> bytes -- broken";
    assert_eq!(
        unread.text_or_mark(),
        format!("[leaf \"1\" & more.jpg: {mark}]\n")
    );
    for (xml, element) in [
        (hocr(&unread, 1), "p"),
        (alto(&unread, 1), "processingStepDescription"),
        (
            pagexml::page_xml(&unread, chrono::DateTime::UNIX_EPOCH),
            "Comments",
        ),
    ] {
        let xml = text_of(xml);
        let document = parsed(&xml);
        let mut elements = document.descendants().filter(|node| node.has_tag_name(element));
        assert_eq!(content(&elements.next().unwrap()), mark);
        assert!(elements.next().is_none());
        let lines = [
            hocr_lines(&document),
            alto_lines(&document),
            page_xml_lines(&document),
        ];
        assert_eq!(lines.concat(), [""; 0]);
    }
    let record = lines::json_lines(&volume(vec![unread])).unwrap();
    let record: serde_json::Value = serde_json::from_str(record.trim()).unwrap();
    assert_eq!(record["image"], "leaf 1");
    assert!(record["error"].as_str().unwrap().starts_with("cut off"));
    assert!(record.get("text").is_none());
    assert_eq!(page().text_or_mark(), page().text());
}

proptest! {
    #[test]
    fn every_format_tells_the_same_text_within_the_page(page in any_page()) {
        let expected: Vec<String> = page.lines.iter().map(|line| line.text.clone()).collect();
        let xml = text_of(hocr(&page, 1));
        let hocr = parsed(&xml);
        prop_assert_eq!(&hocr_lines(&hocr), &expected);
        for node in hocr.descendants().filter(|node| node.has_attribute("class")) {
            let bbox = numbers(property(&node, "bbox"));
            prop_assert!(bbox[0] < bbox[2] && bbox[2] <= 200 && bbox[1] < bbox[3] && bbox[3] <= 100, "{:?}", bbox);
        }
        let xml = text_of(alto(&page, 1));
        let alto = parsed(&xml);
        prop_assert_eq!(&alto_lines(&alto), &expected);
        for points in alto.descendants().filter_map(|node| node.attribute("POINTS")) {
            for point in numbers(points).chunks(2) {
                prop_assert!((0..200).contains(&point[0]) && (0..100).contains(&point[1]), "{points}");
            }
        }
        let xml = text_of(pagexml::page_xml(&page, chrono::DateTime::UNIX_EPOCH));
        prop_assert_eq!(&page_xml_lines(&parsed(&xml)), &expected);
        let records = lines::json_lines(&volume(vec![page])).unwrap();
        let records: Vec<String> = records.lines().map(|line| {
            let record: serde_json::Value = serde_json::from_str(line).unwrap();
            record["text"].as_str().unwrap().to_owned()
        }).collect();
        prop_assert_eq!(&records, &expected);
    }
}

/// Lines as a recogniser leaves them: trimmed, with segments that spell the line untrimmed, or something else.
fn any_page() -> impl Strategy<Value = PageDocument> {
    let point = || (-300..500, -300..300).prop_map(|(x, y)| Point::new(x, y));
    let outline = prop::collection::vec(point(), 0..6);
    let segment = (
        "[ \t<>&\"'༔-༘ཀ-ྼ་།]{0,5}",
        [point(), point(), point(), point()],
        0.0..=1.0f32,
    );
    let segment = segment.prop_map(|(text, polygon, confidence)| SegmentDocument {
        text,
        polygon,
        confidence,
    });
    let line = (outline, prop::collection::vec(segment, 0..5), any::<bool>());
    let line = line.prop_map(|(polygon, segments, respelt)| {
        let spelt: String = segments.iter().map(|segment| segment.text.as_str()).collect();
        LineDocument {
            text: if respelt {
                spelt.replace('ཀ', "ཁ ")
            } else {
                spelt
            }
            .trim()
            .to_owned(),
            polygon,
            segments,
            ..page().lines.remove(0)
        }
    });
    prop::collection::vec(line, 0..4).prop_map(|lines| PageDocument { lines, ..page() })
}

pub(super) fn text_of(written: std::io::Result<Vec<u8>>) -> String {
    String::from_utf8(written.unwrap()).unwrap()
}

fn parsed(xml: &str) -> Document<'_> {
    let with_doctype = ParsingOptions {
        allow_dtd: true,
        ..ParsingOptions::default()
    };
    Document::parse_with_options(xml, with_doctype).unwrap()
}

fn hocr_lines(document: &Document<'_>) -> Vec<String> {
    let lines = document.descendants();
    let lines = lines.filter(|node| node.attribute("class") == Some("ocr_line"));
    lines.map(|line| content(&line)).collect()
}

fn alto_lines(document: &Document<'_>) -> Vec<String> {
    let lines = document
        .descendants()
        .filter(|node| node.has_tag_name("TextLine"));
    let piece = |node: Node<'_, '_>| match node.tag_name().name() {
        "String" => node.attribute("CONTENT").unwrap().to_owned(),
        "SP" => " ".to_owned(),
        _ => String::new(),
    };
    lines.map(|line| line.children().map(piece).collect()).collect()
}

fn page_xml_lines(document: &Document<'_>) -> Vec<String> {
    let lines = document
        .descendants()
        .filter(|node| node.has_tag_name("TextLine"));
    lines
        .map(|line| {
            let text = line.descendants().find(|node| node.has_tag_name("Unicode"));
            content(&text.unwrap())
        })
        .collect()
}

fn content(node: &Node<'_, '_>) -> String {
    let texts = node.descendants().filter(Node::is_text);
    texts.filter_map(|text| text.text()).collect()
}

fn property<'a>(node: &Node<'a, '_>, name: &str) -> &'a str {
    let title = node.attribute("title").unwrap();
    let mut properties = title.split("; ");
    properties
        .find_map(|property| property.strip_prefix(name))
        .unwrap()
}

fn numbers(text: &str) -> Vec<i32> {
    let numbers = text.split([' ', ',']).filter(|number| !number.is_empty());
    numbers.map(|number| number.parse().unwrap()).collect()
}
