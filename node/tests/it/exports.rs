//! What exported files must hold, whatever was read.

use std::fs::read_to_string;
use std::path::Path;
use std::process::Command;

use roxmltree::{Document, ParsingOptions};
use serde_json::Value;

use crate::support::workspace;

/// Where manifests say they are if nobody says otherwise.
const BASE: &str = "http://localhost:8000/";

/// Validates all documents of a folder against a schema of the fixtures, with one text in it read as another, where
/// `PYTHON` names an interpreter that has lxml.
pub(crate) fn validate_xml(schema: &str, folder: &Path, replaced: [&str; 2]) {
    let Some(python) = std::env::var_os("PYTHON") else {
        eprintln!("SKIPPED: XML is not validated against {schema}, as PYTHON is not set");
        return;
    };
    let status = Command::new(python)
        .arg(workspace().join("tests/python/check_schema.py"))
        .arg(workspace().join("tests/fixtures").join(schema))
        .arg(folder)
        .args(replaced)
        .status()
        .unwrap();
    assert!(status.success());
}

/// Every page of the text is there as hOCR, line by line.
pub(crate) fn check_hocr(exported: &Path, volume: &str) {
    for (name, text) in texts(exported, volume) {
        let hocr = read_to_string(exported.join("hocr").join(volume).join(format!("{name}.hocr"))).unwrap();
        let with_doctype = ParsingOptions {
            allow_dtd: true,
            ..ParsingOptions::default()
        };
        let document = Document::parse_with_options(&hocr, with_doctype).unwrap();
        let lines = document.descendants();
        let lines = lines.filter(|node| node.attribute("class") == Some("ocr_line"));
        let mut found = String::new();
        for line in lines {
            let words = line.descendants().filter(|node| node.is_text());
            found.extend(words.filter_map(|word| word.text()));
            found.push('\n');
        }
        assert_eq!(found, text, "{name}");
    }
}

/// Every page of the text has a canvas; pictures and annotations are where the manifest says, and these tell the text.
pub(crate) fn check_iiif(exported: &Path, volume: &str) {
    let served = |id: &Value| {
        let id = id.as_str().unwrap();
        exported.join("iiif").join(id.strip_prefix(BASE).unwrap())
    };
    let manifest = exported.join("iiif").join(volume).join("manifest.json");
    let manifest = json(&manifest);
    assert_eq!(
        served(&manifest["id"]),
        exported.join("iiif").join(volume).join("manifest.json")
    );
    let texts = texts(exported, volume);
    let canvases = manifest["items"].as_array().unwrap();
    assert_eq!(canvases.len(), texts.len());
    for (canvas, (name, text)) in canvases.iter().zip(&texts) {
        let body = &canvas["items"][0]["items"][0]["body"];
        let (width, height) = image::image_dimensions(served(&body["id"])).unwrap();
        assert_eq!(
            (body["width"].as_u64(), body["height"].as_u64()),
            (Some(width.into()), Some(height.into()))
        );
        let page = json(&served(&canvas["annotations"][0]["id"]));
        assert_eq!(page["id"], canvas["annotations"][0]["id"]);
        let mut found = String::new();
        for annotation in page["items"].as_array().unwrap() {
            assert_eq!(annotation["target"]["source"], canvas["id"]);
            let fragment = annotation["target"]["selector"][0]["value"].as_str().unwrap();
            let numbers = fragment.strip_prefix("xywh=").unwrap().split(',');
            let numbers: Vec<u64> = numbers.map(|number| number.parse().unwrap()).collect();
            assert!(
                numbers[0] + numbers[2] <= canvas["width"].as_u64().unwrap(),
                "{fragment}"
            );
            assert!(
                numbers[1] + numbers[3] <= canvas["height"].as_u64().unwrap(),
                "{fragment}"
            );
            found.push_str(annotation["body"]["value"].as_str().unwrap());
            found.push('\n');
        }
        assert_eq!(&found, text, "{name}");
    }
}

/// Every page of the text is a page of the PDF that tells it and shows its scan, JPEG files as they are.
pub(crate) fn check_pdf(exported: &Path, volume: &str, scans: &Path) {
    let document = lopdf::Document::load(exported.join("pdf").join(format!("{volume}.pdf"))).unwrap();
    let texts = texts(exported, volume);
    let pages = document.get_pages();
    assert_eq!(pages.len(), texts.len());
    for ((number, page), (name, text)) in pages.iter().zip(&texts) {
        let without_spaces = |text: &str| text.split_whitespace().collect::<String>();
        let found = document.extract_text(&[*number]).unwrap();
        assert_eq!(without_spaces(&found), without_spaces(text), "{name}");
        let pictures = document.get_page_images(*page).unwrap();
        assert_eq!(pictures.len(), 1, "{name}");
        let scan = std::fs::read(scans.join(format!("{name}.jpg")));
        let is_as_it_was = scan.is_ok_and(|scan| scan == pictures[0].content);
        let is_jpeg = pictures[0].filters.as_deref() == Some(&["DCTDecode".to_owned()]);
        assert_eq!(is_as_it_was, is_jpeg, "{name}");
        assert_eq!(scans.join(format!("{name}.jpg")).exists(), is_jpeg, "{name}");
    }
}

/// The viewer has every picture in a folder beside it, where it looks for it, or within.
pub(crate) fn check_viewer(exported: &Path, volume: &str, is_inside: bool) {
    let folder = exported.join("html");
    let html = read_to_string(folder.join(format!("{volume}.html"))).unwrap();
    let (_, data) = html.split_once("id=\"volume\">").unwrap();
    let (data, _) = data.split_once("</script>").unwrap();
    let data: Value = serde_json::from_str(data).unwrap();
    let pages = data["pages"].as_array().unwrap();
    assert_eq!(pages.len(), texts(exported, volume).len());
    for (index, page) in pages.iter().enumerate() {
        let inside = html.contains(&format!("id=\"scan-{index}\">/9j/"));
        assert_eq!(inside, is_inside, "{index}");
        let beside = page["picture"].as_str().map(|place| folder.join(place));
        assert_eq!(beside.is_none(), is_inside);
        if let Some(picture) = beside {
            assert!(image::open(picture).is_ok(), "{index}");
        }
    }
    assert_eq!(folder.join(volume).exists(), !is_inside);
}

/// Name and text of every page, in order.
fn texts(exported: &Path, volume: &str) -> Vec<(String, String)> {
    let folder = exported.join("text").join(volume);
    let files = std::fs::read_dir(folder)
        .unwrap()
        .map(|file| file.unwrap().path());
    let name = |path: &Path| path.file_stem().unwrap().to_str().unwrap().to_owned();
    let mut texts: Vec<(String, String)> = files
        .map(|path| (name(&path), read_to_string(&path).unwrap()))
        .collect();
    texts.sort();
    texts
}

fn json(path: &Path) -> Value {
    serde_json::from_str(&read_to_string(path).unwrap()).unwrap()
}
