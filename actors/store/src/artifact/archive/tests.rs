use std::path::{Path, PathBuf};

use arrow_array::cast::AsArray;
use parquet::arrow::arrow_reader::ParquetRecordBatchReaderBuilder;
use parquet::file::metadata::ParquetMetaData;
use serde_json::Value;

use super::texts::archive_texts;
use super::*;
use crate::artifact::ArtifactError;
use crate::storage::ArtifactKey;
use parkhang_core::domain::ArchiveReading;

fn fixture(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("tests/fixtures/archive")
        .join(name)
}

/// File in the shared folder; `None`, with a message, where the folder is absent.
fn shared(name: &str) -> Option<PathBuf> {
    let found =
        std::env::var_os("PARKHANG_SHARED").map(|shared| Path::new(&shared).join("golden").join(name));
    let found = found.filter(|path| path.exists());
    if found.is_none() {
        eprintln!("SKIPPED: PARKHANG_SHARED has no golden/{name}");
    }
    found
}

fn text(value: &Value, name: &str) -> String {
    value[name]
        .as_str()
        .unwrap_or_else(|| panic!("{name}"))
        .to_owned()
}

fn number(value: &Value, name: &str) -> usize {
    usize::try_from(value[name].as_u64().unwrap_or_else(|| panic!("{name}"))).unwrap()
}

fn vision_row(row: &Value) -> VisionArchiveRow {
    VisionArchiveRow {
        img_file_name: text(row, "img_file_name"),
        img_idx: number(row, "img_idx"),
        source_etag: text(row, "source_etag"),
        nb_pages: number(row, "nb_pages"),
        languages: row["languages"]
            .as_array()
            .unwrap()
            .iter()
            .map(|code| code.as_str().unwrap().to_owned())
            .collect(),
        confidence: row["confidence"].as_f64().unwrap(),
        text_len: number(row, "text_len"),
        nb_lines_tib: number(row, "nb_lines_tib"),
        text: text(row, "text"),
    }
}

fn chat_row(row: &Value) -> ChatArchiveRow {
    let flag = |name: &str| row[name].as_bool().unwrap();
    ChatArchiveRow {
        img_file_name: text(row, "img_file_name"),
        source_etag: text(row, "source_etag"),
        ok: flag("ok"),
        truncated: flag("truncated"),
        finish_reason: text(row, "finish_reason"),
        page_text: text(row, "page_text"),
        output_tokens: i32::try_from(row["output_tokens"].as_i64().unwrap()).unwrap(),
        error_stage: text(row, "error_stage"),
        error_message: text(row, "error_message"),
        model_id: text(row, "model_id"),
    }
}

/// Physical form of a table: its columns with their types, levels and codecs, and the rows of its row groups.
fn physical(metadata: &ParquetMetaData) -> (Vec<String>, Vec<i64>) {
    let schema = metadata.file_metadata().schema_descr();
    let group = metadata.row_group(0);
    let columns = schema
        .columns()
        .iter()
        .zip(group.columns())
        .map(|(column, chunk)| {
            format!(
                "{} {} {:?} {} {} {:?}",
                column.path(),
                column.physical_type(),
                column.logical_type_ref(),
                column.max_def_level(),
                column.max_rep_level(),
                chunk.compression(),
            )
        });
    let groups = metadata.row_groups().iter().map(|group| group.num_rows());
    (columns.collect(), groups.collect())
}

type Read = ((Vec<String>, Vec<i64>), arrow_schema::SchemaRef, RecordBatch);

fn read(file: impl Into<Bytes>) -> Read {
    let builder = ParquetRecordBatchReaderBuilder::try_new(file.into())
        .unwrap()
        .with_batch_size(10_000);
    let (form, schema) = (physical(builder.metadata()), builder.schema().clone());
    let mut batches = builder.build().unwrap();
    (form, schema, batches.next().unwrap().unwrap())
}

fn assert_same(ours: Bytes, theirs: &Path) {
    let (ours, theirs) = (read(ours), read(std::fs::read(theirs).unwrap()));
    assert_eq!(ours.0, theirs.0);
    let fields = |read: &Read| -> Vec<String> {
        let fields = read.1.fields().iter();
        fields
            .map(|field| format!("{} {} {}", field.name(), field.data_type(), field.is_nullable()))
            .collect()
    };
    assert_eq!(fields(&ours), fields(&theirs));
    assert_eq!(ours.2.columns(), theirs.2.columns());
}

/// Rows: 84.
#[test]
fn the_table_for_google_vision_is_that_of_the_archive() {
    let rows = std::fs::read_to_string(fixture("rows.jsonl")).unwrap();
    let rows: Vec<VisionArchiveRow> = rows
        .lines()
        .map(|line| vision_row(&serde_json::from_str(line).unwrap()))
        .collect();
    assert!(rows.len() > 30);
    assert_same(vision_archive(&rows).unwrap(), &fixture("rows-snappy.parquet"));
}

/// Rows: 84.
#[test]
fn the_table_for_a_language_model_is_that_of_the_archive() {
    let check = |folder: &Path, name: &str| {
        let run = std::fs::read_to_string(folder.join(format!("{name}.json"))).unwrap();
        let run: Value = serde_json::from_str(&run).unwrap();
        let rows = run["artifacts"][0]["rows"].as_array().unwrap();
        let rows: Vec<ChatArchiveRow> = rows.iter().map(chat_row).collect();
        assert_same(
            chat_archive(&rows).unwrap(),
            &folder.join(format!("{name}.parquet")),
        );
    };
    check(&fixture(""), "mixed_errors");
    if let Some(folder) = shared("qwen/volumes") {
        for name in [
            "happy",
            "truncated",
            "loops_and_refusals_kept",
            "empty_and_none_text",
        ] {
            check(&folder, name);
        }
    }
}

/// The archive's program overflows here, and its volume fails after it was paid.
///
/// Rows: 84.
#[test]
fn what_the_columns_have_no_room_for_is_an_error_that_names_the_page() {
    let row = VisionArchiveRow {
        img_file_name: "p.jpg".to_owned(),
        img_idx: 32_767,
        source_etag: String::new(),
        nb_pages: 1,
        languages: Vec::new(),
        confidence: 0.1,
        text_len: 0,
        nb_lines_tib: 0,
        text: String::new(),
    };
    let (_, _, read) = read(vision_archive(std::slice::from_ref(&row)).unwrap());
    let confidence = read
        .column(5)
        .as_primitive::<arrow_array::types::Float16Type>()
        .value(0);
    assert_eq!(confidence.to_bits(), f16::from_f64(0.1).to_bits());
    let wide = VisionArchiveRow {
        img_idx: 32_768,
        ..row
    };
    let error = vision_archive(&[wide]).unwrap_err().to_string();
    assert_eq!(
        error,
        "page p.jpg: img_idx is 32768, and the archive's table has room for 32767"
    );
}

/// Rows: 85.
#[test]
fn texts_are_read_from_both_tables_without_those_of_pages_that_failed() {
    let key = ArtifactKey::new("gv/W1/I1/ab/W1-I1-ab-gv.parquet").unwrap();
    let vision = Bytes::from(std::fs::read(fixture("rows-snappy.parquet")).unwrap());
    let texts = archive_texts(ArchiveReading::Vision, &key, vision.clone()).unwrap();
    let rows = std::fs::read_to_string(fixture("rows.jsonl")).unwrap();
    let mut expected = std::collections::HashMap::new();
    for row in rows
        .lines()
        .map(|line| vision_row(&serde_json::from_str(line).unwrap()))
    {
        if !row.text.trim().is_empty() {
            expected.entry(row.img_file_name).or_insert(row.text);
        }
    }
    assert!(expected.len() > 10);
    assert_eq!(texts, expected);

    let chat = Bytes::from(std::fs::read(fixture("mixed_errors.parquet")).unwrap());
    let run = std::fs::read_to_string(fixture("mixed_errors.json")).unwrap();
    let run: Value = serde_json::from_str(&run).unwrap();
    let rows = run["artifacts"][0]["rows"].as_array().unwrap();
    let rows: Vec<ChatArchiveRow> = rows.iter().map(chat_row).collect();
    assert!(rows.iter().any(|row| !row.ok));
    let texts = archive_texts(ArchiveReading::Chat, &key, chat).unwrap();
    let read = rows
        .iter()
        .filter(|row| row.ok && !row.page_text.trim().is_empty());
    let names: std::collections::HashSet<&str> = read.map(|row| row.img_file_name.as_str()).collect();
    assert_eq!(
        texts
            .keys()
            .map(String::as_str)
            .collect::<std::collections::HashSet<_>>(),
        names
    );

    let wrong = archive_texts(ArchiveReading::Chat, &key, vision.clone()).unwrap_err();
    assert!(wrong.to_string().contains("page_text"), "{wrong}");
    let torn = archive_texts(ArchiveReading::Vision, &key, vision.slice(..vision.len() / 2));
    assert!(matches!(torn, Err(ArtifactError::Unreadable { .. })));
}
