//! Worker of a stage: claims queued rows and submits them.

use std::sync::Arc;
use std::time::Duration;

use futures::future::join_all;
use parkhang_core::domain::FailureKind;
use parkhang_core::policy::entity::{EntityEvent, EntityFence};
use parkhang_service::{JobFailure, ServiceError};
use parkhang_state::{ClaimedEntity, EntityOutcome, Finding};
use tokio::time::sleep;
use tokio_util::sync::CancellationToken;
use tracing::{debug, warn};

use super::{Entities, Station, slept};

/// Tries to write what became of a submit, and the first pause between them, which doubles.
const WRITES: u32 = 6;
const FIRST_WRITE_PAUSE: Duration = Duration::from_millis(100);

/// Claims and submits until it is time to stop. Rows that are claimed are submitted first, as nobody else would for a while.
pub(super) async fn run(entities: Arc<Entities>, station: Arc<Station>, stop: CancellationToken) {
    let (entities, station, stop) = (&*entities, &*station, &stop);
    let poll = entities.options.poll_interval;
    while !stop.is_cancelled() {
        let pause = station.state.pause();
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

/// Rows that may be claimed: one while the service is in doubt, so that a service that is away does not cost many of them a try; none if it
/// gives no sign of life.
async fn admitted(entities: &Entities, station: &Station) -> Option<u32> {
    if !station.state.is_in_doubt() {
        return Some(entities.options.batch);
    }
    let Err(error) = station.service.client.reach().await else {
        return Some(1);
    };
    station.state.failed(&station.service.name, &error);
    // An error that is of no service is a sign of life.
    (!error.is_of_the_service()).then_some(1)
}

async fn submit(entities: &Entities, station: &Station, claimed: &ClaimedEntity) {
    let (name, claim) = (&station.service.name, claimed.claim);
    let body = match body(entities, station, claimed) {
        Ok(body) => body,
        Err(message) => {
            let kind = FailureKind::Hard;
            write(
                entities,
                station,
                claimed,
                &Submit::Failed(JobFailure { message, kind }),
            )
            .await;
            return;
        }
    };
    if !station.state.pause().is_zero() {
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
    let submitted = match station.service.client.submit(&key, body).await {
        Ok(job) => {
            station.state.succeeded(name);
            Submit::Went(EntityEvent::Submitted { claim, job })
        }
        Err(error) => {
            station.state.failed(name, &error);
            Submit::Failed(failure_of(&error))
        }
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

fn body(entities: &Entities, station: &Station, claimed: &ClaimedEntity) -> Result<String, String> {
    let context = entities.context(station, &claimed.id, &claimed.row);
    match &station.service.template {
        Some(template) => {
            let made = template.render(&context, station.service.max_body);
            made.map_err(|error| error.to_string())
        }
        None => Ok(context.to_string()),
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
