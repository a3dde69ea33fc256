//! Messages that cross a node boundary. Each travels in one [`Envelope`]: a version byte, a kind, and a body, together at most
//! 64 KiB; a message that cannot be read is answered with a [`Fault`]. Bulk data never travels here: it is in the artifact store,
//! and messages name it.
//!
//! A kind, once released, never changes: no field is added, and its variants keep their order. A message that must say more
//! becomes a new kind, which an older peer refuses by its number. That keeps the encoding free of negotiation, and nodes of two
//! releases either understand each other exactly or know that they do not. The parts that do grow with every release are JSON
//! documents inside the messages.
//!
//! The room knows neither actors nor sockets, only the passive types of `domain` that it encodes, and of `ractor` the trait by
//! which a message is turned into bytes.

mod codec;
mod command;
mod envelope;
mod message;
mod notice;
mod translate;

pub use envelope::{Envelope, Fault, Kind, Message, OpenError, Request, VERSION};
pub use message::{
    Askers, AskersReply, Assign, AssignDocument, Cancel, CancelReply, Command, CommandReply, Drain,
    DrainReply, EndpointInfo, EndpointRole, Handshake, Heartbeat, HeartbeatReply, NodeNotice, NodePhase,
    NoticeReply, Peer, Report, ReportedOutcome, Spend,
};
pub use notice::{NodeAbout, Notice, PoolAbout};
pub use translate::Unusable;

/// Limit on the bytes of one message, header included. A larger one is a bug of its sender and is refused on both sides.
pub const MAX_MESSAGE: usize = 64 * 1024;

/// Version of the protocol, which covers the kinds and their meaning. Nodes of different versions do not work together.
pub const PROTOCOL: u16 = 1;

#[cfg(test)]
mod tests;
