//! Commands of operators to nodes. They are rows in the database until they are done or expire, so they may come from any process and
//! outlive a leader. The leader sends them to the nodes that it assigns work to; nodes that take their work themselves read their own.

use std::collections::HashSet;
use std::convert::Infallible;
use std::time::Duration;

use futures::StreamExt;
use futures::stream::FuturesUnordered;
use parkhang_actors::cluster::RemotePools;
use parkhang_actors::supervisor::IdempotentExecutor;
use parkhang_core::domain::{CommandOutcome, IssuedCommand};
use parkhang_state::{PostgresStore, StateError};
use tracing::{debug, info};

/// Delay before a command is sent again to a disconnected node, and before an unavailable database is asked again.
const RETRY: Duration = Duration::from_secs(1);

/// Sends commands to connected nodes, for ever.
pub async fn forward(store: &PostgresStore, pools: &RemotePools) {
    attend(store, None, async |command| pools.command(command).await).await;
}

/// Carries out the commands to this node, for ever.
pub async fn execute_commands(store: &PostgresStore, node: &str, book: &IdempotentExecutor) {
    let carry_out =
        async |command: &IssuedCommand| Some(book.carry_out(command.id, command.command.clone()).await);
    attend(store, Some(node), carry_out).await;
}

async fn attend(
    store: &PostgresStore,
    node: Option<&str>,
    carry_out: impl AsyncFn(&IssuedCommand) -> Option<CommandOutcome>,
) {
    loop {
        let Err::<Infallible, StateError>(error) = listen(store, node, &carry_out).await;
        // Whatever needs the database for the work reports that it is away; here it would be a line every
        // second.
        debug!(%error, "cannot read orders to nodes now");
        tokio::time::sleep(RETRY).await;
    }
}

/// Carries out commands concurrently, and records each outcome as it comes.
///
/// # Errors
///
/// If the database is not available. Commands that were under way are carried out again, which the node recognises by their number.
async fn listen(
    store: &PostgresStore,
    node: Option<&str>,
    carry_out: &impl AsyncFn(&IssuedCommand) -> Option<CommandOutcome>,
) -> Result<Infallible, StateError> {
    let mut changes = store.command_changes().await?;
    let mut begun = HashSet::new();
    let mut under_way = FuturesUnordered::new();
    loop {
        // The first read is for commands that came before the subscription. `begun` keeps a command that is still open from being
        // started twice.
        for command in store.open_commands(node).await? {
            if begun.insert(command.id) {
                // Each on its own: a node that does not answer must not hold back the outcomes of the others.
                under_way.push(async move {
                    let outcome = carry_out(&command).await;
                    // The node is not connected to this leader now; the command stays open and is tried again until it expires.
                    if outcome.is_none() {
                        tokio::time::sleep(RETRY).await;
                    }
                    (command, outcome)
                });
            }
        }
        tokio::select! {
            // Dropping `under_way` with the error is safe, as the node recognises a command that it has begun
            // by its number.
            heard = changes.next() => heard?,
            Some((command, outcome)) = under_way.next() => {
                if let Some(outcome) = outcome {
                    let command_name = command.command.name();
                    info!(node = command.node, command = command_name, by = command.asked_by, ?outcome, "an operator's order");
                    store.complete_command(command.id, &outcome).await?;
                }
                // Removed also without an outcome, so that the next look at the open commands tries it again.
                begun.remove(&command.id);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};

    use parkhang_core::domain::NodeCommand;
    use parkhang_state::EmbeddedPostgres;

    use super::*;

    const TIMEOUT: Duration = Duration::from_secs(600);

    async fn empty_store() -> (EmbeddedPostgres, PostgresStore) {
        let server = EmbeddedPostgres::temporary().unwrap();
        let options = server.create_database("orders").await.unwrap();
        let store = PostgresStore::connect_with(options).await.unwrap();
        (server, store)
    }

    async fn until_settled(store: &PostgresStore, command: i64) {
        let mut changes = store.command_changes().await.unwrap();
        while store.command(command).await.unwrap().unwrap().outcome.is_none() {
            changes.next().await.unwrap();
        }
    }

    #[tokio::test]
    async fn an_order_that_nobody_answers_holds_back_no_other() {
        let (_server, store) = empty_store().await;
        let place = async |node: &str| {
            let placed = store
                .issue_command(node, &NodeCommand::Drain, "test", TIMEOUT)
                .await;
            placed.unwrap()
        };
        let silent = place("silent").await;
        let ready = place("ready").await;
        let answer = async |command: &IssuedCommand| match command.node.as_str() {
            "silent" => std::future::pending().await,
            _ => Some(CommandOutcome::done("drains")),
        };
        let settled = async {
            until_settled(&store, ready).await;
            // One that is placed while another is under way is begun as well.
            until_settled(&store, place("late").await).await;
        };
        tokio::select! {
            () = attend(&store, None, answer) => unreachable!("it attends for ever"),
            () = settled => {}
        }
        let open: Vec<i64> = store
            .open_commands(None)
            .await
            .unwrap()
            .iter()
            .map(|command| command.id)
            .collect();
        assert_eq!(open, [silent]);
    }

    #[tokio::test]
    async fn an_order_to_a_node_that_is_not_in_touch_is_sent_again() {
        let (_server, store) = empty_store().await;
        let placed = store
            .issue_command("late", &NodeCommand::Drain, "test", TIMEOUT)
            .await
            .unwrap();
        let tries = AtomicUsize::new(0);
        let answer = async |_: &IssuedCommand| {
            (tries.fetch_add(1, Ordering::Relaxed) == 1).then(|| CommandOutcome::done("drains"))
        };
        tokio::select! {
            () = attend(&store, None, answer) => unreachable!("it attends for ever"),
            () = until_settled(&store, placed) => {}
        }
        assert_eq!(tries.into_inner(), 2);
    }
}
