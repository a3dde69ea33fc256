//! Lines that a language model corrects after they were read.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use parkhang_store::artifact::{ArtifactLayout, OcrResultRow};
use parkhang_test_support::Wait;
use serde_json::{Value, json};

use crate::http_service::{Service, completion};
use crate::nodes::{JOB, Node, Site};
use crate::support::{finish, rows};

/// Service that adds a sign to the first line of a page, and makes up the second one.
fn correcting() -> Service {
    Service::by(|asked| {
        if asked.body.is_null() {
            return (404, Value::Null);
        }
        let lines = asked.body["messages"][1]["content"].as_str().unwrap();
        let corrected = |line: &str| match line.split_once('\t') {
            Some(("1", text)) => format!("1\t{text}༎"),
            Some(("2", _)) => "2\tSomething else altogether".to_owned(),
            _ => line.to_owned(),
        };
        let lines: Vec<String> = lines.lines().map(corrected).collect();
        (200, completion(&lines.join("\n")))
    })
}

/// A site with the pipeline `cleaned` over one volume, whose corrections cost 0.50 each.
fn site(service: &Service, pages: u8) -> Site {
    let mut site = Site::with_volumes(1, pages);
    for (key, value) in [
        (
            "pipeline.cleaned.stages",
            "line_detection,line_extraction,ocr,clean,reduce".to_owned(),
        ),
        ("service.cleaner.kind", "openai".to_owned()),
        ("service.cleaner.url", format!("{}/v1", service.url)),
        ("service.cleaner.model", "m".to_owned()),
        ("service.cleaner.cost", "0.5".to_owned()),
        ("costs.currency", "EUR".to_owned()),
    ] {
        site.settings.push((key, value));
    }
    site
}

fn start(site: &Site) -> (Node, Node) {
    let orchestrator = Node::start(site, "orchestrator", &["127.0.0.1:1"]);
    let worker = Node::start(site, "cpu,gpu", &[orchestrator.address()]);
    (orchestrator, worker)
}

fn make_job(site: &Site, options: &[&str]) {
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
    finish(site.command_of(&[&create[..], options].concat())).exits(0);
}

/// The pages of a run that stops for the budget are kept: no page is paid for twice.
///
/// Rows: 84.
#[test]
fn a_job_that_has_spent_its_budget_says_so_and_goes_on_once_that_is_raised() {
    let service = correcting();
    let site = site(&service, 2);
    let (_orchestrator, _worker) = start(&site);
    make_job(&site, &["--budget", "0.5", "--config", "workers=1"]);
    let status = || {
        finish(site.command(["job", "status", JOB, "--json"]))
            .exits(0)
            .json()
    };
    let paused = Wait::until("the job is paused, and nothing of it runs").sees(status, |status| {
        status["status"] == "paused" && status["running"] == 0
    });
    assert_eq!(
        (&paused["spent"], &paused["budget"], &paused["currency"]),
        (&json!("0.50"), &json!("0.50"), &json!("EUR"))
    );
    let service_of_it = json!([{
        "service": "cleaner", "calls": 1, "input_tokens": 0, "output_tokens": 0, "cost": "0.50",
    }]);
    assert_eq!(paused["spending"], service_of_it);
    let reason = "the job is paused, as it has spent its budget: 0.50 of 0.50";
    assert!(paused["obstacles"][0].as_str().unwrap().starts_with(reason));
    let status = finish(site.command(["job", "status", JOB])).exits(0).stdout;
    assert!(
        status.contains("spent 0.50 of 0.50 EUR\ncleaner: 1 call, 0.50\n"),
        "{status}"
    );
    let why = finish(site.command(["tasks", "why", JOB, "W1-I0", "--json"]))
        .exits(0)
        .json();
    assert_eq!(
        (&why["blocker"], &why["reason"]),
        (&json!("budget"), &json!(reason))
    );
    let refused = finish(site.command(["job", "resume", JOB]));
    assert!(
        refused.code != Some(0) && refused.stderr.contains("has spent its budget: 0.50 of 0.50"),
        "{refused:?}"
    );
    assert_eq!(service.readings().len(), 1);

    finish(site.command(["job", "limits", JOB, "budget=2"])).exits(0);
    finish(site.command(["job", "resume", JOB])).exits(0);
    finish(site.command(["job", "status", JOB, "--wait"])).exits(0);
    assert_eq!(service.readings().len(), 2);
    let list = finish(site.command(["job", "list"])).exits(0).stdout;
    assert!(list.contains("1.00 of 2.00 EUR"), "{list}");
}

/// Rows: 84.
#[test]
fn lines_are_corrected_by_a_service_within_bounds_and_exported_so() {
    let service = correcting();
    let site = site(&service, 1);
    let (_orchestrator, _worker) = start(&site);
    make_job(&site, &[]);
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

/// Rows: 84, 235.
#[test]
fn a_volume_waits_for_a_service_that_is_away_and_says_so() {
    let is_away = Arc::new(AtomicBool::new(true));
    let away = is_away.clone();
    let service = Service::by(move |asked| match (away.load(Ordering::Relaxed), &asked.body) {
        (true, _) => (503, json!({"error": "restarting"})),
        (false, Value::Null) => (404, Value::Null),
        (false, body) => {
            let lines = body["messages"][1]["content"].as_str().unwrap();
            (200, completion(lines))
        }
    });
    let site = site(&service, 1);
    let (_orchestrator, _worker) = start(&site);
    make_job(&site, &[]);
    let why = || {
        finish(site.command(["tasks", "why", JOB, "W1-I0", "--json"]))
            .exits(0)
            .json()
    };
    // Its node waits with the lease in its hands, and gives it back after some tries.
    let why =
        Wait::until("the volume waits for the service").sees(why, |why| why["blocker"] == "service_paused");
    let reason = why["reason"].as_str().unwrap();
    assert!(
        reason.starts_with("cleaner, which does clean, is left alone and tried again ")
            && reason.contains("HTTP 503"),
        "{reason}"
    );
    let show = || {
        finish(site.command(["tasks", "show", JOB, "W1-I0", "--json"]))
            .exits(0)
            .json()
    };
    let shown = Wait::until("a run gives the volume back")
        .at_most(Duration::from_secs(180))
        .sees(show, |task| task["category"] == "service");
    assert_eq!(shown["attempts"], json!(0));
    assert!(
        shown
            .to_string()
            .contains("waiting for service cleaner: HTTP 503"),
        "{shown}"
    );
    is_away.store(false, Ordering::Relaxed);
    finish(site.command(["job", "status", JOB, "--wait"])).exits(0);
}
