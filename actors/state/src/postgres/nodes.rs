//! Nodes of the cluster and their workers. What a crash of the server loses of them is reported again with the next snapshot,
//! so no write waits for the disk.

use std::collections::HashMap;

use chrono::{DateTime, Utc};
use serde_json::json;
use sqlx::postgres::{PgPool, PgRow};
use sqlx::types::Json;
use sqlx::{PgConnection, Row};

use super::leadership;
use super::rows::stage_name;
use crate::{NodeSnapshot, StateError};
use parkhang_core::domain::{EngineRecord, Epoch, NodeRecord, NodeState, WorkerId, WorkerRecord};

/// Writes a snapshot of the nodes.
pub(super) async fn record(
    pool: &PgPool,
    epoch: Option<Epoch>,
    snapshot: &NodeSnapshot,
) -> Result<(), StateError> {
    let mut transaction = leadership::begin(pool, epoch).await?;
    sqlx::query("set local synchronous_commit = off")
        .execute(&mut *transaction)
        .await?;
    upsert(&mut transaction, &snapshot.nodes).await?;
    if let Some(lost_before) = snapshot.lost_before {
        let names: Vec<&str> = snapshot.nodes.iter().map(|node| node.name.as_str()).collect();
        sqlx::query(
            "update nodes set state = 'lost'
             where state in ('joined', 'draining') and last_seen < $1 and name <> all($2)",
        )
        .bind(lost_before)
        .bind(names)
        .execute(&mut *transaction)
        .await?;
    }
    sqlx::query("delete from workers w using nodes n where n.name = w.node and n.state in ('left', 'lost')")
        .execute(&mut *transaction)
        .await?;
    if let Some(forgotten_before) = snapshot.forgotten_before {
        sqlx::query("delete from nodes where state in ('left', 'lost') and last_seen < $1")
            .bind(forgotten_before)
            .execute(&mut *transaction)
            .await?;
    }
    transaction.commit().await?;
    Ok(())
}

/// Writes nodes, and their workers in the place of those known before, in one statement for each table.
async fn upsert(connection: &mut PgConnection, nodes: &[NodeRecord]) -> Result<(), StateError> {
    let column =
        |of: fn(&NodeRecord) -> Option<&str>| -> Vec<Option<&str>> { nodes.iter().map(of).collect() };
    // Roles and tags travel joined: `unnest` would take an array of arrays apart down to its elements.
    let names: Vec<&str> = nodes.iter().map(|node| node.name.as_str()).collect();
    let roles: Vec<String> = nodes.iter().map(|node| node.roles.join(",")).collect();
    let tags: Vec<String> = nodes.iter().map(|node| node.tags.join(",")).collect();
    let resident: Vec<Option<i64>> = nodes
        .iter()
        .map(|node| i64::try_from(node.resident?).ok())
        .collect();
    let protocols: Vec<i32> = nodes.iter().map(|node| i32::from(node.protocol)).collect();
    let started: Vec<Option<DateTime<Utc>>> = nodes.iter().map(|node| node.started_at).collect();
    let seen: Vec<DateTime<Utc>> = nodes.iter().map(|node| node.last_seen).collect();
    sqlx::query(
        "insert into nodes (name, roles, host, build, protocol, health, started_at, last_seen, state, tags, resident, engines)
         select name, string_to_array(roles, ','), host, build, protocol, health, started_at, last_seen, state,
             string_to_array(tags, ','), resident, engines
         from unnest($1::text[], $2::text[], $3::text[], $4::text[], $5::int[], $6::text[], $7::timestamptz[],
             $8::timestamptz[], $9::text[], $10::text[], $11::bigint[], $12::jsonb[])
             as n (name, roles, host, build, protocol, health, started_at, last_seen, state, tags, resident, engines)
         on conflict (name) do update set roles = excluded.roles, host = excluded.host, build = excluded.build,
             protocol = excluded.protocol, health = excluded.health, started_at = excluded.started_at,
             last_seen = excluded.last_seen, state = excluded.state, tags = excluded.tags,
             resident = excluded.resident, engines = excluded.engines",
    )
    .bind(&names)
    .bind(roles)
    .bind(column(|node| node.host.as_deref()))
    .bind(column(|node| Some(&node.build)))
    .bind(protocols)
    .bind(column(|node| node.health.as_deref()))
    .bind(started)
    .bind(seen)
    .bind(column(|node| Some(node.state.as_str())))
    .bind(tags)
    .bind(resident)
    .bind(nodes.iter().map(|node| json!(node.engines)).collect::<Vec<_>>())
    .execute(&mut *connection)
    .await?;

    // Replaced as a whole, so that no worker stays which the node does not report any more.
    sqlx::query("delete from workers where node = any($1)")
        .bind(&names)
        .execute(&mut *connection)
        .await?;
    let workers: Vec<(&str, &WorkerRecord)> = nodes
        .iter()
        .flat_map(|node| node.workers.iter().map(|worker| (node.name.as_str(), worker)))
        .collect();
    let number = |of: fn(&WorkerRecord) -> Option<u64>| -> Vec<Option<i64>> {
        workers
            .iter()
            .map(|(_, worker)| i64::try_from(of(worker)?).ok())
            .collect()
    };
    let beats: Vec<Option<DateTime<Utc>>> = workers.iter().map(|(_, worker)| worker.last_heartbeat).collect();
    sqlx::query(
        "insert into workers (worker_id, node, stage, slots, in_use, generation, last_heartbeat, pages, pages_finished, models)
         select * from unnest($1::text[], $2::text[], $3::text[], $4::bigint[], $5::bigint[], $6::bigint[],
             $7::timestamptz[], $8::bigint[], $9::bigint[], $10::jsonb[])",
    )
    .bind(workers.iter().map(|(_, worker)| worker.worker.0.as_str()).collect::<Vec<_>>())
    .bind(workers.iter().map(|(node, _)| *node).collect::<Vec<_>>())
    .bind(workers.iter().map(|(_, worker)| worker.stage.as_str()).collect::<Vec<_>>())
    .bind(number(|worker| Some(u64::from(worker.slots))))
    .bind(number(|worker| Some(u64::from(worker.in_use))))
    .bind(number(|worker| Some(worker.incarnation)))
    .bind(beats)
    .bind(number(|worker| worker.pages))
    .bind(number(|worker| worker.pages_finished))
    .bind(workers.iter().map(|(_, worker)| json!(worker.models)).collect::<Vec<_>>())
    .execute(&mut *connection)
    .await?;
    Ok(())
}

/// Returns the nodes that have not been deleted, by name.
pub(super) async fn all(pool: &PgPool) -> Result<Vec<NodeRecord>, StateError> {
    let rows = sqlx::query(
        "select name, roles, host, build, protocol, health, started_at, last_seen, state, tags, resident, engines \
         from nodes \
         order by name collate \"C\"",
    )
    .fetch_all(pool)
    .await?;
    let mut workers: HashMap<String, Vec<WorkerRecord>> = HashMap::new();
    for row in sqlx::query("select * from workers order by worker_id collate \"C\"")
        .fetch_all(pool)
        .await?
    {
        workers
            .entry(row.try_get("node")?)
            .or_default()
            .push(worker(&row)?);
    }
    rows.iter()
        .map(|row| {
            let name: String = row.try_get("name")?;
            let state: &str = row.try_get("state")?;
            let state = NodeState::ALL
                .into_iter()
                .find(|known| known.as_str() == state)
                .ok_or_else(|| StateError::Corrupt("unknown state of a node".to_owned()))?;
            Ok(NodeRecord {
                roles: row.try_get("roles")?,
                tags: row.try_get("tags")?,
                resident: row
                    .try_get::<Option<i64>, _>("resident")?
                    .and_then(|bytes| u64::try_from(bytes).ok()),
                host: row.try_get("host")?,
                build: row.try_get("build")?,
                protocol: u16::try_from(row.try_get::<i32, _>("protocol")?).unwrap_or_default(),
                health: row.try_get("health")?,
                started_at: row.try_get("started_at")?,
                last_seen: row.try_get("last_seen")?,
                state,
                workers: workers.remove(&name).unwrap_or_default(),
                engines: row.try_get::<Json<Vec<EngineRecord>>, _>("engines")?.0,
                name,
            })
        })
        .collect()
}

/// Worker of a row.
fn worker(row: &PgRow) -> Result<WorkerRecord, StateError> {
    let count = |column: &str| -> Result<u32, StateError> {
        Ok(u32::try_from(row.try_get::<i32, _>(column)?).unwrap_or_default())
    };
    let number = |column: &str| -> Result<Option<u64>, StateError> {
        let number: Option<i64> = row.try_get(column)?;
        Ok(number.and_then(|number| u64::try_from(number).ok()))
    };
    Ok(WorkerRecord {
        worker: WorkerId(row.try_get("worker_id")?),
        stage: stage_name(row, "stage")?,
        models: row.try_get::<Json<Vec<String>>, _>("models")?.0,
        slots: count("slots")?,
        in_use: count("in_use")?,
        incarnation: number("generation")?.unwrap_or_default(),
        last_heartbeat: row.try_get("last_heartbeat")?,
        pages: number("pages")?,
        pages_finished: number("pages_finished")?,
    })
}
