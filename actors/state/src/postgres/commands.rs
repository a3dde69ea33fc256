//! Actors that nodes report, and commands of operators to nodes.

use std::time::Duration;

use sqlx::Row;
use sqlx::postgres::PgRow;
use sqlx::types::Json;

use super::PostgresStore;
use crate::StateError;
use parkhang_core::domain::{ActorRecord, CommandOutcome, IssuedCommand, NodeActors, NodeCommand};

/// Time for which commands are kept, in days.
const MEMORY_DAYS: i32 = 7;

impl PostgresStore {
    /// Writes the actors of these nodes, as they reported them, in the place of those known before. Actors of nodes that are
    /// gone are deleted.
    ///
    /// # Errors
    ///
    /// [`StateError::Deposed`] if the store belongs to a leader that was replaced, and those of every method.
    pub async fn record_actors(&self, nodes: &[NodeActors]) -> Result<(), StateError> {
        let mut transaction = self.begin().await?;
        // A record that a crash loses is reported again.
        sqlx::query("set local synchronous_commit = off")
            .execute(&mut *transaction)
            .await?;
        let names: Vec<&str> = nodes.iter().map(|node| node.node.as_str()).collect();
        let reported_at: Vec<_> = nodes.iter().map(|node| node.told_at).collect();
        let actors: Vec<Json<&[ActorRecord]>> = nodes.iter().map(|node| Json(&node.actors[..])).collect();
        // The join leaves out nodes that have gone, whose actors the next statement would delete again.
        sqlx::query(
            "insert into node_actors (node, told_at, actors)
             select t.node, t.told_at, t.actors
             from unnest($1::text[], $2::timestamptz[], $3::jsonb[]) as t (node, told_at, actors)
             join nodes n on n.name = t.node and n.state in ('joined', 'draining')
             on conflict (node) do update set told_at = excluded.told_at, actors = excluded.actors",
        )
        .bind(names)
        .bind(reported_at)
        .bind(actors)
        .execute(&mut *transaction)
        .await?;
        sqlx::query(
            "delete from node_actors a using nodes n where n.name = a.node and n.state in ('left', 'lost')",
        )
        .execute(&mut *transaction)
        .await?;
        transaction.commit().await?;
        Ok(())
    }

    /// Returns the actors of the nodes that are there, by the nodes' names. Actors that a later build reported and this one
    /// does not know are left out.
    ///
    /// # Errors
    ///
    /// Those of every method, see [`StateError`].
    pub async fn actors(&self) -> Result<Vec<NodeActors>, StateError> {
        let rows = sqlx::query("select node, told_at, actors from node_actors order by node collate \"C\"")
            .fetch_all(&self.pool)
            .await?;
        rows.iter()
            .map(|row| {
                let actors: Json<Vec<serde_json::Value>> = row.try_get("actors")?;
                Ok(NodeActors {
                    node: row.try_get("node")?,
                    told_at: row.try_get("told_at")?,
                    actors: actors
                        .0
                        .into_iter()
                        .filter_map(|actor| serde_json::from_value(actor).ok())
                        .collect(),
                })
            })
            .collect()
    }

    /// Issues a command to a node, which is not begun any more once `timeout` is over; returns its number.
    ///
    /// # Errors
    ///
    /// Those of every method, see [`StateError`].
    pub async fn issue_command(
        &self,
        node: &str,
        command: &NodeCommand,
        asked_by: &str,
        timeout: Duration,
    ) -> Result<i64, StateError> {
        sqlx::query("delete from node_orders where asked_at < clock_timestamp() - make_interval(days => $1)")
            .bind(MEMORY_DAYS)
            .execute(&self.pool)
            .await?;
        // By the clock of the database, as the process that issues a command and the one that carries it out may differ in theirs.
        Ok(sqlx::query_scalar(
            "insert into node_orders (node, what, asked_by, asked_at, expires_at)
             select $1, $2, $3, t.now_at, t.now_at + make_interval(secs => $4) from clock_timestamp() as t (now_at)
             returning id",
        )
        .bind(node)
        .bind(Json(command))
        .bind(asked_by)
        .bind(timeout.as_secs_f64())
        .fetch_one(&self.pool)
        .await?)
    }

    /// Returns the commands that are to be carried out, of one node or of all, in the order of their numbers. One that this build
    /// does not know is left to expire.
    ///
    /// # Errors
    ///
    /// Those of every method, see [`StateError`].
    pub async fn open_commands(&self, node: Option<&str>) -> Result<Vec<IssuedCommand>, StateError> {
        let rows = sqlx::query(
            "select * from node_orders
             where done_at is null and expires_at > clock_timestamp() and ($1::text is null or node = $1) order by id",
        )
        .bind(node)
        .fetch_all(&self.pool)
        .await?;
        Ok(rows.iter().filter_map(|row| issued(row).ok()).collect())
    }

    /// Writes the outcome of a command. The first outcome stands, and is returned.
    ///
    /// # Errors
    ///
    /// Those of every method, see [`StateError`].
    pub async fn complete_command(
        &self,
        id: i64,
        outcome: &CommandOutcome,
    ) -> Result<CommandOutcome, StateError> {
        let statement = sqlx::query(
            "update node_orders set done_at = clock_timestamp(), outcome = $2 where id = $1 and done_at is null",
        )
        .bind(id)
        .bind(Json(outcome));
        self.execute(statement).await?;
        let known = self.command(id).await?.and_then(|command| command.outcome);
        Ok(known.unwrap_or_else(|| outcome.clone()))
    }

    /// Returns the command of a number.
    ///
    /// # Errors
    ///
    /// Those of every method, see [`StateError`].
    pub async fn command(&self, id: i64) -> Result<Option<IssuedCommand>, StateError> {
        let row = sqlx::query("select * from node_orders where id = $1")
            .bind(id)
            .fetch_optional(&self.pool)
            .await?;
        row.as_ref().map(issued).transpose()
    }

    /// Returns the last commands to a node, the newest first.
    ///
    /// # Errors
    ///
    /// Those of every method, see [`StateError`].
    pub async fn commands_to(&self, node: &str, limit: u32) -> Result<Vec<IssuedCommand>, StateError> {
        let rows = sqlx::query("select * from node_orders where node = $1 order by id desc limit $2")
            .bind(node)
            .bind(i64::from(limit))
            .fetch_all(&self.pool)
            .await?;
        Ok(rows.iter().filter_map(|row| issued(row).ok()).collect())
    }
}

/// Command of a row.
fn issued(row: &PgRow) -> Result<IssuedCommand, StateError> {
    let outcome: Option<Json<CommandOutcome>> = row.try_get("outcome")?;
    Ok(IssuedCommand {
        id: row.try_get("id")?,
        node: row.try_get("node")?,
        command: row.try_get::<Json<NodeCommand>, _>("what")?.0,
        asked_by: row.try_get("asked_by")?,
        asked_at: row.try_get("asked_at")?,
        expires_at: row.try_get("expires_at")?,
        done_at: row.try_get("done_at")?,
        outcome: outcome.map(|outcome| outcome.0),
    })
}

#[cfg(test)]
mod tests {
    use chrono::{DateTime, Utc};

    use super::*;
    use crate::postgres::PostgresStore;
    use crate::postgres::tests::store;
    use crate::{NodeSnapshot, StateStore};
    use parkhang_core::domain::testing::node_record;
    use parkhang_core::domain::{ActorKind, ActorState, NodeRecord, NodeState};

    const TIMEOUT: Duration = Duration::from_secs(60);

    fn restart() -> NodeCommand {
        NodeCommand::Restart {
            actor: "ocr".to_owned(),
        }
    }

    #[tokio::test]
    async fn an_order_is_open_until_its_first_outcome_or_its_time_is_over() {
        let store = store().await;
        let mut changes = store.command_changes().await.unwrap();
        let place = async |node, timeout| {
            let placed = store.issue_command(node, &restart(), "tashi", timeout).await;
            placed.unwrap()
        };
        let open = async |node| {
            let open = store.open_commands(node).await.unwrap();
            open.iter().map(|command| command.id).collect::<Vec<_>>()
        };
        let first = place("a", TIMEOUT).await;
        changes.next().await.unwrap();
        let second = place("b", TIMEOUT).await;
        let late = place("b", Duration::ZERO).await;
        assert_eq!(open(None).await, [first, second]);
        assert_eq!(open(Some("b")).await, [second]);

        let done = CommandOutcome::done("it is replaced");
        assert_eq!(store.complete_command(first, &done).await.unwrap(), done);
        let again = CommandOutcome::refused("too late");
        assert_eq!(store.complete_command(first, &again).await.unwrap(), done);
        assert_eq!(open(None).await, [second]);
        let command = store.command(first).await.unwrap().unwrap();
        assert_eq!((command.command, command.outcome), (restart(), Some(done)));
        assert!(command.done_at.is_some());
        let of_b = store.commands_to("b", 10).await.unwrap();
        assert_eq!(
            of_b.iter().map(|command| command.id).collect::<Vec<_>>(),
            [late, second]
        );
    }

    async fn record(store: &PostgresStore, state: NodeState, now: DateTime<Utc>) {
        let node = NodeRecord {
            last_seen: now,
            state,
            ..node_record("a")
        };
        let snapshot = NodeSnapshot {
            nodes: vec![node],
            ..NodeSnapshot::default()
        };
        store.record_nodes(&snapshot).await.unwrap();
    }

    #[tokio::test]
    async fn actors_are_those_of_the_nodes_that_are_there() {
        let store = store().await;
        let now = store.now().await.unwrap();
        let reported = |node: &str, name: &str| NodeActors {
            node: node.to_owned(),
            told_at: now,
            actors: vec![ActorRecord::new(name, ActorKind::Pool, ActorState::Idle)],
        };
        record(&store, NodeState::Joined, now).await;
        store
            .record_actors(&[reported("a", "reduce"), reported("unknown", "ocr")])
            .await
            .unwrap();
        store.record_actors(&[reported("a", "ocr")]).await.unwrap();
        let known = store.actors().await.unwrap();
        assert_eq!(known.len(), 1);
        assert_eq!(known[0].actors, reported("a", "ocr").actors);
        record(&store, NodeState::Left, now).await;
        store.record_actors(&[]).await.unwrap();
        assert_eq!(store.actors().await.unwrap(), []);
    }
}
