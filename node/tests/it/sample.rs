//! The sample volume from scans to text.

use parkhang_store::artifact::{ErrorRow, LineDetectionRow, LineImageRow, OcrResultRow};
use quick_xml::events::{BytesStart, Event};

use crate::exports::{check_hocr, check_iiif, check_pdf, check_viewer, validate_xml};
use crate::support::{Fixture, finish, layout, node, rows, sample, workspace};

const SAMPLE: &str = "W0PARKHANG-I0SAMPLE";

/// Character errors in a hundred that each collection may have. `oat` is a manuscript in a hand that the shipped
/// recogniser has hardly seen: it must be read, no more.
const BOUNDS: [(&str, f64); 4] = [
    ("mme", 8.0),
    ("namsel/sample_book1", 1.0),
    ("namsel/sample_book4", 1.0),
    ("oat", 90.0),
];

/// Asserts that at least `bound` of the lines of the text were found, and that of those found as many are lines.
fn assert_lines(score: &serde_json::Value, bound: f64) {
    for key in ["line_recall", "line_precision"] {
        let share = score["overall"][key].as_f64().unwrap();
        assert!(share >= bound, "{key} is {share}");
    }
}

#[test]
fn lines_of_many_prints_and_hands_are_found() {
    let mut command = node(["eval", "--json"]);
    command.arg(workspace().join("tests/fixtures/outlines"));
    let score = finish(command).exits(0).json();
    assert_eq!(score["overall"]["pages"], 16);
    assert_lines(&score, 0.97);
}

#[test]
fn the_last_syllable_of_a_paragraph_is_a_line() {
    let fixture = Fixture::new();
    let scan = workspace().join("tests/fixtures/outlines/namsel_ldong-yon-tan-rgya-mtsho_2.tif");
    fixture.put("page.tif", &std::fs::read(scan).unwrap());
    fixture.read(&[]).exits(0);
    let lines: Vec<OcrResultRow> = rows(&fixture.out(), &fixture.layout().ocr_results());
    assert!(lines.iter().any(|line| line.text == "སྐབས།"), "{lines:?}");
}

/// Rows: F40, 12, 18.
#[test]
fn the_sample_is_read_and_exported() {
    let folder = tempfile::tempdir().unwrap();
    let out = folder.path().join("out");
    let mut command = node([
        "ocr",
        "--json",
        "--export",
        "text,html,pagexml,alto,hocr,iiif,jsonl,pdf",
        "--out",
    ]);
    command.arg(&out).arg(sample());
    let summary = finish(command).exits(0);
    assert_eq!(summary.count("pages_read"), 6);

    let mut command = node(["eval", "--json", "--results"]);
    command
        .arg(&out)
        .arg(workspace().join("tests/fixtures/sample-truth"));
    let score = finish(command).exits(0).json();
    for (collection, bound) in BOUNDS {
        let cer = score["collections"][collection]["cer"].as_f64().unwrap();
        assert!(
            100.0 * cer < bound,
            "{collection}: {:.1} % of characters wrong",
            100.0 * cer
        );
    }

    assert_lines(&score, 0.96);

    let layout = layout(SAMPLE);
    let pages: Vec<LineDetectionRow> = rows(&out, &layout.line_detection());
    let images: Vec<LineImageRow> = rows(&out, &layout.line_images());
    let lines: Vec<OcrResultRow> = rows(&out, &layout.ocr_results());
    assert_eq!(pages.len(), 6);
    // What was found but is no writing has an image and no text.
    assert!(
        (60..=images.len()).contains(&lines.len()),
        "{} of {}",
        lines.len(),
        images.len()
    );
    for stage in ["line_detection", "line_extraction", "ocr"] {
        let errors: Vec<ErrorRow> = rows(&out, &layout.errors(&stage.to_owned().try_into().unwrap()));
        assert_eq!(errors, []);
    }
    for line in &lines {
        let image = images
            .iter()
            .find(|image| image.line_guid == line.line_guid)
            .unwrap();
        assert!(out.join(&image.line_image_path).is_file());
        let ink = (line.ink_y.unwrap(), line.ink_h.unwrap());
        assert!(
            ink.0 >= 0 && ink.1 > 0 && ink.0 + ink.1 <= image.image_height,
            "{ink:?} of {}",
            image.image_height
        );
        assert!(
            line.confidence
                .is_some_and(|confidence| (0.0..=1.0).contains(&confidence))
        );
        for segment in &line.segments {
            assert!((0.0..=1.0).contains(&segment.confidence));
            assert!(
                segment.x >= 0 && segment.width >= 0 && segment.x + segment.width <= image.image_width,
                "{segment:?} of {} leaves its image",
                line.line_guid
            );
        }
    }

    let export = |name: String| std::fs::read_to_string(out.join("export").join(name)).unwrap();
    let html = export(format!("html/{SAMPLE}.html"));
    let records: Vec<serde_json::Value> = export(format!("jsonl/{SAMPLE}.jsonl"))
        .lines()
        .map(|line| serde_json::from_str(line).unwrap())
        .collect();
    assert_eq!(records.len(), lines.len());
    for page in &pages {
        let name = &page.image_name;
        let text: Vec<&str> = lines
            .iter()
            .filter(|line| line.image_name == *name)
            .map(|line| line.text.as_str())
            .collect();
        assert_eq!(
            export(format!("text/{SAMPLE}/{name}.txt"))
                .lines()
                .collect::<Vec<_>>(),
            text
        );
        assert!(
            html.contains(page.source_name.as_str()),
            "{name} is missing from the viewer"
        );
        check_page_xml(&export(format!("pagexml/{SAMPLE}/{name}.xml")), &text);
    }
    let folder = out.join("export");
    validate_xml(
        "page-xml/page-2019-07-15.xsd",
        &folder.join("pagexml"),
        ["pagecontent/2019-07-15", "pagecontent/2013-07-15"],
    );
    validate_xml(
        "alto/alto-4-4.xsd",
        &folder.join("alto"),
        ["http://www.loc.gov/standards/xlink/xlink.xsd", "xlink.xsd"],
    );
    check_hocr(&folder, SAMPLE);
    check_iiif(&folder, SAMPLE);
    check_pdf(&folder, SAMPLE, &sample().join(SAMPLE));
    check_viewer(&folder, SAMPLE, true);
    for (largest, is_inside) in [("100KiB", false), ("32MiB", true)] {
        let mut command = node(["export", "--format", "html", "--inline-pictures", largest]);
        command.arg(&out);
        finish(command).exits(0);
        check_viewer(&folder, SAMPLE, is_inside);
    }
}

/// Well-formed, the elements of PAGE in the order that its schema asks for, coordinates on the page, text as read.
fn check_page_xml(xml: &str, expected: &[&str]) {
    let mut reader = quick_xml::Reader::from_str(xml);
    let (mut open, mut lines): (Vec<String>, Vec<String>) = (Vec::new(), Vec::new());
    let (mut width, mut height) = (0, 0);
    let mut regions = 0;
    let attribute = |element: &BytesStart<'_>, name: &str| {
        let value = element.try_get_attribute(name).unwrap().unwrap();
        String::from_utf8(value.value.into_owned()).unwrap()
    };
    loop {
        let event = reader.read_event().unwrap();
        if let Event::Start(element) | Event::Empty(element) = &event {
            let name = String::from_utf8(element.name().as_ref().to_vec()).unwrap();
            let parent = open.last().map_or("", String::as_str);
            match name.as_str() {
                "Page" => {
                    width = attribute(element, "imageWidth").parse().unwrap();
                    height = attribute(element, "imageHeight").parse().unwrap();
                }
                "RegionRefIndexed" => {
                    assert_eq!(parent, "OrderedGroup");
                    assert_eq!(attribute(element, "regionRef"), "region_main");
                }
                "TextRegion" => {
                    assert_eq!(attribute(element, "id"), "region_main");
                    regions += 1;
                }
                "TextLine" => {
                    assert_eq!(attribute(element, "id"), format!("line_{}", lines.len()));
                    lines.push(String::new());
                }
                "Coords" => {
                    let points = attribute(element, "points");
                    assert!(points.split(' ').count() >= 2);
                    for point in points.split(' ') {
                        let (x, y) = point.split_once(',').unwrap();
                        let (x, y): (i32, i32) = (x.parse().unwrap(), y.parse().unwrap());
                        assert!((0..width).contains(&x) && (0..height).contains(&y), "{point}");
                    }
                }
                _ => {}
            }
            if matches!(event, Event::Start(_)) {
                open.push(name);
            }
        }
        match event {
            Event::End(element) => {
                assert_eq!(open.pop().unwrap().as_bytes(), element.name().as_ref());
            }
            Event::Text(text) if open.ends_with(&["TextLine", "TextEquiv", "Unicode"].map(str::to_owned)) => {
                lines.last_mut().unwrap().push_str(&text.decode().unwrap());
            }
            Event::Eof => break,
            _ => {}
        }
    }
    assert_eq!((open.len(), regions), (0, usize::from(!expected.is_empty())));
    assert_eq!(lines, expected);
}
