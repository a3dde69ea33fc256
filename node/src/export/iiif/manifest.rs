//! Manifest of a volume, IIIF Presentation 3.

use serde_json::{Value, json};

use super::ImageApi;
use super::address::VolumeAddress;
use crate::export::document::{PageDocument, VolumeDocument};

pub const CONTEXT: &str = "http://iiif.io/api/presentation/3/context.json";

/// Page of known size, in pixels of the scan.
#[derive(Debug)]
pub struct Canvas<'a> {
    pub page: &'a PageDocument,
    pub width: u32,
    pub height: u32,
    pub painting: Option<Painting>,
}

/// JPEG picture of a page, of any size.
#[derive(Debug)]
pub struct Painting {
    pub url: String,
    pub width: u32,
    pub height: u32,
    pub service: Option<Service>,
}

/// Image API service of a picture.
#[derive(Debug)]
pub struct Service {
    pub id: String,
    pub version: ImageApi,
}

pub fn manifest(volume: &VolumeDocument, canvases: &[Canvas<'_>], address: &VolumeAddress) -> Value {
    let items: Vec<Value> = canvases.iter().map(|canvas| described(canvas, address)).collect();
    json!({
        "@context": CONTEXT,
        "id": address.manifest(),
        "type": "Manifest",
        "label": { "none": [format!("{}-{}", volume.w_id, volume.i_id)] },
        "items": items,
    })
}

fn described(canvas: &Canvas<'_>, address: &VolumeAddress) -> Value {
    let name = canvas.page.image_name.as_str();
    let id = address.canvas(name);
    let paintings: Vec<Value> = canvas
        .painting
        .iter()
        .map(|painting| painted(painting, &id))
        .collect();
    let mut described = json!({
        "id": id,
        "type": "Canvas",
        "label": { "none": [canvas.page.source_name] },
        "width": canvas.width,
        "height": canvas.height,
        "items": paintings,
    });
    if let Some(unread) = canvas.page.unread() {
        described["summary"] = json!({ "en": [unread] });
    }
    // Viewers request every annotation page that is named, and no file is written for a page without lines.
    if !canvas.page.lines.is_empty() {
        described["annotations"] = json!([{ "id": address.annotations(name), "type": "AnnotationPage" }]);
    }
    described
}

/// Returns the annotation page that paints a picture on a canvas.
fn painted(painting: &Painting, canvas: &str) -> Value {
    let mut body = json!({
        "id": painting.url,
        "type": "Image",
        "format": "image/jpeg",
        "width": painting.width,
        "height": painting.height,
    });
    if let Some(Service { id, version }) = &painting.service {
        body["service"] = match version {
            ImageApi::Second => json!([{
                "@id": id,
                "@type": "ImageService2",
                "profile": "http://iiif.io/api/image/2/level1.json",
            }]),
            ImageApi::Third => json!([{ "id": id, "type": "ImageService3", "profile": "level1" }]),
        };
    }
    json!({
        "id": format!("{canvas}/painting"),
        "type": "AnnotationPage",
        "items": [{
            "id": format!("{canvas}/painting/1"),
            "type": "Annotation",
            "motivation": "painting",
            "body": body,
            "target": canvas,
        }],
    })
}
