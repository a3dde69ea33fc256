//! Names of columns, tables and indexes, quoted.

use parkhang_core::domain::{EntityPipeline, StageName};

/// Quotes an identifier, so that it is a name whatever is in it.
pub(super) fn quoted(name: &str) -> String {
    format!("\"{}\"", name.replace('"', "\"\""))
}

/// Quotes a text.
pub(super) fn literal(text: &str) -> String {
    format!("'{}'", text.replace('\'', "''"))
}

/// Name of a table, with its schema where one is named.
pub(super) fn table_of(pipeline: &EntityPipeline) -> String {
    beside(pipeline, pipeline.table_name())
}

/// Name of something in the schema of the table.
pub(super) fn beside(pipeline: &EntityPipeline, name: &str) -> String {
    match pipeline.schema() {
        Some(schema) => format!("{}.{}", quoted(schema), quoted(name)),
        None => quoted(name),
    }
}

/// Name of the view with the stage at which each entity stands: `lead_pipeline_status` for the table `leads`.
pub(super) fn view_of(pipeline: &EntityPipeline) -> String {
    let table = pipeline.table_name();
    let one = table
        .strip_suffix('s')
        .filter(|one| !one.is_empty())
        .unwrap_or(table);
    format!("{one}_pipeline_status")
}

/// Function that announces queued rows, in the schema of the table.
pub(super) fn function_of(pipeline: &EntityPipeline) -> String {
    beside(pipeline, "parkhang_row_queued")
}

/// Name of the trigger of a stage that announces its queued rows, not quoted.
pub(super) fn trigger_of(stage: &StageName) -> String {
    format!("notify_{stage}_queued")
}

/// Quoted columns of a stage.
#[derive(Debug, Clone)]
pub(super) struct Columns {
    pub(super) status: String,
    pub(super) job_id: String,
    pub(super) result: String,
    pub(super) error: String,
    pub(super) retry_count: String,
    pub(super) started_at: String,
    pub(super) completed_at: String,
}

/// Endings of the names of a stage's columns, with their types and defaults.
pub(super) const COLUMNS: [(&str, &str, &str); 7] = [
    ("status", "text", " default 'pending'"),
    ("job_id", "text", ""),
    ("result", "jsonb", ""),
    ("error", "text", ""),
    ("retry_count", "integer", " default 0"),
    ("started_at", "timestamp with time zone", ""),
    ("completed_at", "timestamp with time zone", ""),
];

impl Columns {
    pub(super) fn of(stage: &StageName) -> Self {
        let column = |ending: &str| quoted(&format!("{stage}_{ending}"));
        Self {
            status: column("status"),
            job_id: column("job_id"),
            result: column("result"),
            error: column("error"),
            retry_count: column("retry_count"),
            started_at: column("started_at"),
            completed_at: column("completed_at"),
        }
    }
}

/// Partial index of a stage.
#[derive(Debug, Clone)]
pub(super) struct Index {
    /// Name, not quoted.
    pub(super) name: String,
    /// Column, quoted.
    pub(super) on: String,
    pub(super) condition: String,
}

/// Indexes by which the queries of a stage cost what they find, however many rows the table has.
pub(super) fn indexes(pipeline: &EntityPipeline, stage: &StageName) -> [Index; 3] {
    let columns = Columns::of(stage);
    let name = |ending: &str| format!("idx_{}_{stage}_{ending}", pipeline.table_name());
    let is = |status: &str| format!("{} = '{status}'", columns.status);
    [
        Index {
            name: name("queued"),
            on: quoted(super::CREATED_AT),
            condition: is("queued"),
        },
        Index {
            name: name("started"),
            on: columns.started_at.clone(),
            condition: is("started"),
        },
        Index {
            name: name("job_id"),
            on: columns.job_id.clone(),
            condition: format!("{} is not null", columns.job_id),
        },
    ]
}
