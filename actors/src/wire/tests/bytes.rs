//! The bytes of one message of each kind. A difference here breaks running clusters: make a new kind instead.

use ractor::BytesConvertable;

use crate::wire::{
    Askers, AskersReply, Assign, AssignDocument, Cancel, CancelReply, Command, CommandReply, Drain,
    DrainReply, EndpointInfo, EndpointRole, Envelope, Fault, Handshake, Heartbeat, HeartbeatReply, Message,
    NodeNotice, NodePhase, NoticeReply, Peer, Report, ReportedOutcome, Spend,
};
use parkhang_core::domain::testing;
use parkhang_core::domain::{
    AssignReply, Attempt, Epoch, Fence, Generation, JobKey, LeaseRenewal, PoolInfo, RenewalReply,
    ReportReply, SpendReply, StageProgress, VolumeId, WorkerId,
};

fn bytes<M: Message>(message: &M) -> String {
    hex::encode(Envelope::seal(message).unwrap().into_bytes())
}

fn fence() -> Fence {
    Fence {
        attempt: Attempt(2),
        generation: Generation(5),
        ..testing::fence(300, "ocr")
    }
}

fn peer() -> Peer {
    Peer {
        protocol: 1,
        build: "0.1.0".to_owned(),
        node: "gpu-1.0badcafe".to_owned(),
    }
}

fn worker() -> WorkerId {
    testing::worker("gpu-1/ocr/1")
}

fn volume() -> VolumeId {
    "W22084-I0886".parse().unwrap()
}

fn assign() -> Assign {
    Assign {
        epoch: Epoch(3),
        fence: fence(),
        lease_until: 1_800_000_000_000_000,
        volume: volume(),
        job: JobKey::new("J1").unwrap(),
        config: "{}".to_owned(),
    }
}

#[test]
fn released_encodings_stay() {
    let offer = PoolInfo {
        models: vec!["dbu-med".to_owned()],
        ..testing::pool("gpu-1/ocr/1", "ocr", 2)
    };
    let lease = LeaseRenewal {
        fence: fence(),
        volume: volume(),
        progress: Some(StageProgress {
            pages: 400,
            succeeded: 7,
            skipped: 1,
            failed: 0,
        }),
    };
    let encodings = [
        bytes(&Fault::UnknownKind { kind: 200 }),
        bytes(&Handshake { peer: peer() }),
        bytes(&EndpointInfo {
            peer: peer(),
            role: EndpointRole::Stage(offer),
        }),
        bytes(&assign()),
        bytes(&AssignReply::StaleEpoch { seen: Epoch(4) }),
        bytes(&Heartbeat {
            worker: worker(),
            leases: vec![lease],
        }),
        bytes(&HeartbeatReply {
            epoch: Epoch(3),
            leases: RenewalReply {
                lost: vec![fence()],
                cancelled: vec![],
            },
        }),
        bytes(&Report {
            fence: fence(),
            outcome: ReportedOutcome::Succeeded {
                metrics: "{}".to_owned(),
                fingerprint: Some("ab".to_owned()),
                results: None,
            },
        }),
        bytes(&ReportReply::Fenced),
        bytes(&Drain),
        bytes(&DrainReply),
        bytes(&Cancel {
            epoch: Epoch(3),
            fences: vec![fence()],
        }),
        bytes(&CancelReply),
        bytes(&NodeNotice {
            peer: peer(),
            phase: NodePhase::Draining,
            about: "{}".to_owned(),
        }),
        bytes(&NoticeReply),
        bytes(&Command {
            epoch: Epoch(3),
            id: 300,
            command: "{}".to_owned(),
        }),
        bytes(&CommandReply {
            outcome: "{}".to_owned(),
        }),
        bytes(&AssignDocument {
            assign: assign(),
            document: "hkex/1.pdf".to_owned(),
        }),
        bytes(&Spend {
            fence: fence(),
            service: "vision".to_owned(),
            calls: 7,
            input_tokens: 70_000,
            output_tokens: 300,
            cost: 10_500_000,
        }),
        bytes(&SpendReply::UsedUp),
        bytes(&Askers {
            services: vec!["vision".to_owned()],
        }),
        bytes(&AskersReply { nodes: vec![1, 300] }),
    ];
    let released: Vec<&str> = include_str!("released.hex").lines().collect();
    assert_eq!(encodings.join("\n"), released.join("\n"));
}

/// Bytes of a peer that is broken or hostile: each is a message or a fault, and what a message says is checked.
#[test]
fn fuzz_messages() {
    let corpus = include_str!("released.hex")
        .lines()
        .map(|line| hex::decode(line).unwrap());
    parkhang_fuzz::Fuzz::new("messages", corpus).feeds(|bytes| {
        let envelope = Envelope::from_bytes(bytes.to_vec());
        macro_rules! open {
            ($($message:ident),+ $(,)?) => { $(let _ = envelope.open::<$message>();)+ };
        }
        open!(
            Fault,
            Handshake,
            EndpointInfo,
            AssignReply,
            Heartbeat,
            HeartbeatReply,
            ReportReply,
            Drain,
            DrainReply,
            Cancel,
            CancelReply,
            NodeNotice,
            NoticeReply,
            Command,
            CommandReply,
            Spend,
            SpendReply,
            Askers,
            AskersReply,
        );
        let _ = envelope.open::<Assign>().map(Assign::into_assignment);
        let _ = envelope
            .open::<AssignDocument>()
            .map(AssignDocument::into_assignment);
        let _ = envelope.open::<Report>().map(Report::into_report);
    });
}
