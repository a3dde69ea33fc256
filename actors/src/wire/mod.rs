//! Everything that crosses a node boundary. Each message travels in one [`Envelope`]: a version byte, a kind, and a body
//! of at most 64 KiB; whatever cannot be read is answered with a [`Fault`]. Bulk never travels here: it is in the
//! artifact store, and messages name it.
//!
//! A kind, once released, never changes: no field is added, and its variants keep their order. A message that must say
//! more becomes a new kind, which an older peer refuses by name. This room knows neither actors nor sockets.

mod codec;
mod envelope;
mod message;
mod notice;
mod order;
mod translate;

pub use envelope::{Envelope, Fault, Kind, Message, OpenError, Request, VERSION};
pub use message::{
    Assign, Cancel, CancelReply, Drain, DrainReply, GateInfo, GateRole, Heartbeat, HeartbeatReply, Hello,
    NodeNotice, NodePhase, NoticeReply, Order, OrderReply, Peer, Report, ReportedOutcome,
};
pub use notice::{NodeAbout, Notice, PoolAbout};
pub use translate::Unusable;

/// Bytes of one message, header included. A larger one is a bug of its sender and is refused on both sides.
pub const MAX_MESSAGE: usize = 64 * 1024;

/// Number of the protocol: which kinds there are and what they mean. Nodes of different numbers do not work together.
pub const PROTOCOL: u16 = 1;

#[cfg(test)]
mod tests;
