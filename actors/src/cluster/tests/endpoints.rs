//! Every message through a session of two node servers. In one process each sees its own endpoints as those of its peer, which
//! is all that these tests need: what is asked is encoded, crosses a socket, and is answered the same way.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use chrono::Utc;
use ractor::BytesConvertable;
use tokio::time::timeout;

use super::{TIMEOUT, address, alone, config, connected, cookie, listening};
use crate::cluster::endpoint::{AskError, Endpoint, EndpointMsg, ORCHESTRATORS, STAGES, ask, introduction};
use crate::cluster::{
    Cluster, ClusterConfig, NodeName, RemoteOrchestrator, RemotePools, RemotePoolsConfig, Security,
    UplinkConfig,
};
use crate::orchestrator::{OrchestratorConfig, OrchestratorHandle};
use crate::stage::{StageContext, StageInfo, StageLogic, StageRegistry};
use crate::supervisor::{HealthPolicy, NodeConfig, NodeSupervisor};
use crate::telemetry::ProgressBoard;
use crate::wire::{
    Askers, Assign, Drain, DrainReply, EndpointRole, Envelope, Fault, Handshake, Heartbeat, Kind, NodeNotice,
    NodePhase, NoticeReply, OpenError, Peer, Report, ReportedOutcome,
};
use parkhang_core::domain::testing;
use parkhang_core::domain::{
    AssignReply, Assignment, Epoch, Fence, Hardware, JobConfig, JobKey, LeaseRenewal, NodeState, ReportReply,
    StageName, StageProgress, StageVerdict,
};
use parkhang_state::MemoryStore;
use serde_json::json;

const LIMIT: Duration = Duration::from_secs(10);

/// Two node servers of this process, connected.
struct Pair {
    one: Cluster,
    other: Cluster,
}

impl Pair {
    async fn start() -> Self {
        let one = Cluster::start(listening("one", Security::Loopback(cookie())))
            .await
            .unwrap();
        let other = Cluster::start(ClusterConfig {
            peers: vec![address(&one)],
            ..config("other", Security::Loopback(cookie()))
        });
        let pair = Self {
            other: other.await.unwrap(),
            one,
        };
        connected(&pair.one, 1).await;
        connected(&pair.other, 1).await;
        pair
    }

    async fn leave(self) {
        self.other.leave().await;
        self.one.leave().await;
    }
}

/// The endpoint of a group, as the peer sees it.
async fn remote_endpoint(scope: &str, group: &str) -> Endpoint {
    let found = async {
        loop {
            let members = ractor::pg::get_scoped_members(&scope.to_owned(), &group.to_owned());
            if let Some(endpoint) = members.into_iter().find(|member| !member.get_id().is_local()) {
                return endpoint.into();
            }
            tokio::task::yield_now().await;
        }
    };
    timeout(TIMEOUT, found).await.expect("the endpoint shows")
}

async fn refusal(endpoint: &Endpoint, bytes: Vec<u8>) -> Fault {
    let envelope = Envelope::from_bytes(bytes);
    let answer = endpoint
        .call(|reply| EndpointMsg::Ask(envelope, reply), Some(LIMIT))
        .await
        .unwrap()
        .unwrap();
    answer.open().unwrap()
}

async fn refuses_what_it_cannot_read(endpoint: &Endpoint, unserved: Kind) {
    for (bytes, fault) in [
        (vec![], Fault::NoHeader),
        (vec![9, 1, 0], Fault::UnknownVersion { version: 9 }),
        (vec![1, 99, 0], Fault::UnknownKind { kind: 99 }),
        (
            vec![1, unserved.number()],
            Fault::UnexpectedKind {
                kind: unserved.number(),
            },
        ),
        (vec![1; 70_000], Fault::TooLarge { bytes: 70_000 }),
    ] {
        assert_eq!(refusal(endpoint, bytes).await, fault);
    }
    let garbage = refusal(endpoint, vec![1, Kind::Handshake.number(), 255, 255, 255]).await;
    assert!(matches!(garbage, Fault::Malformed { kind: 1, .. }), "{garbage:?}");
}

fn stage() -> StageName {
    testing::stage("waiting")
}

fn fence(task: i64) -> Fence {
    testing::fence(task, "waiting")
}

fn assign(task: i64, epoch: i64) -> Assign {
    let assignment = Assignment {
        fence: fence(task),
        lease_until: Utc::now() + chrono::Duration::minutes(1),
        volume: "W1-I1".parse().unwrap(),
        document: None,
        job: JobKey::new("J1").unwrap(),
        config: Arc::new(JobConfig::default()),
    };
    Assign::new(&assignment, Epoch(epoch)).unwrap()
}

/// Runs until it is drained.
#[derive(Debug)]
struct Waiting;

impl StageInfo for Waiting {
    fn name(&self) -> StageName {
        stage()
    }

    fn hardware(&self) -> Hardware {
        Hardware::Cpu
    }
}

#[async_trait]
impl StageLogic for Waiting {
    fn info(&self) -> &dyn StageInfo {
        self
    }

    async fn run(&self, context: StageContext) -> StageVerdict {
        context.drain.cancelled().await;
        StageVerdict::Interrupted
    }
}

#[tokio::test]
async fn a_stage_endpoint_answers_whatever_it_is_sent() {
    let _alone = alone().await;
    let (scope, name) = ("stage-endpoint", NodeName::unique("node").unwrap());
    let pair = Pair::start().await;
    let uplink = RemoteOrchestrator::start(UplinkConfig::new(name.clone(), scope))
        .await
        .unwrap();
    let node = NodeSupervisor::start(NodeConfig {
        name: name.to_string(),
        slots: HashMap::from([(Hardware::Cpu, 1)]),
        registry: Arc::new(StageRegistry::of(vec![Arc::new(Waiting)])),
        progress: Arc::new(ProgressBoard::default()),
        control_plane: Arc::new(uplink.clone()),
        heartbeat: Duration::from_secs(5),
        health: HealthPolicy::default(),
    });
    let node = node.await.unwrap();
    let endpoint = remote_endpoint(scope, STAGES).await;

    let handshake = Handshake {
        peer: introduction(&name),
    };
    let info = ask(&endpoint, &handshake, LIMIT).await.unwrap();
    assert_eq!(info.peer, introduction(&name));
    match info.role {
        EndpointRole::Stage(offer) => {
            assert_eq!((offer.stage, offer.slots), (stage(), 1));
        }
        other => panic!("{other:?}"),
    }
    refuses_what_it_cannot_read(&endpoint, Kind::Heartbeat).await;

    let strange = Assign {
        fence: Fence {
            stage: testing::stage("other"),
            ..fence(1)
        },
        ..assign(1, 5)
    };
    let late = Assign {
        lease_until: 0,
        ..assign(1, 5)
    };
    let unreadable = Assign {
        config: "no json".to_owned(),
        ..assign(1, 5)
    };
    for (request, reply) in [
        (&late, AssignReply::Busy),
        (&assign(1, 5), AssignReply::Accepted),
        // Sent again, as after a lost answer.
        (&assign(1, 5), AssignReply::Accepted),
        (&assign(2, 5), AssignReply::Busy),
        (&assign(2, 4), AssignReply::StaleEpoch { seen: Epoch(5) }),
    ] {
        assert_eq!(ask(&endpoint, request, LIMIT).await.unwrap(), reply);
    }
    for (request, complaint) in [(&strange, "runs waiting"), (&unreadable, "configuration")] {
        match ask(&endpoint, request, LIMIT).await.unwrap() {
            AssignReply::Refused { reason } => assert!(reason.contains(complaint), "{reason}"),
            other => panic!("{other:?}"),
        }
    }
    let huge = Assign {
        config: "x".repeat(70_000),
        ..assign(3, 5)
    };
    match ask(&endpoint, &huge, LIMIT).await {
        Err(AskError::Misunderstood(OpenError::Unreadable(Fault::TooLarge { .. }))) => {}
        other => panic!("{other:?}"),
    }

    assert_eq!(ask(&endpoint, &Drain, LIMIT).await.unwrap(), DrainReply);
    assert_eq!(
        ask(&endpoint, &assign(4, 5), LIMIT).await.unwrap(),
        AssignReply::Draining
    );
    node.stop().await;
    uplink.stop().await;
    pair.leave().await;
}

#[tokio::test]
async fn an_orchestrator_endpoint_answers_whatever_it_is_sent() {
    let _alone = alone().await;
    let (scope, name) = ("orchestrator-endpoint", NodeName::unique("node").unwrap());
    let pair = Pair::start().await;
    let orchestrator = OrchestratorHandle::start(OrchestratorConfig::new(Arc::new(MemoryStore::new())));
    let orchestrator = orchestrator.await.unwrap();
    let config = RemotePoolsConfig {
        scope: scope.to_owned(),
        ..RemotePoolsConfig::new(name.clone(), orchestrator.clone(), Epoch(7))
    };
    let registry = config.registry.clone();
    let pools = RemotePools::start(config).await.unwrap();
    let endpoint = remote_endpoint(scope, ORCHESTRATORS).await;

    let handshake = Handshake {
        peer: introduction(&name),
    };
    let info = ask(&endpoint, &handshake, LIMIT).await.unwrap();
    assert_eq!(info.role, EndpointRole::Orchestrator { epoch: Epoch(7) });
    refuses_what_it_cannot_read(&endpoint, Kind::Assign).await;

    // There is no such task: the lease is over, and so is the right to report on it.
    let pages = StageProgress {
        pages: 9,
        succeeded: 4,
        skipped: 3,
        failed: 2,
    };
    let heartbeat = Heartbeat {
        worker: testing::worker("w"),
        leases: vec![LeaseRenewal {
            fence: fence(1),
            volume: "W1-I1".parse().unwrap(),
            progress: Some(pages),
        }],
    };
    let reply = ask(&endpoint, &heartbeat, LIMIT).await.unwrap();
    assert_eq!(
        (reply.epoch, reply.leases.lost, reply.leases.cancelled),
        (Epoch(7), vec![fence(1)], vec![])
    );
    let notice = |about: &str| NodeNotice {
        peer: introduction(&name),
        phase: NodePhase::Draining,
        about: about.to_owned(),
    };
    assert_eq!(
        ask(&endpoint, &notice("{\"roles\": [\"cpu\"]}"), LIMIT)
            .await
            .unwrap(),
        NoticeReply
    );
    let nodes = registry.snapshot();
    assert_eq!(
        (nodes[0].name.as_str(), nodes[0].state),
        (name.as_str(), NodeState::Draining)
    );
    assert_eq!(nodes[0].roles, ["cpu"]);
    for node in ["ocr-1", "ocr-2"] {
        let model = if node == "ocr-1" { "vision" } else { "ours" };
        let about = json!({
            "engines": [{
                "service": "vision", "in_flight": 0, "answers_lately": 0, "answers": 0, "errors": {}, "failures": 0,
                "paused_until": null, "error": null,
            }],
            "pools": [{"worker": format!("{node}/ocr/1"), "stage": "ocr", "slots": 2, "in_use": 0, "models": [model]}],
        });
        let described = NodeNotice {
            peer: Peer {
                node: node.to_owned(),
                ..introduction(&name)
            },
            phase: NodePhase::Working,
            about: about.to_string(),
        };
        ask(&endpoint, &described, LIMIT).await.unwrap();
    }
    let askers = Askers {
        services: ["vision", "qwen"].map(str::to_owned).to_vec(),
    };
    let reply = ask(&endpoint, &askers, LIMIT).await.unwrap();
    assert_eq!(reply.nodes, [1, 0], "only a stage of one asks");
    let refused = ask(&endpoint, &notice("no json"), LIMIT).await;
    assert!(
        matches!(
            &refused,
            Err(AskError::Misunderstood(OpenError::Refused(
                Fault::Malformed { .. }
            )))
        ),
        "{refused:?}"
    );

    let report = |outcome| Report {
        fence: fence(1),
        outcome,
    };
    for outcome in [ReportedOutcome::Interrupted, ReportedOutcome::Died] {
        let reply = ask(&endpoint, &report(outcome), LIMIT).await.unwrap();
        assert_eq!(reply, ReportReply::Fenced);
    }
    let nonsense = report(ReportedOutcome::Succeeded {
        metrics: "no json".to_owned(),
        fingerprint: None,
        results: None,
    });
    match ask(&endpoint, &nonsense, LIMIT).await {
        Err(AskError::Misunderstood(OpenError::Refused(Fault::Malformed { reason, .. }))) => {
            assert!(reason.contains("metrics"), "{reason}");
        }
        other => panic!("{other:?}"),
    }
    orchestrator.stop().await;
    let unheard = ask(&endpoint, &report(ReportedOutcome::Died), LIMIT)
        .await
        .unwrap();
    assert_eq!(unheard, ReportReply::Unrecorded);
    pools.stop().await;
    pair.leave().await;
}

#[tokio::test]
async fn an_endpoint_that_is_gone_gives_no_answer() {
    let _alone = alone().await;
    let (scope, name) = ("gone-endpoint", NodeName::unique("node").unwrap());
    let pair = Pair::start().await;
    let orchestrator = OrchestratorHandle::start(OrchestratorConfig::new(Arc::new(MemoryStore::new())));
    let orchestrator = orchestrator.await.unwrap();
    let config = RemotePoolsConfig {
        scope: scope.to_owned(),
        ..RemotePoolsConfig::new(name.clone(), orchestrator.clone(), Epoch(1))
    };
    let pools = RemotePools::start(config).await.unwrap();
    let endpoint = remote_endpoint(scope, ORCHESTRATORS).await;
    pair.leave().await;
    let handshake = Handshake {
        peer: introduction(&name),
    };
    let answer = ask(&endpoint, &handshake, LIMIT).await;
    assert!(matches!(answer, Err(AskError::NoAnswer)), "{answer:?}");
    pools.stop().await;
    orchestrator.stop().await;
}
