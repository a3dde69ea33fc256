//! Comparison of a table with what its pipeline needs.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

use parkhang_core::domain::EntityPipeline;
use sqlx::postgres::PgPool;

use super::columns::{COLUMNS, beside, indexes, table_of, trigger_of, view_of};
use super::{CREATED_AT, ID};
use crate::StateError;

/// Something that a table lacks for its pipeline.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum EntityLack {
    Table(String),
    Column {
        name: String,
        kind: &'static str,
    },
    /// A column is of a type that is of no use.
    Type {
        name: String,
        kind: &'static str,
        found: String,
    },
    Index(String),
    Trigger(String),
    View(String),
}

impl EntityLack {
    /// False for what is missed by operators and by the speed of queries alone.
    pub fn is_fatal(&self) -> bool {
        !matches!(self, Self::Index(_) | Self::Trigger(_) | Self::View(_))
    }
}

impl fmt::Display for EntityLack {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Table(name) => write!(f, "there is no table {name}"),
            Self::Column { name, kind } => write!(f, "there is no column {name} {kind}"),
            Self::Type { name, kind, found } => write!(f, "the column {name} is {found}, and not {kind}"),
            Self::Index(name) => write!(f, "there is no index {name}"),
            Self::Trigger(name) => write!(f, "there is no trigger {name}"),
            Self::View(name) => write!(f, "there is no view {name}"),
        }
    }
}

/// Table that cannot carry its pipeline.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{}; `node entities schema {}` prints what to run", .lacks.iter().map(ToString::to_string).collect::<Vec<_>>().join("; "), .entity)]
pub struct UnfitEntity {
    pub entity: String,
    pub lacks: Vec<EntityLack>,
}

/// Types that serve as another one.
fn serves(kind: &str, found: &str) -> bool {
    match kind {
        "text" => matches!(found, "text" | "character varying"),
        "integer" => matches!(found, "integer" | "bigint" | "smallint"),
        other => other == found,
    }
}

/// Returns all that is missing, and the type of the column `id`.
pub(super) async fn look(
    pool: &PgPool,
    pipeline: &EntityPipeline,
) -> Result<(Vec<EntityLack>, Option<String>), StateError> {
    let table = table_of(pipeline);
    let found: Vec<(String, String)> = sqlx::query_as(
        "select attname::text, format_type(atttypid, null) from pg_attribute
         where attrelid = to_regclass($1) and attnum > 0 and not attisdropped",
    )
    .bind(&table)
    .fetch_all(pool)
    .await?;
    if found.is_empty() {
        return Ok((vec![EntityLack::Table(table)], None));
    }
    let mut lacks = lacking_columns(pipeline, &found.iter().cloned().collect());
    let there: BTreeSet<String> =
        sqlx::query_scalar("select c.relname::text from pg_index i join pg_class c on c.oid = i.indexrelid where i.indrelid = to_regclass($1)")
            .bind(&table)
            .fetch_all(pool)
            .await?
            .into_iter()
            .collect();
    let wanted = pipeline
        .stages()
        .iter()
        .flat_map(|stage| indexes(pipeline, &stage.name));
    let missing = wanted.filter(|index| !there.contains(&index.name));
    lacks.extend(missing.map(|index| EntityLack::Index(index.name)));
    let there: BTreeSet<String> =
        sqlx::query_scalar("select tgname::text from pg_trigger where tgrelid = to_regclass($1)")
            .bind(&table)
            .fetch_all(pool)
            .await?
            .into_iter()
            .collect();
    let wanted = pipeline.stages().iter().map(|stage| trigger_of(&stage.name));
    let missing = wanted.filter(|trigger| !there.contains(trigger));
    lacks.extend(missing.map(EntityLack::Trigger));
    let view = view_of(pipeline);
    let has_view: bool = sqlx::query_scalar("select to_regclass($1) is not null")
        .bind(beside(pipeline, &view))
        .fetch_one(pool)
        .await?;
    if !has_view {
        lacks.push(EntityLack::View(view));
    }
    let id = found.into_iter().find(|(name, _)| name == ID);
    Ok((lacks, id.map(|(_, kind)| kind)))
}

fn lacking_columns(pipeline: &EntityPipeline, found: &BTreeMap<String, String>) -> Vec<EntityLack> {
    let mut lacks = Vec::new();
    if !found.contains_key(ID) {
        let (name, kind) = (ID.to_owned(), "of any type");
        lacks.push(EntityLack::Column { name, kind });
    }
    let mut need = |name: String, kind: &'static str| match found.get(&name) {
        None => lacks.push(EntityLack::Column { name, kind }),
        Some(found) if !serves(kind, found) => lacks.push(EntityLack::Type {
            name,
            kind,
            found: found.clone(),
        }),
        Some(_) => {}
    };
    if !found.contains_key(CREATED_AT) {
        need(CREATED_AT.to_owned(), "timestamp with time zone");
    }
    for stage in pipeline.stages() {
        for (ending, kind, _) in COLUMNS {
            need(format!("{}_{ending}", stage.name), kind);
        }
    }
    lacks
}
