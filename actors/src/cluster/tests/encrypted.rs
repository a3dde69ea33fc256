use std::time::Duration;

use rcgen::ExtendedKeyUsagePurpose;
use tokio::net::TcpStream;

use super::certificates::Authority;
use super::{address, alone, config, connected, cookie, is_closed, listening};
use crate::cluster::{Cluster, LinkError, Phase, Security, TlsError, TlsFiles, TlsIdentity};

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

#[tokio::test]
async fn a_certificate_of_a_web_server_takes_part_on_no_side() {
    let _alone = alone().await;
    let authority = Authority::new();
    let of_a_server = || authority.issue_for("127.0.0.1", &[ExtendedKeyUsagePurpose::ServerAuth]);
    let of_a_node = || authority.trusted_by(&authority.issue("127.0.0.1"));
    for (listens, dials) in [
        (of_a_node(), authority.trusted_by(&of_a_server())),
        (authority.trusted_by(&of_a_server()), of_a_node()),
    ] {
        let orchestrator = Cluster::start(listening("orchestrator", security(listens)))
            .await
            .unwrap();
        let worker = Cluster::start(config("worker", security(dials))).await.unwrap();
        assert!(worker.connector.dial(&address(&orchestrator)).await.is_err());
        assert_eq!(*orchestrator.connected().borrow(), 0);
        worker.leave().await;
        orchestrator.leave().await;
    }
}

#[tokio::test]
async fn a_revoked_node_loses_its_session_and_gets_no_other() {
    let _alone = alone().await;
    let authority = Authority::new();
    let (server, lost, kept) = (
        authority.issue("127.0.0.1"),
        authority.issue("lost"),
        authority.issue("kept"),
    );
    let identity = authority.trusted_by(&server);
    let orchestrator = Cluster::start(listening("orchestrator", security(identity.clone())))
        .await
        .unwrap();
    let at = address(&orchestrator);
    let dial = async |leaf| {
        let worker = config("worker", security(authority.trusted_by(leaf)));
        let worker = Cluster::start(worker).await.unwrap();
        let session = worker.connector.dial(&at).await;
        (worker, session)
    };
    let (worker, mut session) = dial(&lost).await;
    let (other, other_session) = dial(&kept).await;
    connected(&orchestrator, 2).await;

    authority.files(&server, &[&lost]);
    identity.look();
    session.as_mut().unwrap().closed().await;
    connected(&orchestrator, 1).await;
    drop(session);
    let (refused, again) = dial(&lost).await;
    assert!(again.is_err());
    assert_eq!(*orchestrator.connected().borrow(), 1);
    // A copy of the list that was cut off at once.
    let revoked = authority.files(&server, &[&lost]).revoked.unwrap();
    std::fs::write(&revoked, "").unwrap();
    identity.look();
    let (still_refused, again) = dial(&lost).await;
    assert!(again.is_err(), "an empty list has revoked the revocation");
    drop(other_session);
    for cluster in [worker, other, refused, still_refused, orchestrator] {
        cluster.leave().await;
    }
}

#[tokio::test]
async fn a_renewed_certificate_is_shown_without_a_restart() {
    let _alone = alone().await;
    let authority = Authority::new();
    let (old, new) = (
        authority.issue("orchestrator.example"),
        authority.issue("127.0.0.1"),
    );
    let files = authority.files(&old, &[]);
    let identity = TlsIdentity::load(files.clone()).unwrap();
    let orchestrator = Cluster::start(listening("orchestrator", security(identity)))
        .await
        .unwrap();
    let at = address(&orchestrator);
    let worker = authority.trusted_by(&authority.issue("worker"));
    let worker = Cluster::start(config("worker", security(worker))).await.unwrap();
    assert!(worker.connector.dial(&at).await.is_err(), "it is another host's");

    let renewed = authority.files(&new, &[]);
    std::fs::copy(&renewed.chain, &files.chain).unwrap();
    // Until its key is there too, the old one stays in use.
    assert!(worker.connector.dial(&at).await.is_err());
    std::fs::copy(&renewed.key, &files.key).unwrap();
    let session = worker.connector.dial(&at).await.unwrap();
    connected(&orchestrator, 1).await;
    drop(session);
    worker.leave().await;
    orchestrator.leave().await;
}

#[test]
fn what_is_no_certificate_is_named() {
    let authority = Authority::new();
    let _ = authority.trusted_by(&authority.issue("node"));
    let nothing = tempfile::NamedTempFile::new().unwrap();
    let files = |path: &std::path::Path| TlsFiles {
        authority: path.to_owned(),
        chain: path.to_owned(),
        key: path.to_owned(),
        revoked: None,
    };
    let empty = TlsIdentity::load(files(nothing.path()));
    assert!(
        matches!(&empty, Err(TlsError::Empty { what }) if what.contains("authority")),
        "{empty:?}"
    );
    let node = authority.issue("node");
    let without_list = TlsIdentity::load(TlsFiles {
        revoked: Some(nothing.path().to_owned()),
        ..authority.files(&node, &[])
    });
    assert!(
        matches!(&without_list, Err(TlsError::Empty { what }) if what.contains("revoked")),
        "{without_list:?}"
    );
    let missing = std::path::Path::new("no/such/file");
    let absent = TlsIdentity::load(files(missing));
    assert!(
        matches!(&absent, Err(TlsError::Read { path, .. }) if path == missing),
        "{absent:?}"
    );
}
