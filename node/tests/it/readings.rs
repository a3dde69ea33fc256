//! Jobs that make one text of what other jobs have read.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};

use parkhang_core::domain::JobConfig;
use parkhang_store::artifact::{
    ArchiveLayout, ArtifactLayout, LineDetectionRow, OcrResultRow, VisionArchiveRow, VolumeLayout,
    vision_archive,
};
use parkhang_test_support::Wait;
use serde_json::{Value, json};

use crate::http_service::{Service, completion};
use crate::nodes::{Node, Site};
use crate::support::{finish, rows};

fn layout(job: &str) -> VolumeLayout {
    ArtifactLayout::bdrc_v2(&job.parse().unwrap()).volume(&"W1-I0".parse().unwrap())
}

fn create(site: &Site, job: &str, options: &[&str]) {
    finish(site.command_of(&[&["job", "create", job, "--force"], options].concat())).exits(0);
}

fn wait(site: &Site, job: &str) {
    finish(site.command(["job", "status", job, "--wait"])).exits(0);
}

fn refusal(site: &Site, arguments: &[&str]) -> String {
    let refused = finish(site.command_of(arguments));
    assert_ne!(refused.code, Some(0), "{refused:?}");
    refused.stderr
}

fn texts(lines: &[OcrResultRow]) -> Vec<&str> {
    lines.iter().map(|line| line.text.as_str()).collect()
}

/// A job takes what the archive has read with Google Vision, which has texts alone, as soon as that is there.
fn with_a_reading_of_the_archive(site: &Site, read: &[OcrResultRow], page: &[&str]) {
    let inputs = "beam,archive:gv";
    create(
        site,
        "archived",
        &["--pipeline", "combine", "--inputs", inputs, "--how", "vote"],
    );
    let why = || {
        finish(site.command(["tasks", "why", "archived", "W1-I0"]))
            .exits(0)
            .stdout
    };
    Wait::until("the volume waits for the archive")
        .sees(why, |why| why.contains("waiting for archive:gv to read W1-I0"));
    let artifacts = site.path("artifacts");
    let pages: Vec<LineDetectionRow> = rows(&artifacts, &layout("beam").line_detection());
    let row = VisionArchiveRow {
        img_file_name: pages[0].source_name.clone(),
        img_idx: 0,
        source_etag: String::new(),
        nb_pages: 1,
        languages: vec!["bo".to_owned()],
        confidence: 0.9,
        text_len: 0,
        nb_lines_tib: page.len(),
        text: page.join("\n"),
    };
    let key = ArchiveLayout::vision(&"W1-I0".parse().unwrap(), "0a9573")
        .unwrap()
        .table;
    let file = artifacts.join(key.as_str());
    std::fs::create_dir_all(file.parent().unwrap()).unwrap();
    std::fs::write(file, vision_archive(&[row]).unwrap()).unwrap();
    wait(site, "archived");
    let config = JobConfig::default()
        .with_overrides([format!("inputs={inputs}").as_str()])
        .unwrap();
    let combined =
        ArtifactLayout::of(&config, &"archived".parse().unwrap()).volume(&"W1-I0".parse().unwrap());
    let combined: Vec<OcrResultRow> = rows(&artifacts, &combined.ocr_results());
    assert_eq!(texts(&combined), texts(read), "of as many votes the first counts");
    let sources = combined[1].sources.as_ref().unwrap();
    assert!(sources.contains(&0b01) && sources.contains(&0b11), "{sources:?}");
    assert!(
        refusal(
            site,
            &[
                "job",
                "create",
                "alone",
                "--pipeline",
                "combine",
                "--inputs",
                "archive:gv,beam"
            ]
        )
        .contains("after the first one archive:gv")
    );
}

/// What pages with a known text say of the readings goes into a job that combines them, and decides there.
fn with_trust_that_is_learnt(site: &Site, page: &[&str]) {
    let artifacts = site.path("artifacts");
    let pages: Vec<LineDetectionRow> = rows(&artifacts, &layout("beam").line_detection());
    let truth = site.path("truth");
    std::fs::create_dir(&truth).unwrap();
    let scan = truth.join(&pages[0].source_name);
    std::fs::write(scan.with_extension("txt"), page.join("\n")).unwrap();
    // Only its name is looked at.
    std::fs::write(&scan, "").unwrap();
    let folder = truth.to_str().unwrap();
    let learnt = finish(site.command(["eval", folder, "--trust", "beam,asked,greedy"])).exits(0);
    let pair = learnt.stdout.trim();
    let (key, json) = pair.split_once('=').unwrap();
    let mut trust: Value = serde_json::from_str(json).unwrap();
    assert_eq!((key, &trust[1]["input"]), ("trust", &json!("asked")));
    let weight = |of: usize| trust[of]["weight"].as_f64().unwrap();
    assert!(weight(1) > weight(0), "{pair}");
    assert!(
        learnt.stderr.contains("learnt from 1 page\n"),
        "{}",
        learnt.stderr
    );

    // One page does not make one reading worth more than two.
    trust[1]["weight"] = json!(weight(0) + weight(2) + 1.0);
    let pair = format!("trust={trust}");
    let options = [
        "--pipeline",
        "combine",
        "--inputs",
        "beam,asked,greedy",
        "--how",
        "vote",
    ];
    create(site, "taught", &[&options[..], &["--config", &pair]].concat());
    wait(site, "taught");
    let config = JobConfig::default()
        .with_overrides(["inputs=beam,asked,greedy"])
        .unwrap();
    let combined = ArtifactLayout::of(&config, &"taught".parse().unwrap()).volume(&"W1-I0".parse().unwrap());
    let taught: Vec<OcrResultRow> = rows(&artifacts, &combined.ocr_results());
    assert_eq!(texts(&taught), page, "one that is trusted more than two decides");
    let options = [
        "--pipeline",
        "combine",
        "--inputs",
        "beam,greedy",
        "--config",
        &pair,
    ];
    let refused = refusal(site, &[&["job", "create", "other"][..], &options].concat());
    assert!(
        refused.contains("trust must be of inputs, not beam, asked, greedy"),
        "{refused}"
    );
}

/// Three jobs read a volume, one of them by a service that has another second line, and a fourth makes one text of theirs.
///
/// Rows: 85, 95.
#[test]
fn a_job_makes_one_text_of_what_three_have_read() {
    let (is_away, text) = (
        Arc::new(AtomicBool::new(true)),
        Arc::new(Mutex::new(String::new())),
    );
    let (away, says) = (is_away.clone(), text.clone());
    let service = Service::by(move |asked| match (away.load(Ordering::Relaxed), &asked.body) {
        (true, _) => (503, json!({"error": "restarting"})),
        (false, Value::Null) => (404, Value::Null),
        (false, _) => (200, completion(&says.lock().unwrap())),
    });
    let mut site = Site::with_volumes(1, 1);
    for (key, value) in [
        ("service.model.kind", "openai".to_owned()),
        ("service.model.url", format!("{}/v1", service.url)),
        ("service.model.model", "m".to_owned()),
    ] {
        site.settings.push((key, value));
    }
    let orchestrator = Node::start(&site, "orchestrator", &["127.0.0.1:1"]);
    let _worker = Node::start(&site, "cpu,gpu", &[orchestrator.address()]);
    create(&site, "beam", &[]);
    wait(&site, "beam");
    let artifacts = site.path("artifacts");
    let read: Vec<OcrResultRow> = rows(&artifacts, &layout("beam").ocr_results());
    let wrong = read[1].text.replacen("ལྟར་", "ལྟཀ་", 1);
    let mut page = texts(&read);
    assert_ne!(page[1], wrong);
    page[1] = &wrong;
    *text.lock().unwrap() = page.join("\n");

    create(&site, "greedy", &["--config", "decoder=greedy"]);
    create(&site, "asked", &["--model", "model"]);
    create(
        &site,
        "best",
        &[
            "--pipeline",
            "combine",
            "--inputs",
            "beam,asked,greedy",
            "--how",
            "vote",
        ],
    );
    let shown = || {
        finish(site.command(["tasks", "show", "best", "W1-I0", "--json"]))
            .exits(0)
            .json()
    };
    let waiting = Wait::until("the volume waits for the job that asks a service")
        .sees(shown, |shown| shown["category"] == "pending");
    assert_eq!(waiting["attempts"], 0);
    // Between the end of a pause and the next try nothing keeps the volume, and then that is the answer.
    let why = || {
        finish(site.command(["tasks", "why", "best", "W1-I0"]))
            .exits(0)
            .stdout
    };
    Wait::until("the reason is the job that asks a service")
        .sees(why, |why| why.contains("waiting for job asked to read W1-I0"));
    is_away.store(false, Ordering::Relaxed);
    wait(&site, "asked");
    wait(&site, "best");

    let asked: Vec<OcrResultRow> = rows(&artifacts, &layout("asked").ocr_results());
    assert_eq!(asked[1].text, wrong);
    let config = JobConfig::default()
        .with_overrides(["inputs=beam,asked,greedy"])
        .unwrap();
    let combined = ArtifactLayout::of(&config, &"best".parse().unwrap()).volume(&"W1-I0".parse().unwrap());
    let best: Vec<OcrResultRow> = rows(&artifacts, &combined.ocr_results());
    assert_eq!(best[1].text, read[1].text, "two agree against one");
    let guids = |lines: &[OcrResultRow]| {
        lines
            .iter()
            .map(|line| line.line_guid.clone())
            .collect::<Vec<_>>()
    };
    assert_eq!(
        guids(&best),
        guids(&read),
        "lines have the places of the first job"
    );
    assert_eq!(best[1].segments.len(), read[1].segments.len());
    let sources = best[1].sources.as_ref().unwrap();
    assert_eq!(sources.len(), best[1].segments.len());
    assert!(
        sources.contains(&0b101) && sources.contains(&0b111),
        "{sources:?}"
    );

    with_a_reading_of_the_archive(&site, &read, &page);
    with_trust_that_is_learnt(&site, &page);

    create(
        &site,
        "first",
        &[
            "--pipeline",
            "combine",
            "--inputs",
            "asked,beam",
            "--how",
            "first",
        ],
    );
    wait(&site, "first");
    let to = site.path("text");
    let export = [
        "export",
        "--job",
        "first",
        "--format",
        "text,html",
        "--to",
        to.to_str().unwrap(),
    ];
    finish(site.command_of(&export)).exits(0);
    let exported = std::fs::read_to_string(to.join("text/W1-I0.txt")).unwrap();
    assert!(exported.contains(&wrong), "{exported}");

    let refused = refusal(&site, &["job", "delete", "beam", "--artifacts", "--yes"]);
    assert!(
        refused.contains("job best combines what job beam has read"),
        "{refused}"
    );
    for (options, reason) in [
        (&["--pipeline", "combine"][..], "--inputs JOB,JOB names them"),
        (&["--inputs", "beam"], "pipeline ocr reads by itself"),
        (
            &["--pipeline", "combine", "--inputs", "bean"],
            "there is no job bean",
        ),
        (
            &["--pipeline", "combine", "--inputs", "best,beam"],
            "job best has no lines of its own",
        ),
    ] {
        let refused = refusal(&site, &[&["job", "create", "another"], options].concat());
        assert!(refused.contains(reason), "{refused}");
    }
}
