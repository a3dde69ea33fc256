//! Commands of an operator, through a session of two node servers.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use serde_json::{Map, Value, json};
use tokio::sync::watch;
use tokio::time::timeout;

use super::{PATIENCE, address, alone, config, connected, cookie, listening};
use crate::cluster::{
    Cluster, ClusterConfig, Cookie, DeskError, InTouch, NodeName, OperatorDesk, Operators, OperatorsConfig,
    RemoteDesk, RemoteDeskConfig, Security,
};
use crate::wire::{CommandOutcome, Fault, OpenError};

/// Tells what it was asked, as often as it was asked to.
struct Echo;

#[async_trait]
impl OperatorDesk for Echo {
    async fn carry_out(
        &self,
        operator: &str,
        words: &[String],
        arguments: Map<String, Value>,
    ) -> CommandOutcome {
        let times = arguments["times"].as_u64().unwrap();
        if times == 0 {
            return CommandOutcome::refused("invalid", "not at all");
        }
        CommandOutcome::Done {
            data: json!({"operator": operator, "words": words}),
            text: "ཀ".repeat(usize::try_from(times).unwrap()),
            failed: times == 1,
        }
    }
}

async fn in_touch(desk: &RemoteDesk, desks: usize) -> InTouch {
    let reached = async {
        let mut now = desk.in_touch();
        while now.desks.len() != desks {
            now = desk.changed_from(&now).await;
        }
        now
    };
    timeout(PATIENCE, reached).await.expect("in time")
}

fn times(times: u64) -> Map<String, Value> {
    Map::from_iter([("times".to_owned(), times.into())])
}

#[tokio::test]
async fn a_command_is_carried_out_and_answered_whole() {
    let _alone = alone().await;
    let (scope, name) = ("operators", NodeName::unique("orch").unwrap());
    let one = Cluster::start(listening("one", Security::Loopback(cookie())))
        .await
        .unwrap();
    let other = Cluster::start(ClusterConfig {
        peers: vec![address(&one)],
        ..config("other", Security::Loopback(cookie()))
    });
    let other = other.await.unwrap();
    connected(&other, 1).await;
    let operators = Operators::welcome(OperatorsConfig {
        node: name.clone(),
        scope: scope.to_owned(),
        desk: Arc::new(Echo),
        leads: watch::channel(None).1,
    });
    let operators = operators.await.unwrap();
    let operator = NodeName::unique("otto").unwrap();
    let desk = RemoteDesk::start(RemoteDeskConfig {
        // Nobody waits for so long: an orchestrator that ends is noticed.
        command_timeout: Duration::from_secs(3600),
        ..RemoteDeskConfig::new(operator.clone(), scope)
    });
    let desk = desk.await.unwrap();
    // Both sessions of this process show the same gate.
    let mut now = desk.in_touch();
    while now.desks.is_empty() {
        now = timeout(PATIENCE, desk.changed_from(&now)).await.expect("in time");
    }
    assert_eq!((now.leader, now.desks[0].as_str()), (None, name.as_str()));

    let words = ["job".to_owned(), "list".to_owned()];
    // Some 200 KB of Tibetan, and some that fit one message.
    for count in [1, 70_000] {
        let outcome = desk.ask(&words, &times(count)).await.unwrap();
        let CommandOutcome::Done { data, text, failed } = outcome else {
            panic!("{outcome:?}");
        };
        assert_eq!(data, json!({"operator": operator.as_str(), "words": words}));
        assert_eq!(text.chars().count() as u64, count);
        assert_eq!(failed, count == 1);
    }
    let refused = desk.ask(&words, &times(0)).await.unwrap();
    assert_eq!(refused, CommandOutcome::refused("invalid", "not at all"));

    let long = Map::from_iter([("volumes".to_owned(), "W".repeat(70_000).into())]);
    match desk.ask(&words, &long).await {
        Err(DeskError::Misunderstood {
            error: OpenError::Unreadable(Fault::TooLarge { .. }),
            ..
        }) => {}
        other => panic!("{other:?}"),
    }

    operators.stop().await;
    in_touch(&desk, 0).await;
    let unsent = desk.ask(&words, &times(1)).await;
    assert!(matches!(unsent, Err(DeskError::OutOfTouch)), "{unsent:?}");
    desk.stop().await;
    other.leave().await;
    one.leave().await;
}

#[tokio::test]
async fn a_peer_with_another_secret_is_a_trouble_that_is_told() {
    let _alone = alone().await;
    let one = Cluster::start(listening("one", Security::Loopback(cookie())))
        .await
        .unwrap();
    let stranger = Security::Loopback(Cookie::new("another secret altogether").unwrap());
    let other = Cluster::start(ClusterConfig {
        peers: vec![address(&one)],
        ..config("other", stranger)
    });
    let other = other.await.unwrap();
    let mut troubles = other.troubles();
    let told = timeout(PATIENCE, troubles.wait_for(|troubles| !troubles.is_empty()));
    let told = told.await.expect("in time").unwrap().clone();
    assert!(told.contains_key(address(&one).as_str()), "{told:?}");
    other.leave().await;
    one.leave().await;
}
