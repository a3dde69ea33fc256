//! Text of a page as W3C annotations, one for each line.

use serde_json::{Value, json};

use super::address::VolumeAddress;
use super::manifest::CONTEXT;
use crate::export::document::{LineDocument, PageDocument};

const TEXT_GRANULARITY: &str = "http://iiif.io/api/extension/text-granularity/context.json";
const MEDIA_FRAGMENTS: &str = "http://www.w3.org/TR/media-frags/";

/// Returns the annotations: each line with its text, its box and its outline on the canvas of the page.
pub fn annotation_page(page: &PageDocument, address: &VolumeAddress) -> Value {
    let id = address.annotations(&page.image_name);
    let items: Vec<Value> = page
        .lines
        .iter()
        .enumerate()
        .map(|(index, line)| annotation(&format!("{id}#line-{}", index + 1), line, page, address))
        .collect();
    json!({
        "@context": [TEXT_GRANULARITY, CONTEXT],
        "id": id,
        "type": "AnnotationPage",
        "items": items,
    })
}

fn annotation(id: &str, line: &LineDocument, page: &PageDocument, address: &VolumeAddress) -> Value {
    let bounds = page.bounds(&line.polygon);
    let fragment = format!(
        "xywh={},{},{},{}",
        bounds.x, bounds.y, bounds.width, bounds.height
    );
    json!({
        "id": id,
        "type": "Annotation",
        "motivation": "supplementing",
        "textGranularity": "line",
        "body": {
            "type": "TextualBody",
            "value": line.text,
            "format": "text/plain",
            "language": page.language().tag(),
        },
        "target": {
            "type": "SpecificResource",
            "source": address.canvas(&page.image_name),
            "selector": [
                { "type": "FragmentSelector", "conformsTo": MEDIA_FRAGMENTS, "value": fragment },
                { "type": "SvgSelector", "value": outline(line, page) },
            ],
        },
    })
}

/// Formats an outline as an SVG path, the only shape that Mirador draws.
fn outline(line: &LineDocument, page: &PageDocument) -> String {
    let points = page.on_page(&line.polygon);
    let corners: Vec<String> = points.iter().map(|p| format!("{},{}", p.x, p.y)).collect();
    format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\"><path d=\"M{}Z\"/></svg>",
        corners.join("L")
    )
}
