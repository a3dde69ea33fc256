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
