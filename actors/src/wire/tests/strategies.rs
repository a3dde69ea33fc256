//! Any message.

use proptest::collection::vec;
use proptest::option;
use proptest::prelude::*;

use crate::wire::{
    Assign, Cancel, Command, CommandReply, EndpointInfo, EndpointRole, Fault, Handshake, Heartbeat,
    HeartbeatReply, NodeNotice, NodePhase, Peer, Report, ReportedOutcome, Spend,
};
use parkhang_core::domain::{
    AssignReply, Attempt, Epoch, Fence, Generation, JobKey, LeaseRenewal, PoolInfo, RenewalReply,
    ReportReply, SpendReply, StageName, StageProgress, TaskId, VolumeId, WorkerId,
};

fn stage() -> impl Strategy<Value = StageName> {
    "[a-z][a-z0-9_]{0,20}x".prop_map(|name| StageName::new(name).unwrap())
}

pub(super) fn fence() -> impl Strategy<Value = Fence> {
    (any::<i64>(), stage(), any::<i32>(), any::<i64>()).prop_map(|(task, stage, attempt, generation)| Fence {
        task: TaskId(task),
        stage,
        attempt: Attempt(attempt),
        generation: Generation(generation),
    })
}

pub(super) fn volume() -> impl Strategy<Value = VolumeId> {
    ("W[A-Z0-9]{1,12}", "I[A-Z0-9-]{1,12}").prop_map(|(w, i)| VolumeId::new(w, i).unwrap())
}

pub(super) fn job() -> impl Strategy<Value = JobKey> {
    "[A-Za-z0-9][A-Za-z0-9._-]{0,40}".prop_map(|key| JobKey::new(key).unwrap())
}

fn worker() -> impl Strategy<Value = WorkerId> {
    ".{0,40}".prop_map(WorkerId)
}

fn peer() -> impl Strategy<Value = Peer> {
    (any::<u16>(), ".{0,20}", ".{0,40}").prop_map(|(protocol, build, node)| Peer {
        protocol,
        build,
        node,
    })
}

pub(super) fn handshake() -> impl Strategy<Value = Handshake> {
    peer().prop_map(|peer| Handshake { peer })
}

fn pool_info() -> impl Strategy<Value = PoolInfo> {
    (worker(), stage(), any::<u32>(), vec(".{0,30}", 0..5)).prop_map(|(worker, stage, slots, models)| {
        PoolInfo {
            worker,
            stage,
            slots: slots as usize,
            models,
        }
    })
}

pub(super) fn endpoint_info() -> impl Strategy<Value = EndpointInfo> {
    let role = prop_oneof![
        pool_info().prop_map(EndpointRole::Stage),
        any::<i64>().prop_map(|epoch| EndpointRole::Orchestrator { epoch: Epoch(epoch) }),
    ];
    (peer(), role).prop_map(|(peer, role)| EndpointInfo { peer, role })
}

pub(super) fn assign() -> impl Strategy<Value = Assign> {
    (any::<i64>(), fence(), any::<i64>(), volume(), job(), ".{0,2000}").prop_map(
        |(epoch, fence, lease_until, volume, job, config)| Assign {
            epoch: Epoch(epoch),
            fence,
            lease_until,
            volume,
            job,
            config,
        },
    )
}

pub(super) fn assign_reply() -> impl Strategy<Value = AssignReply> {
    prop_oneof![
        Just(AssignReply::Accepted),
        Just(AssignReply::Busy),
        Just(AssignReply::Draining),
        any::<i64>().prop_map(|seen| AssignReply::StaleEpoch { seen: Epoch(seen) }),
        ".{0,200}".prop_map(|reason| AssignReply::Refused { reason }),
    ]
}

pub(super) fn lease_renewal() -> impl Strategy<Value = LeaseRenewal> {
    let progress = any::<[u64; 4]>().prop_map(|[pages, succeeded, skipped, failed]| StageProgress {
        pages,
        succeeded,
        skipped,
        failed,
    });
    (fence(), volume(), option::of(progress)).prop_map(|(fence, volume, progress)| LeaseRenewal {
        fence,
        volume,
        progress,
    })
}

pub(super) fn heartbeat() -> impl Strategy<Value = Heartbeat> {
    (worker(), vec(lease_renewal(), 0..20)).prop_map(|(worker, leases)| Heartbeat { worker, leases })
}

pub(super) fn heartbeat_reply() -> impl Strategy<Value = HeartbeatReply> {
    (any::<i64>(), vec(fence(), 0..20), vec(fence(), 0..20)).prop_map(|(epoch, lost, cancelled)| {
        HeartbeatReply {
            epoch: Epoch(epoch),
            leases: RenewalReply { lost, cancelled },
        }
    })
}

pub(super) fn cancel() -> impl Strategy<Value = Cancel> {
    (any::<i64>(), vec(fence(), 0..20)).prop_map(|(epoch, fences)| Cancel {
        epoch: Epoch(epoch),
        fences,
    })
}

fn outcome() -> impl Strategy<Value = ReportedOutcome> {
    prop_oneof![
        (".{0,500}", option::of("[0-9a-f]{64}"), option::of(".{0,500}")).prop_map(
            |(metrics, fingerprint, results)| ReportedOutcome::Succeeded {
                metrics,
                fingerprint,
                results,
            }
        ),
        (
            ".{0,20}",
            option::of(".{0,20}"),
            ".{0,20}",
            ".{0,500}",
            any::<bool>()
        )
            .prop_map(
                |(stage, item, category, message, retryable)| ReportedOutcome::Failed {
                    stage,
                    item,
                    category,
                    message,
                    retryable,
                }
            ),
        Just(ReportedOutcome::Interrupted),
        Just(ReportedOutcome::Died),
    ]
}

pub(super) fn report() -> impl Strategy<Value = Report> {
    (fence(), outcome()).prop_map(|(fence, outcome)| Report { fence, outcome })
}

pub(super) fn report_reply() -> impl Strategy<Value = ReportReply> {
    prop_oneof![
        Just(ReportReply::Recorded),
        Just(ReportReply::Fenced),
        Just(ReportReply::Unrecorded),
    ]
}

pub(super) fn fault() -> impl Strategy<Value = Fault> {
    prop_oneof![
        any::<u8>().prop_map(|version| Fault::UnknownVersion { version }),
        any::<u8>().prop_map(|kind| Fault::UnknownKind { kind }),
        any::<u8>().prop_map(|kind| Fault::UnexpectedKind { kind }),
        (any::<u8>(), ".{0,200}").prop_map(|(kind, reason)| Fault::Malformed { kind, reason }),
        any::<u64>().prop_map(|bytes| Fault::TooLarge { bytes }),
        Just(Fault::NoHeader),
    ]
}

pub(super) fn node_notice() -> impl Strategy<Value = NodeNotice> {
    let phase = prop_oneof![
        Just(NodePhase::Working),
        Just(NodePhase::Draining),
        Just(NodePhase::Leaving),
    ];
    (peer(), phase, ".{0,500}").prop_map(|(peer, phase, about)| NodeNotice { peer, phase, about })
}

pub(super) fn command() -> impl Strategy<Value = Command> {
    (any::<i64>(), any::<i64>(), ".{0,500}").prop_map(|(epoch, id, command)| Command {
        epoch: Epoch(epoch),
        id,
        command,
    })
}

pub(super) fn command_reply() -> impl Strategy<Value = CommandReply> {
    ".{0,500}".prop_map(|outcome| CommandReply { outcome })
}

pub(super) fn spend() -> impl Strategy<Value = Spend> {
    (
        fence(),
        ".{0,30}",
        any::<u64>(),
        any::<u64>(),
        any::<u64>(),
        any::<u64>(),
    )
        .prop_map(
            |(fence, service, calls, input_tokens, output_tokens, cost)| Spend {
                fence,
                service,
                calls,
                input_tokens,
                output_tokens,
                cost,
            },
        )
}

pub(super) fn spend_reply() -> impl Strategy<Value = SpendReply> {
    prop_oneof![
        Just(SpendReply::Recorded),
        Just(SpendReply::UsedUp),
        Just(SpendReply::Unrecorded),
    ]
}
