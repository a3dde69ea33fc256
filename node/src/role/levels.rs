//! Levels of services and of the tables that they work on, published at intervals. Nothing is decided by them.

use std::sync::Arc;
use std::time::Instant;

use chrono::Utc;
use futures::future::join_all;
use parkhang_actors::entity::Entities;
use parkhang_actors::telemetry::{ServiceLevel, ServiceLevels, entity_rows};
use parkhang_state::PostgresStore;
use tracing::debug;

use super::watch::{COUNT_INTERVAL, COUNT_PAUSE};
use crate::admin::{ServiceLine, service_lines};
use crate::config::Loaded;

/// Publishes how the services are doing, for ever.
pub async fn look_at_services(loaded: &Loaded, store: &PostgresStore) {
    let mut levels = ServiceLevels::default();
    loop {
        let (began, now) = (Instant::now(), Utc::now());
        let level = |line: ServiceLine| ServiceLevel {
            in_flight: line.in_flight,
            oldest_seconds: line
                .oldest
                .and_then(|oldest| u64::try_from((now - oldest).num_seconds()).ok())
                .unwrap_or_default(),
            is_left_alone: line.state == Some("left_alone"),
            spent: line.spent,
            service: line.service,
        };
        match service_lines(store, &loaded.config, now).await {
            Ok(lines) => levels.publish(&lines.into_iter().map(level).collect::<Vec<_>>()),
            Err(error) => debug!(%error, "cannot look at the services now"),
        }
        tokio::time::sleep(COUNT_INTERVAL.max(began.elapsed() * COUNT_PAUSE)).await;
    }
}

/// Publishes the numbers of rows of the tables of this node, by stage and status, for ever. A count reads the whole table, so that a large
/// one is counted seldom.
pub async fn count_rows(entities: &[Arc<Entities>]) {
    join_all(entities.iter().map(|entities| count_rows_of(entities))).await;
    std::future::pending().await
}

async fn count_rows_of(entities: &Entities) {
    let entity = entities.name();
    loop {
        let began = Instant::now();
        match entities.counts().await {
            Ok(counts) => {
                for counts in counts.stages {
                    let rows = [
                        ("pending", counts.pending),
                        ("queued", counts.queued),
                        ("started", counts.started),
                        ("completed", counts.completed),
                        ("failed", counts.failed),
                    ];
                    entity_rows(entity, &counts.stage, rows);
                }
            }
            Err(error) => debug!(entity, %error, "cannot count the rows now"),
        }
        tokio::time::sleep(COUNT_INTERVAL.max(began.elapsed() * COUNT_PAUSE)).await;
    }
}
