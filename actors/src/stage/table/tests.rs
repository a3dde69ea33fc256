use std::collections::BTreeSet;
use std::fmt::Write;

use parkhang_core::domain::Artifacts;
use parkhang_models::algorithms::Algorithms;
use parkhang_store::artifact::ErrorRow;
use parkhang_test_support::assert_documented;

use super::*;
use crate::stage::{
    combine_pipeline, documents_pipeline, ocr_documents_pipeline, ocr_pipeline, page_ocr_pipeline,
};

fn built_in() -> StageTable {
    StageTable::built_in()
}

#[test]
fn stages_have_names_of_their_own_and_name_tables_that_there_are() {
    let table = built_in();
    let names: BTreeSet<StageName> = table.names().into_iter().collect();
    assert_eq!(names.len(), table.stages().len());
    let written = table.stages().iter().flat_map(|stage| stage.writes);
    let mut known: BTreeSet<&str> = written.map(|schema| schema.name).collect();
    known.extend([SCANS, READINGS]);
    for stage in table.stages() {
        assert!(
            stage
                .reads
                .iter()
                .copied()
                .flatten()
                .all(|read| known.contains(read)),
            "{}",
            stage.name
        );
    }
}

#[test]
fn a_pipeline_reads_what_is_written_before() {
    let refusal = |stages: &[&str]| built_in().pipeline(stages).unwrap_err().to_string();
    assert_eq!(
        refusal(&["line_detection", "ocr"]),
        "stage ocr reads line_images, which no stage before it writes (line_extraction does)"
    );
    assert_eq!(
        refusal(&["ocr", "line_detection", "line_extraction"]),
        "stage ocr reads line_detection, which no stage before it writes (line_detection does)"
    );
    let names: Vec<String> = StageTable::built_in()
        .names()
        .iter()
        .map(ToString::to_string)
        .collect();
    let stages = format!("the stages are {}", names.join(", "));
    assert_eq!(
        refusal(&["line_detecton"]),
        format!("there is no stage line_detecton (did you mean line_detection?); {stages}")
    );
    assert_eq!(refusal(&["print"]), format!("there is no stage print; {stages}"));
    assert_eq!(
        refusal(&["line_detection", "line_detection"]),
        "stage line_detection appears twice in the pipeline"
    );
    assert_eq!(refusal(&[]), "a pipeline needs at least one stage");
    let needy = StageDefinition {
        reads: &[&["drawings"]],
        ..built_in().stages()[0]
    };
    assert_eq!(
        StageTable::new([needy])
            .pipeline(&["line_detection"])
            .unwrap_err()
            .to_string(),
        "stage line_detection reads drawings, which no stage writes"
    );
}

#[test]
fn the_first_stale_stage_is_that_of_the_pipeline() {
    let (before, table) = (JobConfig::default(), built_in());
    let after = |pair: &str| before.clone().with_overrides([pair]).unwrap();
    let stale = |pipeline: &Pipeline, pair: &str| {
        let stage = table.first_stale(pipeline, &before, &after(pair));
        stage.map(ToString::to_string)
    };
    let whole = ocr_pipeline();
    assert_eq!(stale(&whole, "use_tps=false").as_deref(), Some("line_detection"));
    assert_eq!(stale(&whole, "models=ocr=m").as_deref(), Some("ocr"));
    assert_eq!(stale(&whole, "priority=3"), None);
    let lines = table.pipeline(&["line_detection", "line_extraction"]).unwrap();
    assert_eq!(stale(&lines, "beam_width=16"), None, "it reads no text");
}

/// Names in a cell of a table of the guide.
fn cell<'n>(names: impl IntoIterator<Item = &'n str>) -> String {
    let names: Vec<String> = names.into_iter().map(|name| format!("`{name}`")).collect();
    match names.is_empty() {
        true => "-".to_owned(),
        false => names.join(", "),
    }
}

fn page() -> String {
    let cell_of = |pipeline: Pipeline| cell(pipeline.stages().iter().map(StageName::as_str));
    let mut page = include_str!("intro.md")
        .replace("{ocr}", &cell_of(ocr_pipeline()))
        .replace("{page_ocr}", &cell_of(page_ocr_pipeline()))
        .replace("{documents}", &cell_of(documents_pipeline()))
        .replace("{ocr_documents}", &cell_of(ocr_documents_pipeline()))
        .replace("{combine}", &cell_of(combine_pipeline()));
    page.push_str(
        "| stage | hardware | models | reads | writes | keys of the job that decide its results |\n",
    );
    page.push_str("|---|---|---|---|---|---|\n");
    for stage in built_in().stages() {
        let [first, second] = [Algorithms::Gen1, Algorithms::Gen2].map(JobConfig::defaults_for);
        // A key that came later decides only where it is not at its default.
        let tables = JobConfig {
            artifacts: Artifacts::Tables,
            ..second.clone()
        };
        let keys: BTreeSet<String> = [first, second, tables]
            .iter()
            .flat_map(|config| (stage.settings)(config).into_iter().map(|(key, _)| key))
            .collect();
        let models = match stage.models {
            StageModels::None => "none",
            StageModels::All(_) => "all that its node has loaded",
            StageModels::Choice(_) => "one of those that its node has loaded",
        };
        let _ = writeln!(
            page,
            "| `{}` | {} | {models} | {} | {} | {} |",
            stage.name,
            stage.hardware.as_str(),
            stage
                .reads
                .iter()
                .map(|set| cell(set.iter().copied()))
                .collect::<Vec<_>>()
                .join(" or "),
            cell(stage.writes.iter().map(|schema| schema.name)),
            cell(keys.iter().map(String::as_str)),
        );
    }
    page
}

#[test]
fn the_documented_stages_are_those_of_the_table() {
    assert_documented("stages.md", &page());
}

#[test]
fn the_documented_columns_are_those_of_the_tables() {
    let page = include_str!("../../../../docs/artifacts.md");
    let table = built_in();
    let written = table.stages().iter().flat_map(|stage| stage.writes);
    let errors = TableSchema::of::<ErrorRow>();
    for schema in written.chain([&errors]) {
        let title = format!("{}/{}", schema.name, schema.version);
        let section = page.split("\n## ").find(|section| section.starts_with(&title));
        let section = section.unwrap_or_else(|| panic!("{title} has no section"));
        let mut documented = Vec::new();
        for line in section.lines().filter(|line| line.starts_with("| `")) {
            let cells: Vec<&str> = line.split(" | ").collect();
            let (names, data_type) = (cells[0].trim_start_matches("| "), cells[1]);
            let plain = data_type.split([',', ';', ':', '`']).next().unwrap_or_default();
            for name in names.split(", ") {
                documented.push((
                    name.trim_matches('`').to_owned(),
                    plain.trim().to_owned(),
                    data_type.contains("nullable"),
                ));
            }
        }
        let columns: Vec<(String, String, bool)> = schema
            .columns()
            .into_iter()
            .map(|column| (column.name, column.kind, column.nullable))
            .collect();
        assert_eq!(documented, columns, "{title}");
    }
}
