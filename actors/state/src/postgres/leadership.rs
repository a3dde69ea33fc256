//! Leadership: the right of one orchestrator to write.
//!
//! Two things decide it, and each covers what the other cannot: a session lock, which the server gives to the next in line the
//! moment its holder dies or falls silent, and an epoch, which stops a holder that does not know yet that it was replaced.
//! Every write of a leader compares the epoch in its own transaction: a check before it would leave a moment in which a successor
//! could begin an epoch, and the write of the old leader would still come through. Not compared is what is true whoever writes it: what
//! an operator asked for, and what a service or a node told.

use std::time::Duration;

use sqlx::postgres::{PgArguments, PgConnection, PgPool, PgQueryResult};
use sqlx::{ConnectOptions, Connection};
use tokio_util::sync::{CancellationToken, DropGuard};
use tracing::{info, warn};

use super::PostgresStore;
use crate::StateError;
use parkhang_core::domain::Epoch;
use parkhang_core::failpoint::Failpoint;

/// Number of the advisory lock that the leader of a database holds: `parkhang` in ASCII.
const LOCK: i64 = 0x7061_726b_6861_6e67;

/// Longest wait for the connection of the leader.
const CONNECT_LIMIT: Duration = Duration::from_secs(10);

/// Times that decide how soon a silent leader is replaced.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LeadershipTimings {
    /// Silence after which the server ends the leader's session, and with it its lock.
    pub silence: Duration,
    /// Time between two signs of life; well below `silence`.
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

/// Right to write as the orchestrator. Ends with the value, or earlier, when the lock is lost.
#[derive(Debug)]
pub struct Leadership {
    epoch: Epoch,
    lost: CancellationToken,
    _resign: DropGuard,
}

impl Leadership {
    /// Epoch that began with this leadership.
    pub fn epoch(&self) -> Epoch {
        self.epoch
    }

    /// Waits until another orchestrator leads, or may lead.
    pub async fn lost(&self) {
        self.lost.cancelled().await;
    }
}

impl PostgresStore {
    /// Waits until this process leads among all that call this on the database, then starts an epoch of its own. A process that
    /// dies while it waits leaves the line. `holder` names the process for operators.
    ///
    /// # Errors
    ///
    /// Those of every method, see [`StateError`].
    pub async fn lead(&self, holder: &str, timings: LeadershipTimings) -> Result<Leadership, StateError> {
        let milliseconds = |time: Duration| time.as_millis().to_string();
        let session = [
            ("statement_timeout", "0".to_owned()),
            ("lock_timeout", "0".to_owned()),
            ("idle_session_timeout", milliseconds(timings.silence)),
            ("client_connection_check_interval", milliseconds(timings.interval)),
        ];
        // The wait for the lock has no limit, and must not be logged as a slow statement. `idle_session_timeout` makes the
        // server end the session, and with it the lock, of a leader that is frozen and sends nothing;
        // `client_connection_check_interval` makes it notice that a process waiting for the lock has died, which otherwise it
        // would only when it answers.
        let options = self
            .options
            .clone()
            .application_name("parkhang leader")
            .options(session)
            .disable_statement_logging();
        // A server behind a broken network may take the connection and never answer.
        let mut connection = tokio::time::timeout(CONNECT_LIMIT, options.connect())
            .await
            .map_err(|_| {
                StateError::Unavailable(format!("the database did not answer within {CONNECT_LIMIT:?}"))
            })??;
        // The lock belongs to the session and not to a transaction, as a transaction open for days would keep dead rows alive.
        // It is tried first only in order to log which process leads when it is taken.
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
        // Waits for transactions that hold the row `for share`, see `begin`: once this returns, no write of an earlier epoch is
        // under way and none can begin.
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

    /// Returns this store as the leader uses it: its changes are refused with [`StateError::Deposed`] once another process leads.
    pub fn led_by(&self, leadership: &Leadership) -> Self {
        Self {
            pool: self.pool.clone(),
            options: self.options.clone(),
            epoch: Some(leadership.epoch()),
        }
    }

    /// Returns the name of the process that leads, if one does.
    ///
    /// # Errors
    ///
    /// Those of every method, see [`StateError`].
    pub async fn leader(&self) -> Result<Option<String>, StateError> {
        // The row keeps the name of the last leader; whether it still leads is known by its lock alone. The server shows the
        // number of a lock as two halves.
        let holder: Option<Option<String>> = sqlx::query_scalar(
            "select holder from leadership where exists (
                 select from pg_locks
                 where locktype = 'advisory' and granted and objsubid = 1
                     and classid::bigint << 32 | objid::bigint = $1
                     and database = (select oid from pg_database where datname = current_database())
             )",
        )
        .bind(LOCK)
        .fetch_optional(&self.pool)
        .await?;
        Ok(holder.flatten())
    }
}

/// Keeps the session of the leader alive until it is given up or lost. An answer that takes as long as the silence allowed
/// counts as a loss: the server may have given the lock away by then.
async fn hold(
    mut connection: PgConnection,
    epoch: Epoch,
    timings: LeadershipTimings,
    lost: CancellationToken,
    resign: CancellationToken,
) {
    let mut ticks = tokio::time::interval(timings.interval);
    // A process that was frozen must not make up for all the signs of life that it missed.
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
    // The socket is closed also when the farewell does not get through, so that the server ends the session.
    drop(connection.close().await);
}

/// Sign of life to the server; returns true while the epoch is the current one.
async fn still_leads(connection: &mut PgConnection, epoch: Epoch) -> Result<bool, sqlx::Error> {
    sqlx::query_scalar("select epoch = $1 from leadership")
        .bind(epoch.0)
        .fetch_one(connection)
        .await
}

type Statement<'q> = sqlx::query::Query<'q, sqlx::Postgres, PgArguments>;

impl PostgresStore {
    /// Carries a statement out in a transaction that [`Self::begin`] begins.
    pub(super) async fn execute(&self, statement: Statement<'_>) -> Result<PgQueryResult, StateError> {
        execute(&self.pool, self.epoch, statement).await
    }

    /// Begins a transaction of the leader whose store this is, or of anybody.
    pub(super) async fn begin(&self) -> Result<sqlx::Transaction<'static, sqlx::Postgres>, StateError> {
        begin(&self.pool, self.epoch).await
    }
}

/// Carries a statement out in a transaction that [`begin`] begins.
pub(super) async fn execute(
    pool: &PgPool,
    epoch: Option<Epoch>,
    statement: Statement<'_>,
) -> Result<PgQueryResult, StateError> {
    let mut transaction = begin(pool, epoch).await?;
    let done = statement.execute(&mut *transaction).await?;
    transaction.commit().await?;
    Ok(done)
}

/// Begins a transaction in which `epoch`, if any, stays the current one until the end.
pub(super) async fn begin(
    pool: &PgPool,
    epoch: Option<Epoch>,
) -> Result<sqlx::Transaction<'static, sqlx::Postgres>, StateError> {
    begin_with(pool, "begin", epoch).await
}

/// Begins a transaction as [`begin`] does, by statements that set more for it.
pub(super) async fn begin_with(
    pool: &PgPool,
    statements: &'static str,
    epoch: Option<Epoch>,
) -> Result<sqlx::Transaction<'static, sqlx::Postgres>, StateError> {
    let mut transaction = pool.begin_with(statements).await?;
    hold_epoch(&mut transaction, epoch).await?;
    Ok(transaction)
}

/// Keeps `epoch`, if any, the current one until the end of the transaction, which has just begun.
pub(super) async fn hold_epoch(
    connection: &mut PgConnection,
    epoch: Option<Epoch>,
) -> Result<(), StateError> {
    // The share lock stays until the end of the transaction: a successor's new epoch waits for it. Writers of one epoch do not
    // exclude each other. The row is locked before any task, so that no writer waits for it with tasks in hand.
    if let Some(epoch) = epoch {
        let current: Option<i64> =
            sqlx::query_scalar("select epoch from leadership where epoch = $1 for share")
                .bind(epoch.0)
                .fetch_optional(connection)
                .await?;
        if current.is_none() {
            return Err(StateError::Deposed(epoch));
        }
    }
    Ok(())
}
