use std::time::Duration;

use tokio::net::TcpStream;

use super::certificates::Authority;
use super::{address, alone, config, connected, cookie, is_closed, listening};
use crate::cluster::{Cluster, LinkError, Phase, Security, TlsError, TlsIdentity};

fn security(identity: TlsIdentity) -> Security {
    Security::MutualTls {
        cookie: cookie(),
        identity,
    }
}

#[tokio::test]
async fn only_certificates_of_the_same_authority_connect() {
    let _alone = alone().await;
    let (ours, theirs) = (Authority::new(), Authority::new());
    let server = ours.trusted_by(&ours.issue("127.0.0.1"));
    let orchestrator = Cluster::start(listening("orchestrator", security(server)))
        .await
        .unwrap();
    let at = address(&orchestrator);

    let friend = ours.trusted_by(&ours.issue("worker"));
    let worker = Cluster::start(config("worker", security(friend))).await.unwrap();
    let session = worker.connector.dial(&at).await.unwrap();
    connected(&orchestrator, 1).await;
    drop(session);
    connected(&orchestrator, 0).await;
    worker.leave().await;

    // Does not trust the orchestrator.
    let unauthenticated = theirs.trusted_by(&theirs.issue("worker"));
    let unauthenticated = Cluster::start(config("stranger", security(unauthenticated)))
        .await
        .unwrap();
    match unauthenticated.connector.dial(&at).await {
        Err(LinkError::Io { phase, .. }) => assert_eq!(phase, Phase::TlsHandshake),
        other => panic!("{other:?}"),
    }
    unauthenticated.leave().await;

    // Trusts the orchestrator, which does not trust it.
    let intruder = ours.trusted_by(&theirs.issue("worker"));
    let intruder = Cluster::start(config("intruder", security(intruder)))
        .await
        .unwrap();
    assert!(intruder.connector.dial(&at).await.is_err());
    assert_eq!(*orchestrator.connected().borrow(), 0);
    intruder.leave().await;
    orchestrator.leave().await;
}

#[tokio::test]
async fn a_certificate_for_another_host_is_refused() {
    let _alone = alone().await;
    let authority = Authority::new();
    let server = authority.trusted_by(&authority.issue("orchestrator.example"));
    let orchestrator = Cluster::start(listening("orchestrator", security(server)))
        .await
        .unwrap();
    let worker = authority.trusted_by(&authority.issue("worker"));
    let worker = Cluster::start(config("worker", security(worker))).await.unwrap();
    match worker.connector.dial(&address(&orchestrator)).await {
        Err(LinkError::Io { phase, source }) => {
            assert_eq!(phase, Phase::TlsHandshake);
            assert!(source.to_string().contains("not valid for name"), "{source}");
        }
        other => panic!("{other:?}"),
    }
    worker.leave().await;
    orchestrator.leave().await;
}

#[tokio::test]
async fn a_silent_client_holds_up_nobody() {
    let _alone = alone().await;
    let authority = Authority::new();
    let mut config = listening(
        "orchestrator",
        security(authority.trusted_by(&authority.issue("127.0.0.1"))),
    );
    config.timings.handshake = Duration::from_secs(2);
    let orchestrator = Cluster::start(config).await.unwrap();
    let mut silent = TcpStream::connect(orchestrator.local_addr().unwrap())
        .await
        .unwrap();

    let worker = authority.trusted_by(&authority.issue("worker"));
    let worker = Cluster::start(super::config("worker", security(worker)))
        .await
        .unwrap();
    let session = worker.connector.dial(&address(&orchestrator)).await.unwrap();
    connected(&orchestrator, 1).await;
    is_closed(&mut silent).await;
    drop(session);
    worker.leave().await;
    orchestrator.leave().await;
}

#[test]
fn what_is_no_certificate_is_named() {
    let authority = Authority::new();
    let _ = authority.trusted_by(&authority.issue("node"));
    let empty = TlsIdentity::from_pem(b"", b"", b"");
    assert!(
        matches!(&empty, Err(TlsError::Empty { what }) if what.contains("authority")),
        "{empty:?}"
    );
    let missing = std::path::Path::new("no/such/file");
    let absent = TlsIdentity::load(missing, missing, missing);
    assert!(
        matches!(&absent, Err(TlsError::Read { path, .. }) if path == missing),
        "{absent:?}"
    );
}
