//! The structure of manifests and annotation pages, without an archive behind them.

use super::address::{BaseUrl, VolumeAddress};
use super::manifest::{Canvas, Painting, manifest};
use super::*;
use crate::export::tests::{empty_page, page, volume};

fn address(volume: &VolumeDocument) -> VolumeAddress {
    let base: BaseUrl = "https://example.org/iiif/".parse().unwrap();
    VolumeAddress::new(&base, volume)
}

#[test]
fn annotations_tell_every_line_on_its_canvas() {
    let (page, volume) = (page(), volume(vec![page()]));
    let written = annotations::annotation_page(&page, &address(&volume));
    assert_eq!(
        written["id"],
        "https://example.org/iiif/W1-I1/annotations/leaf%201.json"
    );
    let items = written["items"].as_array().unwrap();
    let text: String = items
        .iter()
        .map(|item| format!("{}\n", item["body"]["value"].as_str().unwrap()))
        .collect();
    assert_eq!(text, page.text());
    let ids: std::collections::BTreeSet<&str> =
        items.iter().map(|item| item["id"].as_str().unwrap()).collect();
    assert_eq!(ids.len(), 2, "ids are unique");
    for item in items {
        assert_eq!(item["motivation"], "supplementing");
        assert_eq!(item["body"]["type"], "TextualBody");
        assert_eq!(item["body"]["language"], "bo");
        assert_eq!(
            item["target"]["source"],
            "https://example.org/iiif/W1-I1/canvas/leaf%201"
        );
    }
    let selectors = |index: usize| {
        let selectors = &items[index]["target"]["selector"];
        [0, 1].map(|which: usize| selectors[which]["value"].as_str().unwrap().to_owned())
    };
    let svg = |path: &str| format!("<svg xmlns=\"http://www.w3.org/2000/svg\"><path d=\"{path}\"/></svg>");
    assert_eq!(
        selectors(0),
        ["xywh=10,20,60,30".to_owned(), svg("M10,20L69,20L69,49L10,49Z")]
    );
    assert_eq!(
        selectors(1),
        ["xywh=0,60,200,30".to_owned(), svg("M0,60L199,60L199,89L0,89Z")],
        "an outline ends at the edge of the page"
    );
}

#[test]
fn a_manifest_lists_canvases_with_their_pictures_and_text() {
    let unread = PageDocument {
        error: Some("cut off".into()),
        ..empty_page()
    };
    let volume = volume(vec![page(), unread]);
    let canvases = [
        Canvas {
            page: &volume.pages[0],
            width: 200,
            height: 100,
            painting: Some(Painting {
                url: "https://example.org/a.jpg".into(),
                width: 20,
                height: 10,
                service: None,
            }),
        },
        Canvas {
            page: &volume.pages[1],
            width: 200,
            height: 100,
            painting: None,
        },
    ];
    let written = manifest(&volume, &canvases, &address(&volume));
    assert_eq!(
        written["@context"],
        "http://iiif.io/api/presentation/3/context.json"
    );
    assert_eq!(written["type"], "Manifest");
    assert_eq!(written["id"], "https://example.org/iiif/W1-I1/manifest.json");
    assert_eq!(written["label"]["none"][0], "W1-I1");
    let canvas = &written["items"][0];
    assert_eq!(
        (canvas["width"].as_u64(), canvas["height"].as_u64()),
        (Some(200), Some(100))
    );
    let painted = &canvas["items"][0]["items"][0];
    assert_eq!(painted["motivation"], "painting");
    assert_eq!(painted["target"], canvas["id"]);
    assert_eq!(painted["body"]["id"], "https://example.org/a.jpg");
    assert_eq!(painted["body"]["width"], 20);
    assert_eq!(
        canvas["annotations"][0]["id"],
        "https://example.org/iiif/W1-I1/annotations/leaf%201.json"
    );
    let bare = &written["items"][1];
    assert_eq!(bare["items"], serde_json::json!([]));
    assert!(bare.get("annotations").is_none(), "no text, no annotations");
    assert_eq!(bare["summary"]["en"][0], "not read: cut off");
    assert!(canvas.get("summary").is_none());
}

#[test]
fn a_service_is_named_in_the_words_of_its_version() {
    let volume = volume(vec![page()]);
    let template: ImageService = "https://example.org/{w}:{image}".parse().unwrap();
    let id = "https://example.org/W1:leaf%20%221%22%20%26%20more.jpg";
    let body = |version| {
        let canvas = served(&template, version, &volume, &volume.pages[0]).unwrap();
        let written = manifest(&volume, &[canvas], &address(&volume));
        written["items"][0]["items"][0]["items"][0]["body"].clone()
    };
    let third = body(ImageApi::Third);
    assert_eq!(third["id"], format!("{id}/full/max/0/default.jpg"));
    assert_eq!(third["service"][0]["id"], id);
    assert_eq!(third["service"][0]["type"], "ImageService3");
    let second = body(ImageApi::Second);
    assert_eq!(second["service"][0]["@id"], id);
    assert_eq!(second["service"][0]["@type"], "ImageService2");
    let unread = PageDocument {
        width: 0,
        ..empty_page()
    };
    assert!(served(&template, ImageApi::Third, &volume, &unread).is_none());
}
