//! Orders of operators to nodes. They lie in the database until they are done or their time is over, so that they come from any
//! process and outlive a leader. The leader sends them to the nodes that it gives work; the others look for their own.

use std::convert::Infallible;
use std::time::Duration;

use futures::future::join_all;
use parkhang_actors::cluster::RemotePools;
use parkhang_actors::domain::{OrderOutcome, PlacedOrder};
use parkhang_actors::state::{PostgresStore, StateError};
use parkhang_actors::supervisor::OrderBook;
use tracing::{debug, info};

/// Before an order is sent again to a node that was not in touch, and before a database is asked again that was away.
const RETRY: Duration = Duration::from_secs(1);

/// For ever: has the orders of other nodes carried out by those that are in touch with this leader.
pub async fn forward(store: &PostgresStore, pools: &RemotePools) {
    attend(store, None, async |order| pools.order(order).await).await;
}

/// For ever: carries out the orders to this node.
pub async fn obey(store: &PostgresStore, node: &str, book: &OrderBook) {
    let carry_out = async |order: &PlacedOrder| Some(book.carry_out(order.id, order.order.clone()).await);
    attend(store, Some(node), carry_out).await;
}

async fn attend(
    store: &PostgresStore,
    node: Option<&str>,
    carry_out: impl AsyncFn(&PlacedOrder) -> Option<OrderOutcome>,
) {
    loop {
        let Err::<Infallible, StateError>(error) = listen(store, node, &carry_out).await;
        debug!(%error, "cannot hear of orders to nodes now");
        tokio::time::sleep(RETRY).await;
    }
}

async fn listen(
    store: &PostgresStore,
    node: Option<&str>,
    carry_out: &impl AsyncFn(&PlacedOrder) -> Option<OrderOutcome>,
) -> Result<Infallible, StateError> {
    let mut changes = store.order_changes().await?;
    loop {
        // First of all, of what came before anybody listened.
        let open = store.open_orders(node).await?;
        let outcomes = join_all(open.iter().map(|order| carry_out(order))).await;
        let mut is_left = false;
        for (order, outcome) in open.iter().zip(outcomes) {
            match outcome {
                Some(outcome) => {
                    let order_name = order.order.name();
                    info!(
                        node = order.node,
                        order = order_name,
                        by = order.asked_by,
                        ?outcome,
                        "an operator's order"
                    );
                    store.settle_order(order.id, &outcome).await?;
                }
                None => is_left = true,
            }
        }
        if is_left {
            tokio::select! {
                heard = changes.next() => heard?,
                () = tokio::time::sleep(RETRY) => {}
            }
        } else {
            changes.next().await?;
        }
    }
}
