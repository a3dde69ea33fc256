use std::time::Duration;

use tokio::net::TcpStream;
use tokio::time::timeout;

use super::{TIMEOUT, address, alone, config, connected, cookie, is_closed, listening};
use crate::cluster::{
    Cluster, ClusterConfig, ClusterError, Cookie, InsecureAddress, LinkError, PeerAddress, Phase, Security,
};

fn loopback() -> Security {
    Security::Loopback(cookie())
}

#[tokio::test]
async fn a_node_finds_its_peer_again_after_the_peer_went_away() {
    let _alone = alone().await;
    let first = Cluster::start(listening("orchestrator", loopback()))
        .await
        .unwrap();
    let at = first.local_addr();
    let worker = Cluster::start(ClusterConfig {
        peers: vec![address(&first)],
        ..config("worker", loopback())
    });
    let worker = worker.await.unwrap();
    connected(&first, 1).await;
    connected(&worker, 1).await;

    first.leave().await;
    connected(&worker, 0).await;

    let second = Cluster::start(ClusterConfig {
        listen: at,
        ..config("orchestrator", loopback())
    });
    let second = second.await.unwrap();
    connected(&second, 1).await;
    connected(&worker, 1).await;
    worker.leave().await;
    connected(&second, 0).await;
    second.leave().await;
}

#[tokio::test]
async fn another_secret_is_refused() {
    let _alone = alone().await;
    let orchestrator = Cluster::start(listening("orchestrator", loopback()))
        .await
        .unwrap();
    let other = Security::Loopback(Cookie::new("another secret entirely").unwrap());
    let unauthenticated = Cluster::start(config("stranger", other)).await.unwrap();
    let refused = unauthenticated.connector.dial(&address(&orchestrator)).await;
    assert!(matches!(refused, Err(LinkError::Refused)), "{refused:?}");
    assert_eq!(*orchestrator.connected().borrow(), 0);
    unauthenticated.leave().await;
    orchestrator.leave().await;
}

#[tokio::test]
async fn connections_that_do_not_authenticate_are_few_and_short() {
    let _alone = alone().await;
    let mut config = listening("orchestrator", loopback());
    config.max_unauthenticated = 1;
    config.timings.handshake = Duration::from_millis(300);
    let orchestrator = Cluster::start(config).await.unwrap();
    let at = orchestrator.local_addr().unwrap();
    let mut silent = TcpStream::connect(at).await.unwrap();
    let mut beyond = TcpStream::connect(at).await.unwrap();
    is_closed(&mut beyond).await;
    is_closed(&mut silent).await;

    let worker = Cluster::start(super::config("worker", loopback())).await.unwrap();
    // The place is free once the listener's task has ended, shortly after it closed the connection.
    let session = loop {
        if let Ok(session) = worker.connector.dial(&address(&orchestrator)).await {
            break session;
        }
    };
    connected(&orchestrator, 1).await;
    drop(session);
    connected(&orchestrator, 0).await;
    worker.leave().await;
    orchestrator.leave().await;
}

#[tokio::test]
async fn a_peer_that_falls_silent_is_dropped() {
    let _alone = alone().await;
    let orchestrator = Cluster::start(listening("orchestrator", loopback()))
        .await
        .unwrap();
    // Peers ping every 1 to 5 s: to a limit as short as this one they are silent.
    let mut hasty = config("worker", loopback());
    hasty.timings.idle = Duration::from_millis(200);
    let worker = Cluster::start(hasty).await.unwrap();
    let mut session = worker.connector.dial(&address(&orchestrator)).await.unwrap();
    timeout(TIMEOUT, session.closed()).await.expect("in time");
    connected(&orchestrator, 0).await;
    worker.leave().await;
    orchestrator.leave().await;
}

#[tokio::test]
async fn a_peer_that_never_answers_is_given_up() {
    let _alone = alone().await;
    // Connections are accepted by the kernel and then by nobody.
    let mute = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let mut hasty = config("worker", loopback());
    hasty.timings.handshake = Duration::from_millis(200);
    let limit = hasty.timings.handshake;
    let worker = Cluster::start(hasty).await.unwrap();
    let peer: PeerAddress = mute.local_addr().unwrap().to_string().parse().unwrap();
    match worker.connector.dial(&peer).await {
        Err(LinkError::Slow { phase, limit: waited }) => {
            assert_eq!((phase, waited), (Phase::Authentication, limit));
        }
        other => panic!("{other:?}"),
    }
    worker.leave().await;
}

#[tokio::test]
async fn nothing_leaves_this_machine_without_tls() {
    let _alone = alone().await;
    let everywhere = "0.0.0.0:0".parse().unwrap();
    let exposed = Cluster::start(ClusterConfig {
        listen: Some(everywhere),
        ..config("orchestrator", loopback())
    });
    match exposed.await {
        Err(ClusterError::Insecure(InsecureAddress(address))) => assert_eq!(address, everywhere),
        other => panic!("{other:?}"),
    }
    let worker = Cluster::start(config("worker", loopback())).await.unwrap();
    let far = worker.connector.dial(&"192.0.2.1:4697".parse().unwrap()).await;
    assert!(matches!(far, Err(LinkError::Insecure(_))), "{far:?}");
    worker.leave().await;
}

#[test]
fn peers_are_host_and_port() {
    for (text, host) in [
        ("orch-1:4697", "orch-1"),
        ("10.0.0.1:1", "10.0.0.1"),
        ("[::1]:65535", "::1"),
    ] {
        assert_eq!(text.parse::<PeerAddress>().unwrap().host(), host);
    }
    for wrong in ["orch-1", ":4697", "orch-1:", "orch-1:70000", "[::1]"] {
        assert!(wrong.parse::<PeerAddress>().is_err(), "{wrong}");
    }
}
