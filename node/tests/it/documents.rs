//! The pipeline `documents`: blocks in order, tables, and the forms in which documents are written.

use std::path::{Path, PathBuf};

use parkhang_core::domain::{JobKey, VolumeId};
use parkhang_documents::{ChunkKind, Role};
use parkhang_store::artifact::{ArtifactLayout, BlockRow, ChunkRow, OcrResultRow, VectorRow, VolumeLayout};
use serde_json::{Value, json};

use crate::support::{Finished, files, finish, node, provenance, rows, workspace};

/// Namespaces of TEI and of XML itself.
const TEI: &str = "http://www.tei-c.org/ns/1.0";
const XML: &str = "http://www.w3.org/XML/1998/namespace";

pub(crate) fn paper() -> PathBuf {
    workspace().join("tests/fixtures/pdf/paper.pdf")
}

fn read(input: &Path, out: &Path) -> Finished {
    let mut command = node([
        "ocr",
        "--json",
        "--export",
        "text",
        "--pipeline",
        "documents",
        "--out",
    ]);
    command.arg(out).arg(input);
    finish(command)
}

fn export(out: &Path, format: &str, to: &Path) -> Finished {
    let mut command = node(["export", "--format", format, "--to"]);
    command.arg(to).arg(out);
    finish(command)
}

pub(crate) fn layout(volume: &str) -> VolumeLayout {
    let volume: VolumeId = volume.parse().unwrap();
    ArtifactLayout::bdrc_v2(&JobKey::new("documents").unwrap()).volume(&volume)
}

#[test]
fn a_paper_becomes_a_document() {
    let folder = tempfile::tempdir().unwrap();
    let out = folder.path().join("out");
    read(&paper(), &out).exits(0);
    let key = layout("pdf-paper").blocks();
    let blocks: Vec<BlockRow> = rows(&out, &key);
    let texts_of = |role: Role| -> Vec<String> {
        let blocks = blocks.iter().filter(|block| block.role == role);
        blocks.map(|block| block.text.replace('\n', " ")).collect()
    };
    assert_eq!(
        texts_of(Role::Title),
        ["Slow drift of harbour sediments under mixed tidal forcing"]
    );
    assert_eq!(
        texts_of(Role::Heading)[..3],
        ["1 Introduction", "2 Data and methods", "3 Results"]
    );
    assert_eq!(texts_of(Role::Header).len(), 3);
    assert_eq!(texts_of(Role::Footer), ["1", "2", "3"]);
    assert_eq!(texts_of(Role::Formula), ["q = k u^3 (1 - h/w) + e"]);
    assert_eq!(texts_of(Role::Figure).len(), 2);
    let places: Vec<i32> = blocks
        .iter()
        .filter(|block| block.page == 1)
        .map(|block| block.block_index)
        .collect();
    assert_eq!(places, (0..).take(places.len()).collect::<Vec<i32>>());
    let tables: Vec<&BlockRow> = blocks.iter().filter(|block| block.role == Role::Table).collect();
    let [table] = tables[..] else {
        panic!("{} tables", tables.len())
    };
    for text in ["slope", "Tsuen Wan", "3.87", "±9.60", "Foshan"] {
        let cells = table.cells.iter().filter(|cell| cell.text == text);
        assert_eq!(cells.count(), 1, "{text}: {:?}", table.cells);
    }

    let bytes = std::fs::read(out.join(key.as_str())).unwrap();
    read(&paper(), &out).exits(0);
    assert_eq!(std::fs::read(out.join(key.as_str())).unwrap(), bytes);
    let again = folder.path().join("again");
    read(&paper(), &again).exits(0);
    assert_eq!(
        std::fs::read(again.join(key.as_str())).unwrap(),
        bytes,
        "the same bytes"
    );
}

/// Rows: 200, 201.
#[test]
fn a_document_is_cut_into_chunks() {
    let folder = tempfile::tempdir().unwrap();
    let out = folder.path().join("out");
    read(&paper(), &out).exits(0);
    let key = layout("pdf-paper").chunks();
    let chunks: Vec<ChunkRow> = rows(&out, &key);
    let title = "Slow drift of harbour sediments under mixed tidal forcing";
    assert!(chunks[0].text.starts_with(title), "{}", chunks[0].text);
    for of_page in chunks.chunk_by(|one, next| one.page == next.page) {
        let numbers: Vec<i32> = of_page.iter().map(|chunk| chunk.chunk).collect();
        assert_eq!(numbers, (0..).take(of_page.len()).collect::<Vec<i32>>());
    }
    for chunk in &chunks {
        assert_eq!(chunk.image_name, format!("page_{}", chunk.page));
        assert_eq!(chunk.pages.first(), Some(&chunk.page));
        assert!((1..=256).contains(&chunk.tokens), "{}", chunk.tokens);
        assert_eq!(chunk.headings[0], title);
        assert!(
            !chunk.text.contains("Journal of Small Measurements, vol. 16"),
            "{}",
            chunk.text
        );
    }
    assert!(
        chunks
            .iter()
            .any(|chunk| chunk.headings == [title, "2 Data and methods"])
    );
    let tables: Vec<&ChunkRow> = chunks
        .iter()
        .filter(|chunk| chunk.kind == ChunkKind::Table)
        .collect();
    assert!(
        tables.iter().all(|chunk| chunk.text.contains("slope")),
        "{tables:?}"
    );
    assert!(
        tables.iter().any(|chunk| chunk.text.contains("Tsuen Wan | ")),
        "{tables:?}"
    );

    let records = |stage: &str| -> Vec<Value> {
        let file = format!("manifests/documents/pdf-paper/parkhang.{stage}.manifest.jsonl");
        let lines = std::fs::read_to_string(out.join(file)).unwrap();
        lines
            .lines()
            .map(|line| serde_json::from_str(line).unwrap())
            .collect()
    };
    for record in records("doctags") {
        assert_eq!(
            (&record["parse_engine"], &record["model_name"]),
            (&json!("local"), &json!("layout"))
        );
    }
    let records = records("chunk");
    let counts = records
        .iter()
        .map(|record| record["chunk_count"].as_u64().unwrap());
    assert_eq!(counts.sum::<u64>(), chunks.len() as u64);
    assert_eq!(records[0]["chunks_format"], "chunks/2");
    let of_first = chunks.iter().filter(|chunk| chunk.page == 1);
    let longest = of_first.map(|chunk| f64::from(chunk.tokens)).fold(0.0, f64::max);
    let percentile = |name: &str| records[0][name].as_f64().unwrap();
    assert!(0.0 < percentile("tokens_p50") && percentile("tokens_p50") <= percentile("tokens_p95"));
    assert!(percentile("tokens_p95") <= longest);

    let bytes = std::fs::read(out.join(key.as_str())).unwrap();
    let mut shorter = node([
        "ocr",
        "--pipeline",
        "documents",
        "--config",
        "chunk_max_tokens=96",
        "--out",
    ]);
    shorter.arg(&out).arg(paper());
    finish(shorter).exits(0);
    let cut: Vec<ChunkRow> = rows(&out, &key);
    assert!(cut.len() > chunks.len() && cut.iter().all(|chunk| chunk.tokens <= 96));
    read(&paper(), &out).exits(0);
    assert_eq!(
        std::fs::read(out.join(key.as_str())).unwrap(),
        bytes,
        "the same bytes"
    );

    let to = folder.path().join("to");
    export(&out, "chunks", &to).exits(0);
    let lines = std::fs::read_to_string(to.join("chunks/pdf-paper.jsonl")).unwrap();
    let records: Vec<Value> = lines
        .lines()
        .map(|line| serde_json::from_str(line).unwrap())
        .collect();
    assert_eq!(records.len(), chunks.len());
    assert_eq!(records[0]["text"], chunks[0].text);
    assert_eq!(records[0]["boxes"][0]["page"], 1);
}

/// Rows: 163, 202.
#[test]
fn chunks_have_vectors_of_their_meaning_and_their_terms() {
    let folder = tempfile::tempdir().unwrap();
    let out = folder.path().join("out");
    read(&paper(), &out).exits(0);
    let chunks: Vec<ChunkRow> = rows(&out, &layout("pdf-paper").chunks());
    let key = layout("pdf-paper").vectors();
    let vectors: Vec<VectorRow> = rows(&out, &key);
    assert_eq!(vectors.len(), chunks.len());
    for (vector, chunk) in vectors.iter().zip(&chunks) {
        assert_eq!(
            (vector.chunk, &vector.image_name),
            (chunk.chunk, &chunk.image_name)
        );
        let length: f32 = vector.dense.iter().map(|number| number * number).sum();
        assert!(
            vector.dense.len() == 512 && (length - 1.0).abs() < 1e-4,
            "{length}"
        );
        assert!(vector.indices.len() > 20 && vector.indices.is_sorted());
        assert!(vector.values.iter().all(|weight| *weight > 0.0));
        assert_eq!(vector.values.len(), vector.indices.len());
    }
    let made = provenance::<VectorRow>(&out, &key);
    assert_eq!(made.models[0].name, "embeddings");
    let manifest = out.join("manifests/documents/pdf-paper/parkhang.embed.manifest.jsonl");
    let records = std::fs::read_to_string(manifest).unwrap();
    let records = records
        .lines()
        .map(|line| serde_json::from_str::<Value>(line).unwrap());
    let embedded: Vec<Value> = records.filter(|record| record["dim_dense"] == 512).collect();
    let count = |name: &str| {
        embedded
            .iter()
            .filter_map(|record| record[name].as_u64())
            .sum::<u64>()
    };
    assert_eq!(
        (count("vectors_dense"), count("vectors_sparse")),
        (chunks.len() as u64, chunks.len() as u64)
    );
    assert!(
        embedded
            .iter()
            .all(|record| record["avg_nnz_sparse"].as_f64() > Some(20.0))
    );
    let mut again = node([
        "ocr",
        "--pipeline",
        "documents",
        "--force",
        "--stages",
        "embed..reduce",
        "--out",
    ]);
    again.arg(&out).arg(paper());
    finish(again).exits(0);
    let made_again: Vec<VectorRow> = rows(&out, &key);
    assert_eq!(made_again, vectors, "the same vectors, to the last bit");
}

#[test]
fn documents_are_written_in_several_forms() {
    let folder = tempfile::tempdir().unwrap();
    let out = folder.path().join("out");
    read(&paper(), &out).exits(0);
    let to = folder.path().join("to");
    export(&out, "doctags,markdown,document,bboxes", &to).exits(0);
    let text = |name: &str| std::fs::read_to_string(to.join(name)).unwrap();

    let markdown = text("markdown/pdf-paper.md");
    assert!(
        markdown.starts_with("# Slow drift of harbour sediments under mixed tidal forcing\n\nPeter Okafor")
    );
    // Parted by a hyphen at the end of a line, and over the end of a column.
    assert!(markdown.contains("third power of the friction velocity, in agreement"));
    assert!(!markdown.contains("Journal of Small Measurements, vol. 16"));
    let doctags = text("doctags/pdf-paper.doctags");
    assert_eq!(doctags.matches("<page_break>").count(), 2);
    assert_eq!(doctags.matches("<otsl>").count(), 1);
    assert!(doctags.contains("<fcel>Tsuen Wan<"));
    assert!(text("document/pdf-paper.html").contains("<h2 data-page=\"1\">1 Introduction</h2>"));
    let page: Value = serde_json::from_str(&text("pdf-paper/page_1.json")).unwrap();
    assert_eq!(page["blocks"][1]["role"], "title");
    assert_eq!(
        page["tables"][0]["rows"].as_u64().map(|rows| rows >= 5),
        Some(true),
        "{}",
        page["tables"]
    );
    assert!(page["words"].as_array().is_some_and(|words| !words.is_empty()));

    let other = folder.path().join("other");
    export(&out, "doctags,markdown,document,bboxes", &other).exits(0);
    assert_eq!(files(&to), files(&other), "the same bytes");
}

/// Values of fields are drawn after all labels of a page, and are read where they are shown.
#[test]
fn values_in_the_fields_of_a_form_stand_behind_their_labels() {
    let folder = tempfile::tempdir().unwrap();
    let out = folder.path().join("out");
    read(&workspace().join("tests/fixtures/pdf/form.pdf"), &out).exits(0);
    let to = folder.path().join("docs");
    for (format, file, name) in [
        (
            "doctags",
            "doctags/pdf-form.doctags",
            "Name of the tenant Harriet Wongchuk</text>",
        ),
        (
            "markdown",
            "markdown/pdf-form.md",
            "\nName of the tenant Harriet Wongchuk\n",
        ),
    ] {
        export(&out, format, &to).exits(0);
        let text = std::fs::read_to_string(to.join(file)).unwrap();
        let places = [
            name,
            "Address 17 Ferry Street, Stanley",
            "Monthly rent HK",
            "Begins on 1 March 2026",
        ]
        .map(|line| text.find(line).unwrap_or_else(|| panic!("{line}: {text}")));
        assert!(places.is_sorted(), "{text}");
        assert!(!text.contains("remark"), "a field that is not shown: {text}");
    }
}

#[test]
fn a_volume_without_blocks_is_refused_with_the_way_to_make_them() {
    let folder = tempfile::tempdir().unwrap();
    let out = folder.path().join("out");
    let mut command = node(["ocr", "--export", "text", "--out"]);
    command.arg(&out).arg(paper());
    finish(command).exits(0);
    let refused = export(&out, "markdown", &folder.path().join("to"));
    assert_eq!(refused.code, Some(1));
    assert!(
        refused
            .stderr
            .contains("pdf-paper: no blocks yet: the pipeline documents makes them (--pipeline documents)"),
        "{}",
        refused.stderr
    );
}

#[test]
fn a_volume_that_was_read_becomes_a_document_without_being_read_again() {
    let folder = tempfile::tempdir().unwrap();
    let out = folder.path().join("out");
    let scans = workspace().join("tests/fixtures/sample");
    let run = |pipeline: &str| {
        let mut command = node([
            "ocr",
            "--json",
            "--export",
            "text",
            "--job",
            "J1",
            "--pipeline",
            pipeline,
        ]);
        command.arg("--out").arg(&out).arg(&scans);
        finish(command).exits(0)
    };
    run("ocr");
    let volume: VolumeId = "W0PARKHANG-I0SAMPLE".parse().unwrap();
    let layout = ArtifactLayout::bdrc_v2(&JobKey::new("J1").unwrap()).volume(&volume);
    let texts = out.join(layout.ocr_results().as_str());
    let read_at = std::fs::metadata(&texts).unwrap().modified().unwrap();
    run("ocr_documents");
    assert_eq!(std::fs::metadata(&texts).unwrap().modified().unwrap(), read_at);

    let bare = |text: &str| -> String { text.split_whitespace().collect() };
    let lines: Vec<OcrResultRow> = rows(&out, &layout.ocr_results());
    let blocks: Vec<BlockRow> = rows(&out, &layout.line_blocks());
    let of_page = |page: i32| -> String {
        let blocks = blocks
            .iter()
            .filter(|block| block.page_index == page && !block.role.is_furniture());
        blocks.map(|block| bare(&block.text)).collect()
    };
    for page in 0..6 {
        let lines = lines.iter().filter(|line| line.page_index == page);
        let text: String = lines.map(|line| bare(&line.text)).collect();
        assert_eq!(of_page(page), text, "page {page}");
    }
    let chunks: Vec<ChunkRow> = rows(&out, &layout.chunks());
    assert!(
        chunks.iter().all(|chunk| chunk.lang.as_deref() == Some("bo")),
        "{chunks:?}"
    );

    let to = folder.path().join("to");
    export(&out, "tei,markdown", &to).exits(0);
    let tei = std::fs::read_to_string(to.join("tei/W0PARKHANG-I0SAMPLE.xml")).unwrap();
    let tei = roxmltree::Document::parse(&tei).unwrap();
    let named = |name: &'static str| {
        tei.descendants()
            .filter(move |node| node.has_tag_name((TEI, name)))
    };
    assert_eq!((named("pb").count(), named("surface").count()), (6, 6));
    let ids: Vec<&str> = tei
        .descendants()
        .filter_map(|node| node.attribute((XML, "id")))
        .collect();
    let links: Vec<&str> = tei
        .descendants()
        .filter_map(|node| node.attribute("facs"))
        .collect();
    assert!(
        !links.is_empty() && links.iter().all(|link| ids.contains(&&link[1..])),
        "{links:?}"
    );
    let body = named("body").next().unwrap();
    let texts = body.descendants().filter(|node| node.is_text());
    let written: String = texts.filter_map(|node| node.text()).map(bare).collect();
    let read: String = blocks.iter().map(|block| bare(&block.text)).collect();
    assert_eq!(written, read);
}
