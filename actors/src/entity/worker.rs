//! Worker of a stage: claims queued rows and submits them.

use std::sync::Arc;

use futures::future::join_all;
use parkhang_core::failpoint::Failpoint;
use parkhang_core::policy::entity::{EntityEvent, EntityFence};
use parkhang_service::JobFailure;
use parkhang_state::{ClaimedEntity, EntityOutcome, Finding};
use tokio::time::sleep;
use tokio_util::sync::CancellationToken;
use tracing::{debug, warn};

use super::{Entities, ServedStage};
use crate::services::{FIRST_WRITE_PAUSE, WRITES, slept};

/// Claims and submits until it is time to stop. Rows that are claimed are submitted first, as nobody else would for a while.
pub(super) async fn run(entities: Arc<Entities>, served: Arc<ServedStage>, stop: CancellationToken) {
    let (entities, served, stop) = (&*entities, &*served, &stop);
    let poll = entities.options.poll_interval;
    while !stop.is_cancelled() {
        let pause = served.health.pause();
        if !pause.is_zero() {
            slept(pause, stop).await;
            continue;
        }
        let Some(limit) = admitted(entities, served).await else {
            continue;
        };
        match served
            .room
            .claim(&entities.table, &served.stage.name, limit)
            .await
        {
            Ok(claimed) if claimed.is_empty() => tokio::select! {
                () = served.work.notified() => {}
                _ = slept(poll, stop) => {}
            },
            Ok(claimed) => {
                Failpoint::RowsClaimed.pass();
                join_all(claimed.iter().map(|claimed| submit(entities, served, claimed))).await;
            }
            Err(error) => {
                entities.unanswered(served, &error);
                slept(poll, stop).await;
            }
        }
    }
}

/// Rows that may be claimed; none if the service is in doubt and gives no sign of life.
async fn admitted(entities: &Entities, served: &ServedStage) -> Option<u32> {
    let is_there = served.service.is_there(&served.health).await;
    let admitted = u32::try_from(served.health.admits(0)).unwrap_or(u32::MAX);
    Some(entities.options.batch.min(admitted)).filter(|admitted| is_there && *admitted > 0)
}

async fn submit(entities: &Entities, served: &ServedStage, claimed: &ClaimedEntity) {
    let claim = claimed.claim;
    let context = entities.context(served, &claimed.id, &claimed.row);
    let body = match served.service.body(&context) {
        Ok(body) => body,
        Err(failure) => return write(entities, served, claimed, &Submit::Failed(failure)).await,
    };
    served.health.turn().await;
    if !served.health.pause().is_zero() {
        // A neighbour has just found out that the service takes nothing.
        write(
            entities,
            served,
            claimed,
            &Submit::Went(EntityEvent::Released { claim }),
        )
        .await;
        return;
    }
    let key = key(entities, served, claimed);
    let submitted = match served.service.submit(&served.health, &key, body).await {
        Ok(job) => Submit::Went(EntityEvent::Submitted { claim, job }),
        Err(error) if error.is_of_this_machine() => Submit::Went(EntityEvent::Released { claim }),
        Err(error) => Submit::Failed(served.service.retry.failure(error)),
    };
    write(entities, served, claimed, &submitted).await;
}

/// Outcome of a submit.
enum Submit {
    /// It was made, or the claim is given back.
    Went(EntityEvent),
    Failed(JobFailure),
}

/// Key of a submit: the same for each transmission of one claim, and no other.
fn key(entities: &Entities, served: &ServedStage, claimed: &ClaimedEntity) -> String {
    let id: String = claimed.id.chars().filter(|c| c.is_ascii_graphic()).collect();
    let (entity, stage) = (entities.name(), &served.stage.name);
    format!(
        "{entity}-{id}-{stage}-{}-{}",
        claimed.retry_count,
        claimed.claim.timestamp_micros()
    )
}

/// Writes what became of a submit, and tries again for a while. What cannot be written is found by the sweeper.
async fn write(entities: &Entities, served: &ServedStage, claimed: &ClaimedEntity, submit: &Submit) {
    let (table, stage, id) = (&entities.table, &served.stage, claimed.id.as_str());
    let mut pause = FIRST_WRITE_PAUSE;
    for _ in 0..WRITES {
        let written = match submit {
            Submit::Went(event) => table.step(stage, id, event, Finding::Nothing).await,
            Submit::Failed(failure) => {
                let of = EntityFence::Claim(claimed.claim);
                entities.fail(served, id, of, failure).await
            }
        };
        match written {
            Ok(EntityOutcome::Done { .. }) => return,
            Ok(EntityOutcome::Unchanged(_) | EntityOutcome::NoEntity) => {
                debug!(id, stage = %stage.name, "the row has gone on while it was being submitted");
                return;
            }
            Err(error) => entities.unanswered(served, &error),
        }
        sleep(pause).await;
        pause *= 2;
    }
    warn!(id, stage = %stage.name, "what became of a submit is not written; the row counts as stuck later");
}
