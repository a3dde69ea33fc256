//! Worker of a stage: claims queued rows and submits them.

use std::sync::Arc;

use futures::future::join_all;
use parkhang_core::policy::entity::{EntityEvent, EntityFence};
use parkhang_service::{JobFailure, ServiceError};
use parkhang_state::{ClaimedEntity, EntityOutcome, Finding};
use tokio::time::sleep;
use tokio_util::sync::CancellationToken;
use tracing::{debug, warn};

use super::{Entities, Station};
use crate::services::{FIRST_WRITE_PAUSE, WRITES, slept};

/// Claims and submits until it is time to stop. Rows that are claimed are submitted first, as nobody else would for a while.
pub(super) async fn run(entities: Arc<Entities>, station: Arc<Station>, stop: CancellationToken) {
    let (entities, station, stop) = (&*entities, &*station, &stop);
    let poll = entities.options.poll_interval;
    while !stop.is_cancelled() {
        let pause = station.health.pause();
        if !pause.is_zero() {
            slept(pause, stop).await;
            continue;
        }
        let Some(limit) = admitted(entities, station).await else {
            continue;
        };
        match entities.table.claim(&station.stage.name, limit).await {
            Ok(claimed) if claimed.is_empty() => tokio::select! {
                () = station.work.notified() => {}
                _ = slept(poll, stop) => {}
            },
            Ok(claimed) => {
                join_all(claimed.iter().map(|claimed| submit(entities, station, claimed))).await;
            }
            Err(error) => {
                entities.unanswered(station, &error);
                slept(poll, stop).await;
            }
        }
    }
}

/// Rows that may be claimed; none if the service is in doubt and gives no sign of life.
async fn admitted(entities: &Entities, station: &Station) -> Option<u32> {
    let is_there = station.service.is_there(&station.health).await;
    let admitted = u32::try_from(station.health.admits(0)).unwrap_or(u32::MAX);
    Some(entities.options.batch.min(admitted)).filter(|admitted| is_there && *admitted > 0)
}

async fn submit(entities: &Entities, station: &Station, claimed: &ClaimedEntity) {
    let claim = claimed.claim;
    let context = entities.context(station, &claimed.id, &claimed.row);
    let body = match station.service.body(&context) {
        Ok(body) => body,
        Err(failure) => return write(entities, station, claimed, &Submit::Failed(failure)).await,
    };
    station.health.turn().await;
    if !station.health.pause().is_zero() {
        // A neighbour has just found out that the service takes nothing.
        write(
            entities,
            station,
            claimed,
            &Submit::Went(EntityEvent::Released { claim }),
        )
        .await;
        return;
    }
    let key = key(entities, station, claimed);
    let submitted = match station.service.submit(&station.health, &key, body).await {
        Ok(job) => Submit::Went(EntityEvent::Submitted { claim, job }),
        Err(error) => Submit::Failed(failure_of(&error)),
    };
    write(entities, station, claimed, &submitted).await;
}

/// Outcome of a submit.
enum Submit {
    /// It was made, or the claim is given back.
    Went(EntityEvent),
    Failed(JobFailure),
}

fn failure_of(error: &ServiceError) -> JobFailure {
    JobFailure {
        message: error.to_string(),
        kind: error.kind(),
    }
}

/// Key of a submit: the same for each transmission of one claim, and no other.
fn key(entities: &Entities, station: &Station, claimed: &ClaimedEntity) -> String {
    let id: String = claimed.id.chars().filter(|c| c.is_ascii_graphic()).collect();
    let (entity, stage) = (entities.name(), &station.stage.name);
    format!(
        "{entity}-{id}-{stage}-{}-{}",
        claimed.retry_count,
        claimed.claim.timestamp_micros()
    )
}

/// Writes what became of a submit, and tries again for a while. What cannot be written is found by the sweeper.
async fn write(entities: &Entities, station: &Station, claimed: &ClaimedEntity, submit: &Submit) {
    let (table, stage, id) = (&entities.table, &station.stage, claimed.id.as_str());
    let mut pause = FIRST_WRITE_PAUSE;
    for _ in 0..WRITES {
        let written = match submit {
            Submit::Went(event) => table.step(stage, id, event, Finding::Nothing).await,
            Submit::Failed(failure) => {
                let of = EntityFence::Claim(claimed.claim);
                entities.fail(station, id, of, failure).await
            }
        };
        match written {
            Ok(EntityOutcome::Done { .. }) => return,
            Ok(EntityOutcome::Unchanged(_) | EntityOutcome::NoEntity) => {
                debug!(id, stage = %stage.name, "the row has gone on while it was being submitted");
                return;
            }
            Err(error) => entities.unanswered(station, &error),
        }
        sleep(pause).await;
        pause *= 2;
    }
    warn!(id, stage = %stage.name, "what became of a submit is not written; the row counts as stuck later");
}
