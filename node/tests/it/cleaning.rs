//! Lines that a language model corrects after they were read.

use parkhang_store::artifact::{ArtifactLayout, OcrResultRow};

use crate::http_service::{Service, completion};
use crate::nodes::{JOB, Node, Site};
use crate::support::{finish, rows};

/// Rows: 84.
#[test]
fn lines_are_corrected_by_a_service_within_bounds_and_exported_so() {
    let service = Service::by(|asked| {
        if asked.body.is_null() {
            return (404, serde_json::Value::Null);
        }
        let lines = asked.body["messages"][1]["content"].as_str().unwrap();
        let corrected = |line: &str| match line.split_once('\t') {
            // One sign is added, and another line is made up.
            Some(("1", text)) => format!("1\t{text}༎"),
            Some(("2", _)) => "2\tSomething else altogether".to_owned(),
            _ => line.to_owned(),
        };
        let lines: Vec<String> = lines.lines().map(corrected).collect();
        (200, completion(&lines.join("\n")))
    });
    let mut site = Site::with_volumes(1, 1);
    for (key, value) in [
        (
            "pipeline.cleaned.stages",
            "line_detection,line_extraction,ocr,clean,reduce".to_owned(),
        ),
        ("service.cleaner.kind", "openai".to_owned()),
        ("service.cleaner.url", format!("{}/v1", service.url)),
        ("service.cleaner.model", "m".to_owned()),
    ] {
        site.settings.push((key, value));
    }
    let orchestrator = Node::start(&site, "orchestrator", &["127.0.0.1:1"]);
    let _worker = Node::start(&site, "cpu,gpu", &[orchestrator.address()]);
    let create = [
        "job",
        "create",
        JOB,
        "--pipeline",
        "cleaned",
        "--model",
        "clean=cleaner",
        "--force",
    ];
    finish(site.command_of(&create)).exits(0);
    finish(site.command(["job", "status", JOB, "--wait"])).exits(0);

    let layout = ArtifactLayout::bdrc_v2(&JOB.parse().unwrap()).volume(&"W1-I0".parse().unwrap());
    let artifacts = site.path("artifacts");
    let read: Vec<OcrResultRow> = rows(&artifacts, &layout.ocr_results());
    let cleaned: Vec<OcrResultRow> = rows(&artifacts, &layout.clean_results());
    assert_eq!((read.len(), service.readings().len()), (7, 1));
    assert_eq!(cleaned[0].text, format!("{}༎", read[0].text));
    assert_eq!(
        (cleaned[0].confidence, cleaned[0].segments.len()),
        (read[0].confidence, 0)
    );
    assert_eq!(
        cleaned[1..],
        read[1..],
        "what differs too much stays as it was read"
    );
    let text = site.path("text");
    let export = [
        "export",
        "--job",
        JOB,
        "--format",
        "text",
        "--to",
        text.to_str().unwrap(),
    ];
    finish(site.command_of(&export)).exits(0);
    let text = std::fs::read_to_string(text.join("text/W1-I0.txt")).unwrap();
    assert!(text.starts_with(&cleaned[0].text), "{text}");
}
