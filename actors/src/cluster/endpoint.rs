//! Endpoints: the only actors that other nodes can send messages to. An endpoint takes one envelope and answers with one, whatever it
//! was sent; it decides nothing and passes everything on to a local actor.

use std::marker::PhantomData;
use std::time::Duration;

use ractor::rpc::CallResult;
use ractor::{Actor, ActorCell, ActorProcessingErr, ActorRef, RpcReplyPort, SpawnErr};
use ractor_cluster::RactorClusterMessage;

use crate::detached;
use crate::wire::{EndpointInfo, Envelope, Fault, Kind, Message, OpenError, PROTOCOL, Peer, Request};

use super::name::NodeName;

/// Limit on the leases in one message, which keeps it under its size limit however long the names are.
pub(super) const LEASES_PER_MESSAGE: usize = 100;

/// Group of the endpoints of stage pools, within a cluster's scope.
pub(super) const STAGES: &str = "stages";
/// Group of the endpoints of leading orchestrators.
pub(super) const ORCHESTRATORS: &str = "orchestrators";

/// The one message of an endpoint. The name of the variant is on the wire.
#[derive(RactorClusterMessage)]
pub(super) enum EndpointMsg {
    #[rpc]
    Ask(Envelope, RpcReplyPort<Envelope>),
}

/// An endpoint, here or on another node.
pub(super) type Endpoint = ActorRef<EndpointMsg>;

/// Receiver of the requests to an endpoint.
pub(super) trait Answer: Clone + Send + Sync + 'static {
    /// The group in which other nodes find the endpoint.
    const GROUP: &'static str;

    /// Answers a request; a fault is sent back as such.
    fn answer(&self, envelope: &Envelope) -> impl Future<Output = Result<Envelope, Fault>> + Send;
}

/// Opens an endpoint to `answerer` for other nodes of the cluster `scope`; it closes with its supervisor.
pub(super) async fn open_endpoint<A: Answer>(
    answerer: A,
    scope: &str,
    supervisor: ActorCell,
) -> Result<Endpoint, SpawnErr> {
    let (endpoint, _) = Actor::spawn_linked(None, EndpointActor(PhantomData), answerer, supervisor).await?;
    ractor::pg::join_scoped(scope.to_owned(), A::GROUP.to_owned(), vec![endpoint.get_cell()]);
    Ok(endpoint)
}

struct EndpointActor<A>(PhantomData<A>);

impl<A: Answer> Actor for EndpointActor<A> {
    type Msg = EndpointMsg;
    type State = A;
    type Arguments = A;

    async fn pre_start(&self, _: ActorRef<EndpointMsg>, answerer: A) -> Result<A, ActorProcessingErr> {
        Ok(answerer)
    }

    async fn handle(
        &self,
        _: ActorRef<EndpointMsg>,
        EndpointMsg::Ask(envelope, port): EndpointMsg,
        answerer: &mut A,
    ) -> Result<(), ActorProcessingErr> {
        // Beside the actor, as an answer may wait for a commit and must not hold up the requests behind it.
        let answerer = answerer.clone();
        detached::spawn(async move { reply(port, answerer.answer(&envelope).await) });
        Ok(())
    }
}

/// Reason why an endpoint gave no usable answer.
#[derive(Debug, thiserror::Error)]
pub(super) enum AskError {
    /// The request cannot be sent, or one side cannot read the message of the other.
    #[error("the messages cannot be read: {0}")]
    Misunderstood(OpenError),
    /// The node is gone, frozen, or too slow. The request may have been carried out all the same.
    #[error("no answer")]
    NoAnswer,
}

/// Asks an endpoint. Every request may be repeated, and a lost answer looks like a lost request.
pub(super) async fn ask<R: Request>(
    endpoint: &Endpoint,
    request: &R,
    limit: Duration,
) -> Result<R::Reply, AskError> {
    let envelope = Envelope::seal(request).map_err(|fault| AskError::Misunderstood(fault.into()))?;
    match endpoint
        .call(|reply| EndpointMsg::Ask(envelope, reply), Some(limit))
        .await
    {
        Ok(CallResult::Success(answer)) => answer.open().map_err(AskError::Misunderstood),
        Ok(CallResult::Timeout | CallResult::SenderError) | Err(_) => Err(AskError::NoAnswer),
    }
}

/// Answers, with the fault if there is one.
fn reply(port: RpcReplyPort<Envelope>, answer: Result<Envelope, Fault>) {
    let answer = answer.unwrap_or_else(|fault| {
        tracing::warn!(%fault, "cannot read a message of another node");
        Envelope::fault(&fault)
    });
    // The caller may have timed out.
    let _ = port.send(answer);
}

/// Opens an envelope whose header says that it holds this request.
pub(super) fn request<R: Request>(envelope: &Envelope) -> Result<R, Fault> {
    envelope.open().map_err(|error| match error {
        OpenError::Unreadable(fault) => fault,
        OpenError::Refused(_) => unexpected(Kind::Fault),
    })
}

pub(super) fn unexpected(kind: Kind) -> Fault {
    Fault::UnexpectedKind { kind: kind.number() }
}

pub(super) fn seal<M: Message>(message: &M) -> Result<Envelope, Fault> {
    Envelope::seal(message)
}

/// Introduction of this node.
pub(super) fn introduction(node: &NodeName) -> Peer {
    Peer {
        protocol: PROTOCOL,
        build: env!("CARGO_PKG_VERSION").to_owned(),
        node: node.to_string(),
    }
}

/// A peer of another protocol version, with which no messages are exchanged.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("node {} (build {}) speaks protocol {}, this node protocol {PROTOCOL}", .0.node, .0.build, .0.protocol)]
pub(super) struct Incompatible(pub Peer);

/// The endpoint's introduction, if its node has the same protocol version as this one.
pub(super) fn compatible(info: EndpointInfo) -> Result<EndpointInfo, Incompatible> {
    if info.peer.protocol == PROTOCOL {
        Ok(info)
    } else {
        Err(Incompatible(info.peer))
    }
}
