//! Script that makes a table fit for its pipeline.

use std::fmt::Write;

use parkhang_core::domain::EntityPipeline;

use super::columns::{
    COLUMNS, Columns, beside, function_of, indexes, literal, quoted, table_of, trigger_of, view_of,
};
use super::{CREATED_AT, ID, OWN_STEP};

pub(super) fn script(pipeline: &EntityPipeline) -> String {
    let (table, id, created_at) = (table_of(pipeline), quoted(ID), quoted(CREATED_AT));
    let mut script = format!(
        "-- Columns, indexes and view of the entity {}. May be run again; drops nothing.\n\n\
         create table if not exists {table} (\n    {id} bigint generated always as identity primary key\n);\n\n\
         alter table {table}\n    add column if not exists {created_at} timestamp with time zone not null default now()",
        pipeline.name()
    );
    for stage in pipeline.stages() {
        for (ending, kind, default) in COLUMNS {
            let column = quoted(&format!("{}_{ending}", stage.name));
            let _ = write!(script, ",\n    add column if not exists {column} {kind}{default}");
        }
    }
    script.push_str(";\n\n");
    for stage in pipeline.stages() {
        for index in indexes(pipeline, &stage.name) {
            let _ = writeln!(
                script,
                "create index if not exists {} on {table} ({})\n    where {};",
                quoted(&index.name),
                index.on,
                index.condition
            );
        }
    }
    script.push_str(&triggers(pipeline));
    let case = |value: &dyn Fn(&str, &str) -> String| {
        let mut case = "case".to_owned();
        for stage in pipeline.stages() {
            let status = format!("coalesce({}, 'pending')", Columns::of(&stage.name).status);
            let shown = value(stage.name.as_str(), &status);
            let _ = write!(case, "\n        when {status} <> 'completed' then {shown}");
        }
        case + "\n        else 'completed'\n    end"
    };
    let _ = write!(
        script,
        "\ncreate or replace view {} as\nselect {id},\n    {} as current_stage,\n    {} as current_status\nfrom {table};\n",
        beside(pipeline, &view_of(pipeline)),
        case(&|stage, _| literal(stage)),
        case(&|_, status| status.to_owned()),
    );
    script
}

/// Triggers that announce the rows that are queued, by anybody but the workers: these know it, and a notification in each of their
/// transactions would make all of them commit one after the other.
fn triggers(pipeline: &EntityPipeline) -> String {
    let (table, function, channel) = (
        table_of(pipeline),
        function_of(pipeline),
        literal(&pipeline.channel()),
    );
    let mut script = format!(
        "\ncreate or replace function {function}() returns trigger language plpgsql as $$\n\
         begin perform pg_notify(tg_argv[0], tg_argv[1]); return null; end $$;\n\ndo $$ begin\n"
    );
    for stage in pipeline.stages() {
        let (status, name) = (Columns::of(&stage.name).status, trigger_of(&stage.name));
        let _ = write!(
            script,
            "    if not exists (select from pg_trigger where tgrelid = {}::regclass and tgname = {}) then\n        \
             create trigger {} after insert or update of {status} on {table} for each row\n            \
             when (new.{status} = 'queued' and coalesce(current_setting('{OWN_STEP}', true), '') = '')\n            \
             execute function {function}({channel}, {});\n    end if;\n",
            literal(&table),
            literal(&name),
            quoted(&name),
            literal(stage.name.as_str()),
        );
    }
    script.push_str("end $$;\n");
    script
}
