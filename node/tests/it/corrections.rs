//! Corrections of people: made over HTTP, seen by exports, search and evaluation, kept by a rerun, and taken in and out.

use std::fs;
use std::path::Path;

use parkhang_test_support::Wait;
use serde_json::{Value, json};
use uuid::Uuid;

use crate::api::{Answer, Api};
use crate::nodes::{Node, Site};
use crate::support::{finish, node, workspace};

const PAGE: &str = "/jobs/press/volumes/W1-I0/pages/1";

/// Site with one volume of two real pages.
fn site() -> Site {
    let site = Site::new();
    let scans = site.path("scans/W1-I0");
    fs::create_dir_all(&scans).unwrap();
    for (number, scan) in pages().into_iter().enumerate() {
        fs::copy(&scan, scans.join(format!("p{number}.{}", extension(&scan)))).unwrap();
    }
    site
}

fn pages() -> Vec<std::path::PathBuf> {
    let folder = workspace().join("tests/fixtures/sample/W0PARKHANG-I0SAMPLE");
    let entries = fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
    let mut scans: Vec<_> = entries
        .filter(|path| ["jpg", "png", "tif"].contains(&extension(path).as_str()))
        .collect();
    scans.sort();
    scans.truncate(2);
    scans
}

fn extension(path: &Path) -> String {
    path.extension()
        .unwrap_or_default()
        .to_string_lossy()
        .into_owned()
}

/// A line as an edit names it.
fn seen(line: &Value) -> Value {
    json!({ "id": line["id"], "polygon": line["polygon"], "text": line["text"] })
}

fn with_text(line: &Value, text: &str) -> Value {
    json!({ "id": line["id"], "polygon": line["polygon"], "text": text })
}

fn edit(replaces: &[Value], lines: &[Value]) -> Value {
    json!({ "id": Uuid::new_v4(), "replaces": replaces, "lines": lines })
}

fn post(api: &Api, token: &str, path: &str, body: &Value) -> Answer {
    let bearer = format!("Authorization: Bearer {token}");
    api.ask("POST", &format!("/api/v1{path}"), &[&bearer], &body.to_string())
}

fn lines(page: &Value) -> Vec<Value> {
    page["lines"].as_array().unwrap().clone()
}

fn texts(page: &Value) -> Vec<String> {
    lines(page)
        .iter()
        .map(|line| line["text"].as_str().unwrap().to_owned())
        .collect()
}

/// Adds a token of this role to the file of tokens.
fn token(site: &Site, name: &str, role: &str) -> String {
    let made = finish(node(["token", name, role])).exits(0);
    let file = site.path("tokens");
    let known = fs::read_to_string(&file).unwrap_or_default();
    fs::write(&file, known + &made.stdout).unwrap();
    made.stderr.trim().rsplit(' ').next().unwrap().to_owned()
}

fn exported(site: &Site, to: &str, options: &[&str]) -> String {
    let folder = site.path(to);
    let command = [
        &[
            "export",
            "--job",
            "press",
            "--format",
            "text",
            "--to",
            folder.to_str().unwrap(),
        ],
        options,
    ]
    .concat();
    finish(site.command_of(&command)).exits(0);
    fs::read_to_string(folder.join("text/W1-I0.txt")).unwrap()
}

fn command(site: &Site, words: &[&str]) -> Value {
    finish(site.command_of(&[words, &["--json"]].concat()))
        .exits(0)
        .json()
}

/// Whoever may only read changes nothing, an edit that means nothing is refused, and one that comes too late is told so.
fn edits_are_checked(api: &Api, page: &Value, reader: &str, editor: &str) {
    let first = seen(&lines(page)[0]);
    let path = format!("{PAGE}/edits");
    let change = edit(std::slice::from_ref(&first), &[with_text(&first, "ཀ")]);
    let refused = post(api, reader, &path, &change).refuses(403, "forbidden");
    assert_eq!(refused, "editing a page requires the role edit; rita has read");
    // The role says nothing about jobs.
    post(api, editor, "/jobs/press/pause", &json!({})).refuses(403, "forbidden");
    let outside = json!({ "id": first["id"], "polygon": [[0, 0], [1, 0], [1, 99_999]], "text": "ཀ" });
    for (wrong, reason) in [
        (
            edit(std::slice::from_ref(&first), std::slice::from_ref(&first)),
            "changes nothing",
        ),
        (
            edit(std::slice::from_ref(&first), &[outside]),
            "corners on the page",
        ),
        (
            edit(std::slice::from_ref(&first), &[with_text(&first, "a\nb")]),
            "control characters",
        ),
        (json!({ "replaces": [], "lines": [] }), "no edit of a page"),
    ] {
        let refused = post(api, editor, &path, &wrong).refuses(422, "invalid");
        assert!(refused.contains(reason), "{refused}");
    }
    let unknown = json!({ "id": "nobody", "polygon": first["polygon"], "text": "x" });
    for stale in [with_text(&first, "another reading"), unknown] {
        let late = edit(std::slice::from_ref(&stale), &[with_text(&stale, "ཀ")]);
        let refused = post(api, editor, &path, &late).refuses(409, "conflict");
        assert!(refused.contains("read again since"), "{refused}");
    }
    post(api, editor, "/jobs/press/volumes/W1-I0/pages/9/edits", &change).refuses(404, "not_found");
    assert_eq!(api.get(PAGE).is(200).json()["revision"], 0);
}

#[test]
fn what_people_have_corrected_holds() {
    let mut site = site();
    let (reader, editor, other) = (
        token(&site, "rita", "read"),
        token(&site, "eva", "edit"),
        token(&site, "otto", "edit"),
    );
    let file = site.path("tokens").display().to_string();
    site.settings.push(("api.tokens_file", file));
    let orchestrator = Node::start(&site, "orchestrator", &["127.0.0.1:1"]);
    let _worker = Node::start(&site, "cpu,gpu", &[orchestrator.address()]);
    finish(site.command(["job", "create", "press", "--force"])).exits(0);
    finish(site.command(["job", "status", "press", "--wait"])).exits(0);
    let api = Api::of(&site, &orchestrator);
    let page = api.get(PAGE).is(200).json();
    let read = lines(&page);
    assert!(read.len() > 4, "{page}");
    edits_are_checked(&api, &page, &reader, &editor);

    let path = format!("{PAGE}/edits");
    let corrected = "བཀྲ་ཤིས་བདེ་ལེགས་ཞུ།";
    let change = edit(&[seen(&read[1])], &[with_text(&read[1], corrected)]);
    for _ in 0..2 {
        let after = post(&api, &editor, &path, &change).is(200).json();
        assert_eq!(after["revision"], 1);
        assert_eq!(after["lines"][1]["text"], corrected);
        assert_eq!(after["lines"][1]["corrected"]["who"], "eva");
        assert_eq!(after["lines"][1]["confidence"], Value::Null);
    }
    let late = edit(&[seen(&read[1])], &[with_text(&read[1], "ཀ")]);
    let refused = post(&api, &other, &path, &late).refuses(409, "conflict");
    assert!(refused.starts_with("eva has changed line"), "{refused}");
    // A line is split, another deleted, and a note between lines added.
    let halves = |line: &Value| {
        let polygon = line["polygon"].clone();
        let part = |id: Value, text: &str| json!({ "id": id, "polygon": polygon, "text": text });
        [
            part(line["id"].clone(), "ཀ་ཁ"),
            part(json!(Uuid::new_v4()), "ག་ང"),
        ]
    };
    post(&api, &other, &path, &edit(&[seen(&read[2])], &halves(&read[2]))).is(200);
    post(&api, &editor, &path, &edit(&[seen(&read[3])], &[])).is(200);
    let note =
        json!({ "id": Uuid::new_v4(), "polygon": [[1, 1], [90, 1], [90, 20], [1, 20]], "text": "མཆན།" });
    let added = edit(&[seen(&read[0])], &[seen(&read[0]), note]);
    let after = post(&api, &editor, &path, &added).is(200).json();
    let mut expected = texts(&page);
    expected.splice(1..4, ["མཆན།", corrected, "ཀ་ཁ", "ག་ང"].map(str::to_owned));
    assert_eq!(texts(&after), expected);
    let original = api.get(&format!("{PAGE}?original=true")).is(200).json();
    assert_eq!(texts(&original), texts(&page));

    seen_by_all(&site, &api, corrected, read[1]["text"].as_str().unwrap());
    taken_out_and_in(&site, &api, &editor);
    kept_by_a_rerun(&site, &api, corrected);
}

/// Exports, search and evaluation have what people have written, and not without being asked what was read.
fn seen_by_all(site: &Site, api: &Api, corrected: &str, read: &str) {
    let text = exported(site, "corrected", &[]);
    assert!(
        text.contains(corrected) && text.contains("མཆན།") && !text.contains(read),
        "{text}"
    );
    let text = exported(site, "original", &["--original"]);
    assert!(!text.contains(corrected) && text.contains(read), "{text}");
    let downloaded = api
        .get("/jobs/press/volumes/W1-I0/pages/1/pagexml")
        .is(200)
        .text();
    assert!(downloaded.contains(corrected), "{downloaded}");

    let find = || {
        api.get("/search?query=%E0%BD%96%E0%BD%91%E0%BD%BA%E0%BC%8B%E0%BD%A3%E0%BD%BA%E0%BD%82%E0%BD%A6%E0%BC%8B%E0%BD%9E%E0%BD%B4&job=press").is(200).json()
    };
    Wait::until("the search finds what was corrected").sees(find, |found| found.to_string().contains("p0"));

    let truth = site.path("truth");
    fs::create_dir_all(&truth).unwrap();
    let scan = &pages()[0];
    let name = format!("p0.{}", extension(scan));
    fs::copy(scan, truth.join(&name)).unwrap();
    let page = texts(&api.get(PAGE).is(200).json());
    fs::write(truth.join("p0.txt"), page.join("\n")).unwrap();
    let score = |options: &[&str]| {
        let command = [
            &["eval", truth.to_str().unwrap(), "--job", "press", "--json"],
            options,
        ]
        .concat();
        finish(site.command_of(&command)).exits(0).json()
    };
    let (people, machine) = (score(&[]), score(&["--original"]));
    let errors = |report: &Value| report["pages"][0]["characters"]["edits"].as_u64();
    assert_eq!(errors(&people), Some(0), "{people}");
    assert!(errors(&machine) > Some(10), "{machine}");
}

fn taken_out_and_in(site: &Site, api: &Api, editor: &str) {
    let listed = command(site, &["corrections", "list", "press"]);
    let page = &listed["pages"][0];
    assert_eq!(
        (&page["revision"], &page["page"]),
        (&json!(4), &json!(1)),
        "{listed}"
    );
    assert_eq!(
        (&page["lines"], &page["deleted"]),
        (&json!(4), &json!(1)),
        "{listed}"
    );
    let history = command(
        site,
        &["corrections", "history", "--volume", "W1-I0", "--who", "otto"],
    );
    assert_eq!(history["edits"].as_array().unwrap().len(), 1, "{history}");

    let folder = site.path("lines");
    let to = folder.to_str().unwrap();
    finish(site.command(["corrections", "export", "press", "--lines", to])).exits(0);
    let manifest = fs::read_to_string(folder.join("lines.jsonl")).unwrap();
    assert_eq!(manifest.lines().count(), 4, "{manifest}");
    for line in manifest.lines() {
        let line: Value = serde_json::from_str(line).unwrap();
        let picture = folder.join(line["file"].as_str().unwrap());
        let (width, _) = image::image_dimensions(&picture).unwrap();
        assert!(width > 40, "{line}");
        assert_eq!(
            fs::read_to_string(picture.with_extension("txt")).unwrap(),
            line["text"].as_str().unwrap()
        );
    }
    let again = finish(site.command(["corrections", "export", "press", "--lines", to]));
    assert!(again.stderr.contains("is not empty"), "{again:?}");

    // A page that was corrected elsewhere: exported, changed in a text, and taken in.
    let before = api.get("/jobs/press/volumes/W1-I0/pages/2").is(200).json();
    let first = texts(&before)[0].clone();
    let xml = api.get("/jobs/press/volumes/W1-I0/pages/2/alto").is(200).text();
    let file = site.path("p1.xml");
    let word = xml.split("CONTENT=\"").nth(1).unwrap().split('"').next().unwrap();
    fs::write(
        &file,
        xml.replacen(&format!("CONTENT=\"{word}\""), "CONTENT=\"ལེགས་སྦྱར་\"", 1),
    )
    .unwrap();
    let bad = site.path("bad.xml");
    fs::write(&bad, "<html/>").unwrap();
    let files = [file.to_str().unwrap(), bad.to_str().unwrap()];
    let words = [&["corrections", "import", "press"], &files[..], &["--json"]].concat();
    let taken = finish(site.command_of(&words)).exits(1).json();
    assert_eq!(
        (&taken["files"][0]["changed"], &taken["files"][0]["added"]),
        (&json!(1), &json!(0)),
        "{taken}"
    );
    assert!(
        taken["files"][1]["refused"].as_str().unwrap().contains("neither"),
        "{taken}"
    );
    let after = api.get("/jobs/press/volumes/W1-I0/pages/2").is(200).json();
    assert_eq!(texts(&after)[0], first.replacen(word, "ལེགས་སྦྱར་", 1));
    assert_eq!(texts(&after)[1..], texts(&before)[1..]);
    // The same over HTTP: the file changes nothing any more.
    let body = json!({ "volume": "W1-I0", "document": fs::read_to_string(&file).unwrap() });
    let taken = post(api, editor, "/jobs/press/corrections", &body).is(200).json();
    assert_eq!(taken["files"][0]["changed"], 0, "{taken}");
}

/// Another job that finds the lines anew, with other ids and a little elsewhere, has the corrections of what it finds.
fn kept_by_a_rerun(site: &Site, api: &Api, corrected: &str) {
    let before = texts(&api.get(PAGE).is(200).json());
    finish(site.command(["job", "rerun", "press", "--from", "line_detection", "--force"])).exits(0);
    finish(site.command(["job", "status", "press", "--wait"])).exits(0);
    assert_eq!(texts(&api.get(PAGE).is(200).json()), before);
    let options = [
        "--pipeline",
        "ocr_documents",
        "--config",
        "k_factor=1.5",
        "--config",
        "merge_lines=false",
    ];
    finish(site.command_of(&[&["job", "create", "again", "--force"], &options[..]].concat())).exits(0);
    finish(site.command(["job", "status", "again", "--wait"])).exits(0);
    let again = api.get("/jobs/again/volumes/W1-I0/pages/1").is(200).json();
    assert!(texts(&again).contains(&corrected.to_owned()), "{again}");
    assert_eq!(again["unplaced"], json!([]));
    in_documents(site, corrected);
}

/// Documents are made of what people have written.
fn in_documents(site: &Site, corrected: &str) {
    let written = |folder: &str, options: &[&str]| {
        let to = site.path(folder);
        let command = [
            &[
                "export",
                "--job",
                "again",
                "--format",
                "doctags,tei",
                "--to",
                to.to_str().unwrap(),
            ],
            options,
        ]
        .concat();
        finish(site.command_of(&command)).exits(0);
        ["doctags/W1-I0.doctags", "tei/W1-I0.xml"].map(|file| fs::read_to_string(to.join(file)).unwrap())
    };
    // A line may go on in the next block, so a clause is looked for.
    let clause = corrected.trim_end_matches('།');
    for document in written("documents", &[]) {
        assert!(document.contains(clause), "{document}");
    }
    for document in written("documents as read", &["--original"]) {
        assert!(!document.contains(clause), "{document}");
    }
}

#[test]
fn a_page_takes_so_many_edits_and_says_what_to_do_then() {
    /// Letters of a line, lines of an edit, and edits, which are more than 4,000,000 letters together.
    const FULL: (usize, usize, usize) = (3900, 360, 3);
    let site = site();
    let orchestrator = Node::start(&site, "orchestrator", &["127.0.0.1:1"]);
    let _worker = Node::start(&site, "cpu,gpu", &[orchestrator.address()]);
    finish(site.command(["job", "create", "press"])).exits(0);
    finish(site.command(["job", "status", "press", "--wait"])).exits(0);
    let api = Api::of(&site, &orchestrator);
    let page = api.get(PAGE).is(200).json();
    let first = seen(&lines(&page)[0]);
    let added = || {
        let added = (0..FULL.1).map(|_| {
            let text = "x".repeat(FULL.0);
            json!({ "id": Uuid::new_v4().to_string(), "polygon": first["polygon"], "text": text })
        });
        [first.clone()].into_iter().chain(added).collect::<Vec<_>>()
    };
    let mut kept = json!(null);
    for _ in 0..FULL.2 {
        let adding = edit(std::slice::from_ref(&first), &added());
        post(&api, &api.token, &format!("{PAGE}/edits"), &adding).is(200);
        kept = adding["id"].clone();
    }
    let more = edit(std::slice::from_ref(&first), &[with_text(&first, "more")]);
    let full = post(&api, &api.token, &format!("{PAGE}/edits"), &more).refuses(422, "invalid");
    assert!(full.contains("as many edits as a page may have"), "{full}");
    assert!(full.contains("export it"), "{full}");
    // What is there is still shown, and other pages take edits.
    let other = PAGE.replace("pages/1", "pages/2");
    let line = seen(&lines(&api.get(&other).is(200).json())[0]);
    let edited = edit(std::slice::from_ref(&line), &[with_text(&line, "ཀ")]);
    // One whose id is that of an edit of the full page is not taken for it.
    let mut repeated = edited.clone();
    repeated["id"] = kept;
    let taken = post(&api, &api.token, &format!("{other}/edits"), &repeated).refuses(422, "invalid");
    assert!(taken.contains("another page"), "{taken}");
    post(&api, &api.token, &format!("{other}/edits"), &edited).is(200);
    assert_eq!(
        lines(&api.get(PAGE).is(200).json()).len(),
        lines(&page).len() + FULL.1 * FULL.2
    );
}
