//! Which orchestrator may write. Two things decide it, and each covers what the other cannot: a session lock, which the
//! server gives to the next in line the moment its holder dies or falls silent, and an epoch that every write compares, which
//! stops a holder that does not know yet that it was replaced.

use std::time::Duration;

use sqlx::postgres::{PgConnectOptions, PgConnection, PgPool};
use sqlx::{ConnectOptions, Connection};
use tokio_util::sync::{CancellationToken, DropGuard};
use tracing::{info, warn};

use crate::domain::Epoch;
use crate::failpoint::Failpoint;
use crate::state::StateError;

/// The advisory lock that the leader of a database holds: `parkhang` in ASCII.
const LOCK: i64 = 0x7061_726b_6861_6e67;

const CONNECT_LIMIT: Duration = Duration::from_secs(10);

/// How soon a silent leader is replaced.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LeadershipTimings {
    /// Silence after which the server ends the leader's session, and with it its lock.
    pub silence: Duration,
    /// Between two signs of life; well below `silence`.
    pub interval: Duration,
}

impl Default for LeadershipTimings {
    fn default() -> Self {
        Self {
            silence: Duration::from_secs(4),
            interval: Duration::from_secs(1),
        }
    }
}

/// The right to write as the orchestrator. Ends with the value, or earlier, when the lock is lost.
#[derive(Debug)]
pub struct Leadership {
    epoch: Epoch,
    lost: CancellationToken,
    _resign: DropGuard,
}

impl Leadership {
    pub fn epoch(&self) -> Epoch {
        self.epoch
    }

    /// Returns when another orchestrator leads, or may lead.
    pub async fn lost(&self) {
        self.lost.cancelled().await;
    }
}

/// Waits in line for the lock, then starts an epoch of its own. A process that dies while it waits leaves the line.
pub(super) async fn lead(
    options: &PgConnectOptions,
    holder: &str,
    timings: LeadershipTimings,
) -> Result<Leadership, StateError> {
    let milliseconds = |time: Duration| time.as_millis().to_string();
    let session = [
        ("statement_timeout", "0".to_owned()),
        ("lock_timeout", "0".to_owned()),
        ("idle_session_timeout", milliseconds(timings.silence)),
        ("client_connection_check_interval", milliseconds(timings.interval)),
    ];
    // Its one slow statement is the wait for the lock, which is as it should be.
    let options = options
        .clone()
        .application_name("parkhang leader")
        .options(session)
        .disable_statement_logging();
    // A server out of sight may take the connection and say nothing for ever.
    let connect = tokio::time::timeout(CONNECT_LIMIT, options.connect());
    let mut connection = connect.await.map_err(|_| {
        StateError::Unavailable(format!("the database did not answer within {CONNECT_LIMIT:?}"))
    })??;
    let is_free: bool = sqlx::query_scalar("select pg_try_advisory_lock($1)")
        .bind(LOCK)
        .fetch_one(&mut connection)
        .await?;
    if !is_free {
        let leader: Option<String> = sqlx::query_scalar("select holder from leadership")
            .fetch_one(&mut connection)
            .await?;
        info!(leader, "standing by: another orchestrator leads");
        sqlx::query("select pg_advisory_lock($1)")
            .bind(LOCK)
            .execute(&mut connection)
            .await?;
    }
    Failpoint::LeadershipTaken.pass();
    let epoch: i64 = sqlx::query_scalar(
        "update leadership set epoch = epoch + 1, holder = $1, since = now() where only_row returning epoch",
    )
    .bind(holder)
    .fetch_one(&mut connection)
    .await?;
    Failpoint::EpochBegun.pass();
    info!(epoch, holder, "this process leads");

    let (lost, resign) = (CancellationToken::new(), CancellationToken::new());
    tokio::spawn(hold(
        connection,
        Epoch(epoch),
        timings,
        lost.clone(),
        resign.clone(),
    ));
    Ok(Leadership {
        epoch: Epoch(epoch),
        lost,
        _resign: resign.drop_guard(),
    })
}

/// Keeps the session alive until it is given up or lost. An answer that takes as long as the silence allowed counts as a loss:
/// the server may have given the lock away by then.
async fn hold(
    mut connection: PgConnection,
    epoch: Epoch,
    timings: LeadershipTimings,
    lost: CancellationToken,
    resign: CancellationToken,
) {
    let mut ticks = tokio::time::interval(timings.interval);
    ticks.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
    loop {
        tokio::select! {
            _ = ticks.tick() => {}
            () = resign.cancelled() => break,
        }
        let answer = tokio::time::timeout(timings.silence, still_leads(&mut connection, epoch)).await;
        match answer {
            Ok(Ok(true)) => {}
            Ok(Ok(false)) => {
                warn!(%epoch, "another orchestrator has begun an epoch");
                break;
            }
            Ok(Err(error)) => {
                warn!(%epoch, %error, "the session that held the leadership is gone");
                break;
            }
            Err(_) => {
                warn!(%epoch, "the database does not answer the leader");
                break;
            }
        }
    }
    lost.cancel();
    // Ends the session also when the server cannot be told.
    drop(connection.close().await);
}

async fn still_leads(connection: &mut PgConnection, epoch: Epoch) -> Result<bool, sqlx::Error> {
    sqlx::query_scalar("select epoch = $1 from leadership")
        .bind(epoch.0)
        .fetch_one(connection)
        .await
}

/// Begins a transaction in which `epoch`, if any, stays the current one until the end.
pub(super) async fn begin(
    pool: &PgPool,
    epoch: Option<Epoch>,
) -> Result<sqlx::Transaction<'static, sqlx::Postgres>, StateError> {
    let mut transaction = pool.begin().await?;
    if let Some(epoch) = epoch {
        let current: Option<i64> =
            sqlx::query_scalar("select epoch from leadership where epoch = $1 for share")
                .bind(epoch.0)
                .fetch_optional(&mut *transaction)
                .await?;
        if current.is_none() {
            return Err(StateError::Deposed(epoch));
        }
    }
    Ok(transaction)
}

/// Who holds the lock.
pub(super) async fn holder(pool: &PgPool) -> Result<Option<String>, StateError> {
    let holder: Option<Option<String>> = sqlx::query_scalar(
        "select holder from leadership where exists (
             select from pg_locks
             where locktype = 'advisory' and granted and objsubid = 1
                 and classid::bigint << 32 | objid::bigint = $1
                 and database = (select oid from pg_database where datname = current_database())
         )",
    )
    .bind(LOCK)
    .fetch_optional(pool)
    .await?;
    Ok(holder.flatten())
}
