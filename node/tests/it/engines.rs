//! Pages that a service reads in the place of a recogniser. The services here answer as the references of their protocols have it:
//! cloud.google.com/vision/docs/reference/rest/v1/AnnotateImageResponse, platform.openai.com/docs/api-reference/chat/object.

use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;

use flate2::read::GzDecoder;
use parkhang_actors::engines::asked_about;
use parkhang_core::domain::StageName;
use parkhang_store::artifact::{ErrorRow, ImageName, LineDetectionRow, LineImageRow, OcrResultRow};
use serde_json::{Value, json};

use crate::http_service::{Service, completion};
use crate::support::{Finished, Fixture, finish, node, provenance, rows, small_page};

/// Configuration with the service `reader`, and a secret that no log may show.
fn configured(fixture: &Fixture, section: &str) -> String {
    let folder = fixture.pages().parent().unwrap().to_owned();
    let token = folder.join("token");
    std::fs::write(&token, "hunter2").unwrap();
    std::fs::set_permissions(&token, std::fs::Permissions::from_mode(0o600)).unwrap();
    let file: PathBuf = folder.join("services.toml");
    let section = format!("[service.reader]\ntoken_file = {token:?}\n{section}\n");
    std::fs::write(&file, section).unwrap();
    file.display().to_string()
}

fn read_with(fixture: &Fixture, config: &str, options: &[&str]) -> Finished {
    let engine = [
        "--engine",
        "reader",
        "--config-file",
        config,
        "--export",
        "text,jsonl,html,alto,pagexml,hocr",
    ];
    fixture.read(&[&engine[..], options].concat())
}

fn lines(fixture: &Fixture) -> Vec<OcrResultRow> {
    rows(&fixture.out(), &fixture.layout().ocr_results())
}

fn export(fixture: &Fixture, name: &str) -> String {
    std::fs::read_to_string(fixture.out().join("export").join(name)).unwrap()
}

fn word(text: &str, [left, top, right, bottom]: [i32; 4], end: &str) -> Value {
    json!({
        "confidence": 0.75,
        "boundingBox": {"vertices": [
            {"x": left, "y": top}, {"x": right, "y": top}, {"x": right, "y": bottom}, {"x": left, "y": bottom},
        ]},
        "symbols": [{"text": text, "property": {"detectedBreak": {"type": end}}}],
    })
}

fn annotation() -> Value {
    let words = [
        word("བོད་", [100, 40, 200, 90], "SPACE"),
        word("ཡིག", [210, 42, 300, 88], "LINE_BREAK"),
        word("གཉིས།", [100, 120, 260, 170], "LINE_BREAK"),
    ];
    json!({"fullTextAnnotation": {
        "text": "བོད་ ཡིག\nགཉིས།\n",
        "pages": [{"width": 1000, "height": 400, "blocks": [{"paragraphs": [{"words": words}]}]}],
    }})
}

/// An operation has read both pages, and failed on the second.
///
/// Rows: 84.
#[test]
fn answers_of_an_operation_are_taken_over_and_the_page_that_failed_is_asked_for_alone() {
    let fixture = Fixture::new();
    fixture.put("p1.tif", &small_page());
    fixture.put("p2.tif", &small_page());
    let service = Service::by(|asked| {
        let pages = asked.body["requests"].as_array().map_or(0, Vec::len);
        (200, json!({"responses": vec![annotation(); pages]}))
    });
    let section = format!("kind = \"google_vision\"\nurl = \"{}\"", service.url);
    let config = configured(&fixture, &section);
    read_with(&fixture, &config, &[]).exits(0);
    let asked_before = service.readings().len();
    let (out, layout) = (fixture.out(), fixture.layout());
    let reader = provenance::<OcrResultRow>(&out, &layout.ocr_results()).models[0].digest;
    let answers = layout.answers(&StageName::new("ocr").unwrap());
    std::fs::remove_dir_all(out.join(answers.as_str())).unwrap();
    std::fs::remove_file(out.join(layout.ocr_results().as_str())).unwrap();

    let pages: Vec<LineDetectionRow> = rows(&out, &layout.line_detection());
    let made_of = provenance::<LineImageRow>(&out, &layout.line_images()).pages;
    let named = pages
        .iter()
        .map(|page| (page.image_name.as_str(), made_of[&page.image_name].digest()));
    let operation = layout.operation(asked_about(reader, named));
    let uri =
        |page: &LineDetectionRow| json!({"uri": format!("gs://press/archive/{}", page.rotated_image_path)});
    let mut read = annotation();
    read["context"] = uri(&pages[0]);
    read["fullTextAnnotation"]["pages"][0]["blocks"][0]["paragraphs"][0]["words"] =
        json!([word("ཀ", [100, 40, 200, 90], "LINE_BREAK")]);
    let failed = json!({"context": uri(&pages[1]), "error": {"code": 14, "message": "later"}});
    let folder = out.join(operation.as_str()).join("1");
    std::fs::create_dir_all(&folder).unwrap();
    let responses = json!({"responses": [failed, read]});
    std::fs::write(folder.join("output-1-to-2.json"), responses.to_string()).unwrap();

    read_with(&fixture, &config, &[]).exits(0);
    let asked = service.readings();
    assert_eq!(asked.len(), asked_before + 1);
    assert_eq!(asked[asked_before].body["requests"].as_array().unwrap().len(), 1);
    let texts = |page: &str| -> Vec<String> {
        let lines = lines(&fixture).into_iter().filter(|line| line.image_name == page);
        lines.map(|line| line.text).collect()
    };
    assert_eq!(texts("p1"), ["ཀ"]);
    assert_eq!(texts("p2"), ["བོད་ ཡིག", "གཉིས།"]);

    std::fs::remove_file(out.join(layout.ocr_results().as_str())).unwrap();
    read_with(&fixture, &config, &[]).exits(0);
    assert_eq!(
        service.readings().len(),
        asked.len(),
        "nothing is asked for twice"
    );
}

/// Rows: 84.
#[test]
fn google_reads_pages_with_its_own_lines_and_is_paid_once() {
    let fixture = Fixture::new();
    fixture.put("p1.tif", &small_page());
    let service = Service::by(|asked| {
        let pages = asked.body["requests"].as_array().map_or(0, Vec::len);
        (200, json!({"responses": vec![annotation(); pages]}))
    });
    let config = configured(
        &fixture,
        &format!(
            "kind = \"google_vision\"\nurl = \"{}\"\nmodel = \"builtin/weekly\"",
            service.url
        ),
    );
    read_with(&fixture, &config, &[]).exits(0);
    let asked = service.readings();
    assert_eq!(asked.len(), 1);
    assert_eq!(asked[0].path, "/v1/images:annotate");
    assert!(asked[0].headers.contains("x-goog-api-key: hunter2"));
    let feature = json!([{"type": "DOCUMENT_TEXT_DETECTION", "model": "builtin/weekly"}]);
    assert_eq!(asked[0].body["requests"][0]["features"], feature);

    let read = lines(&fixture);
    let texts: Vec<&str> = read.iter().map(|line| line.text.as_str()).collect();
    assert_eq!(texts, ["བོད་ ཡིག", "གཉིས།"]);
    assert_eq!(
        read[0].outline,
        Some(vec![[100, 40], [299, 40], [299, 89], [100, 89]])
    );
    assert_eq!((read[0].confidence, read[0].alignment), (Some(0.75), None));
    let segments: Vec<(i32, i32)> = read[0]
        .segments
        .iter()
        .map(|segment| (segment.x, segment.width))
        .collect();
    assert_eq!(segments, [(0, 100), (110, 90)]);
    let made = provenance::<OcrResultRow>(&fixture.out(), &fixture.layout().ocr_results());
    let served = made.service.unwrap();
    assert_eq!(
        (served.name.as_str(), served.model.as_str()),
        ("reader", "builtin/weekly")
    );
    assert_eq!(made.models[0].name, "reader");
    assert_eq!(export(&fixture, "text/W1-I1/p1.txt"), "བོད་ ཡིག\nགཉིས།\n");
    assert!(export(&fixture, "alto/W1-I1/p1.xml").contains("WC=\"0.7500\""));

    // Nothing is asked for again: the table stands, and without it the answer does.
    read_with(&fixture, &config, &[]).exits(0);
    std::fs::remove_file(fixture.out().join(fixture.layout().ocr_results().as_str())).unwrap();
    read_with(&fixture, &config, &[]).exits(0);
    assert_eq!((lines(&fixture), service.readings().len()), (read, 1));
    read_with(&fixture, &config, &["--force", "--stages", "ocr..reduce"]).exits(0);
    assert_eq!(service.readings().len(), 2);

    let folder = archived(&fixture, "gv");
    let name = folder.file_name().unwrap().to_str().unwrap().to_owned();
    assert_eq!(name.len(), 6);
    let table = std::fs::read(folder.join(format!("W1-I1-{name}-gv.parquet"))).unwrap();
    assert!(table.starts_with(b"PAR1"));
    let sidecar = std::fs::read(folder.join(format!("W1-I1-{name}-gv.jsonl.zst"))).unwrap();
    let lines = String::from_utf8(zstd::decode_all(&sidecar[..]).unwrap()).unwrap();
    assert!(
        lines.starts_with("{\"img_file_name\": \"p1.tif\", \"img_idx\": 0, \"response\": {"),
        "{lines}"
    );
    let line: Value = serde_json::from_str(&lines).unwrap();
    assert_eq!(line["response"], annotation());
}

/// Exports the archive's own tables, and returns the folder of the volume's version.
fn archived(fixture: &Fixture, root: &str) -> PathBuf {
    let mut export = node(["export", "--format", "bdrc"]);
    export.arg(fixture.out());
    finish(export).exits(0);
    let volume = fixture.out().join("export/bdrc").join(root).join("W1/I1");
    let versions: Vec<_> = std::fs::read_dir(volume).unwrap().collect();
    assert_eq!(versions.len(), 1);
    versions[0].as_ref().unwrap().path()
}

/// Rows: 84, 200.
#[test]
fn the_text_of_a_language_model_gets_the_places_of_our_lines() {
    let fixture = Fixture::new();
    fixture.put("p1.tif", &small_page());
    fixture.read(&[]).exits(0);
    let ours = lines(&fixture);
    let text: String = ours.iter().map(|line| line.text.as_str()).collect();
    let mut refusals = 0;
    let service = Service::by(move |asked| match asked.path.as_str() {
        "/v1/models" => (200, json!({"object": "list", "data": [{"id": "m"}]})),
        "/version" => (200, json!({"version": "0.20.2"})),
        _ if refusals > 0 => {
            refusals -= 1;
            (200, completion("I'm sorry, I cannot help with that."))
        }
        _ => (200, completion(&text)),
    });
    let section = format!("kind = \"openai\"\nurl = \"{}/v1\"\nmodel = \"m\"", service.url);
    let config = configured(&fixture, &section);
    read_with(&fixture, &config, &[]).exits(0);
    let asked = service.readings();
    assert!(asked[0].headers.contains("authorization: bearer hunter2"));
    let content = &asked[0].body["messages"][0]["content"];
    let url = content[0]["image_url"]["url"].as_str().unwrap();
    assert!(url.starts_with("data:image/png;base64,iVBORw0KGgo") && content.as_array().unwrap().len() == 1);
    let read = lines(&fixture);
    let guids = |lines: &[OcrResultRow]| {
        lines
            .iter()
            .map(|line| line.line_guid.clone())
            .collect::<Vec<_>>()
    };
    assert_eq!(guids(&read), guids(&ours));
    for (line, our) in read.iter().zip(&ours) {
        assert_eq!((line.confidence, &line.outline), (None, &None));
        assert!(line.alignment.unwrap() > 0.9, "{} {}", line.text, our.text);
    }
    let made = provenance::<OcrResultRow>(&fixture.out(), &fixture.layout().ocr_results());
    let served = made.service.unwrap();
    assert_eq!(
        (served.version.as_deref(), &served.served_models[..]),
        (Some("0.20.2"), &["m".to_owned()][..])
    );
    let record: Value =
        serde_json::from_str(export(&fixture, "jsonl/W1-I1.jsonl").lines().next().unwrap()).unwrap();
    assert_eq!(record["confidence"], Value::Null);
    assert!(record["polygon"].as_array().unwrap().len() > 3);
}

/// Rows: 84.
#[test]
fn a_page_that_a_model_refuses_is_a_row_with_its_error_and_its_text() {
    let fixture = Fixture::new();
    fixture.put("p1.tif", &small_page());
    let service = Service::by(|_| (200, completion("I'm sorry, I cannot help with that.")));
    let section = format!("kind = \"openai\"\nurl = \"{}/v1\"\nmodel = \"m\"", service.url);
    let config = configured(&fixture, &section);
    read_with(&fixture, &config, &[]).exits(1);
    let stage = "ocr".to_owned().try_into().unwrap();
    let errors: Vec<ErrorRow> = rows(&fixture.out(), &fixture.layout().errors(&stage));
    assert_eq!(errors.len(), 1);
    assert!(
        errors[0].message.contains("the model refused: I'm sorry"),
        "{errors:?}"
    );
    let kept = fixture
        .layout()
        .answer(&StageName::new("ocr").unwrap(), &ImageName::new("p1").unwrap());
    let kept = std::fs::File::open(fixture.out().join(kept.as_str())).unwrap();
    let kept: Value = serde_json::from_reader(GzDecoder::new(kept)).unwrap();
    assert!(
        kept["answer"].to_string().contains("cannot help") && kept["error"].is_string(),
        "{kept}"
    );
    let folder = archived(&fixture, "ocr_qwen_v1");
    let name = format!("W1-I1-{}", folder.file_name().unwrap().display());
    assert!(folder.join(format!("{name}.parquet")).is_file());
    let errors = std::fs::File::open(folder.join(format!("{name}-errors.jsonl.gz"))).unwrap();
    let errors: Value = serde_json::from_reader(GzDecoder::new(errors)).unwrap();
    assert_eq!(
        (&errors["img_file_name"], &errors["stage"]),
        (&json!("p1.tif"), &json!("ocr"))
    );
    // A refusal is asked for anew by the next run.
    read_with(&fixture, &config, &[]).exits(1);
    assert_eq!(service.readings().len(), 2);
}

/// Rows: 84, 235.
#[test]
fn a_service_that_shuts_us_out_fails_no_page_and_its_token_is_shown_nowhere() {
    let fixture = Fixture::new();
    fixture.put("p1.tif", &small_page());
    let service = Service::by(|_| {
        (
            403,
            json!({"error": {"code": 403, "message": "the API is not enabled"}}),
        )
    });
    let section = format!(
        "kind = \"google_vision\"\nurl = \"{}\"\nbearer = true",
        service.url
    );
    let config = configured(&fixture, &section);
    let run = read_with(&fixture, &config, &[]).exits(1);
    let shown = format!("{run:?}");
    assert!(shown.contains("the API is not enabled"), "{shown}");
    assert!(!shown.contains("hunter2"));
    assert_eq!(service.readings().len(), 1);
    assert!(
        service.readings()[0]
            .headers
            .contains("authorization: bearer hunter2")
    );
    let table = fixture.out().join(fixture.layout().ocr_results().as_str());
    assert!(!table.exists(), "no page has failed, so none is recorded as such");
}
