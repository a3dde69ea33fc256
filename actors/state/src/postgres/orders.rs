//! Actors that nodes report, and orders of operators to nodes.

use std::time::Duration;

use sqlx::Row;
use sqlx::postgres::PgRow;
use sqlx::types::Json;

use super::{PostgresStore, leadership};
use crate::StateError;
use parkhang_core::domain::{ActorRecord, NodeActors, NodeOrder, OrderOutcome, PlacedOrder};

/// Time for which orders are kept, in days.
const MEMORY_DAYS: i32 = 7;

impl PostgresStore {
    /// Writes the actors of these nodes, as they reported them, in the place of those known before. Actors of nodes that are
    /// gone are deleted.
    ///
    /// # Errors
    ///
    /// [`StateError::Deposed`] if the store belongs to a leader that was replaced, and those of every method.
    pub async fn record_actors(&self, nodes: &[NodeActors]) -> Result<(), StateError> {
        let mut transaction = leadership::begin(&self.pool, self.epoch).await?;
        // A record that a crash loses is reported again.
        sqlx::query("set local synchronous_commit = off")
            .execute(&mut *transaction)
            .await?;
        let names: Vec<&str> = nodes.iter().map(|node| node.node.as_str()).collect();
        let reported_at: Vec<_> = nodes.iter().map(|node| node.told_at).collect();
        let actors: Vec<Json<&[ActorRecord]>> = nodes.iter().map(|node| Json(&node.actors[..])).collect();
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

    /// Places an order to a node, which is not begun any more once `patience` is over; returns its number.
    ///
    /// # Errors
    ///
    /// Those of every method, see [`StateError`].
    pub async fn place_order(
        &self,
        node: &str,
        order: &NodeOrder,
        asked_by: &str,
        patience: Duration,
    ) -> Result<i64, StateError> {
        sqlx::query("delete from node_orders where asked_at < clock_timestamp() - make_interval(days => $1)")
            .bind(MEMORY_DAYS)
            .execute(&self.pool)
            .await?;
        // By the clock of the database, as the process that places an order and the one that carries it out may differ in theirs.
        Ok(sqlx::query_scalar(
            "insert into node_orders (node, what, asked_by, asked_at, expires_at)
             select $1, $2, $3, t.now_at, t.now_at + make_interval(secs => $4) from clock_timestamp() as t (now_at)
             returning id",
        )
        .bind(node)
        .bind(Json(order))
        .bind(asked_by)
        .bind(patience.as_secs_f64())
        .fetch_one(&self.pool)
        .await?)
    }

    /// Returns the orders that are to be carried out, of one node or of all, in the order of their numbers. One that this build
    /// does not know is left to expire.
    ///
    /// # Errors
    ///
    /// Those of every method, see [`StateError`].
    pub async fn open_orders(&self, node: Option<&str>) -> Result<Vec<PlacedOrder>, StateError> {
        let rows = sqlx::query(
            "select * from node_orders
             where done_at is null and expires_at > clock_timestamp() and ($1::text is null or node = $1) order by id",
        )
        .bind(node)
        .fetch_all(&self.pool)
        .await?;
        Ok(rows.iter().filter_map(|row| placed(row).ok()).collect())
    }

    /// Writes the outcome of an order. The first outcome stands, and is returned.
    ///
    /// # Errors
    ///
    /// Those of every method, see [`StateError`].
    pub async fn settle_order(&self, id: i64, outcome: &OrderOutcome) -> Result<OrderOutcome, StateError> {
        sqlx::query(
            "update node_orders set done_at = clock_timestamp(), outcome = $2 where id = $1 and done_at is null",
        )
        .bind(id)
        .bind(Json(outcome))
        .execute(&self.pool)
        .await?;
        let known = self.order(id).await?.and_then(|order| order.outcome);
        Ok(known.unwrap_or_else(|| outcome.clone()))
    }

    /// Returns the order of a number.
    ///
    /// # Errors
    ///
    /// Those of every method, see [`StateError`].
    pub async fn order(&self, id: i64) -> Result<Option<PlacedOrder>, StateError> {
        let row = sqlx::query("select * from node_orders where id = $1")
            .bind(id)
            .fetch_optional(&self.pool)
            .await?;
        row.as_ref().map(placed).transpose()
    }

    /// Returns the last orders to a node, the newest first.
    ///
    /// # Errors
    ///
    /// Those of every method, see [`StateError`].
    pub async fn orders_of(&self, node: &str, limit: u32) -> Result<Vec<PlacedOrder>, StateError> {
        let rows = sqlx::query("select * from node_orders where node = $1 order by id desc limit $2")
            .bind(node)
            .bind(i64::from(limit))
            .fetch_all(&self.pool)
            .await?;
        Ok(rows.iter().filter_map(|row| placed(row).ok()).collect())
    }
}

/// Order of a row.
fn placed(row: &PgRow) -> Result<PlacedOrder, StateError> {
    let outcome: Option<Json<OrderOutcome>> = row.try_get("outcome")?;
    Ok(PlacedOrder {
        id: row.try_get("id")?,
        node: row.try_get("node")?,
        order: row.try_get::<Json<NodeOrder>, _>("what")?.0,
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

    const PATIENCE: Duration = Duration::from_secs(60);

    fn restart() -> NodeOrder {
        NodeOrder::Restart {
            actor: "ocr".to_owned(),
        }
    }

    #[tokio::test]
    async fn an_order_is_open_until_its_first_outcome_or_its_time_is_over() {
        let store = store().await;
        let mut changes = store.order_changes().await.unwrap();
        let place = async |node, patience| {
            let placed = store.place_order(node, &restart(), "tashi", patience).await;
            placed.unwrap()
        };
        let open = async |node| {
            let open = store.open_orders(node).await.unwrap();
            open.iter().map(|order| order.id).collect::<Vec<_>>()
        };
        let first = place("a", PATIENCE).await;
        changes.next().await.unwrap();
        let second = place("b", PATIENCE).await;
        let late = place("b", Duration::ZERO).await;
        assert_eq!(open(None).await, [first, second]);
        assert_eq!(open(Some("b")).await, [second]);

        let done = OrderOutcome::done("it is replaced");
        assert_eq!(store.settle_order(first, &done).await.unwrap(), done);
        let again = OrderOutcome::refused("too late");
        assert_eq!(store.settle_order(first, &again).await.unwrap(), done);
        assert_eq!(open(None).await, [second]);
        let order = store.order(first).await.unwrap().unwrap();
        assert_eq!((order.order, order.outcome), (restart(), Some(done)));
        assert!(order.done_at.is_some());
        let of_b = store.orders_of("b", 10).await.unwrap();
        assert_eq!(
            of_b.iter().map(|order| order.id).collect::<Vec<_>>(),
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
