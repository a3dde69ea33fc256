use ractor::BytesConvertable;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

use super::message::{
    Askers, AskersReply, Assign, AssignDocument, Cancel, CancelReply, Command, CommandReply, Drain,
    DrainReply, EndpointInfo, Handshake, Heartbeat, HeartbeatReply, NodeNotice, NoticeReply, Report, Spend,
};
use super::{MAX_MESSAGE, codec};
use parkhang_core::domain::{AssignReply, ReportReply, SpendReply};

/// Version of the envelope itself: the two bytes of its header and the encoding of its body.
pub const VERSION: u8 = 1;
/// Bytes of the header: version and kind.
const HEADER: usize = 2;
/// Limit on the characters of a reason that is sent back.
const MAX_REASON: usize = 256;

/// Reason why an envelope cannot be read, or not be sent. As a message it is the answer to an envelope that could not be read.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, thiserror::Error)]
pub enum Fault {
    /// The envelope is of another version.
    #[error("envelope version {version} is not known here")]
    UnknownVersion { version: u8 },
    /// The kind is one that this build does not have.
    #[error("message kind {kind} is not known here")]
    UnknownKind { kind: u8 },
    /// The kind is known, and not one that this endpoint takes.
    #[error("message kind {kind} is not accepted here")]
    UnexpectedKind { kind: u8 },
    /// The body does not hold a message of the kind.
    #[error("message of kind {kind} cannot be read: {reason}")]
    Malformed { kind: u8, reason: String },
    /// The message is over [`MAX_MESSAGE`].
    #[error("message of {bytes} bytes is over the limit of {MAX_MESSAGE}")]
    TooLarge { bytes: u64 },
    /// The envelope is shorter than a header.
    #[error("message has no header")]
    NoHeader,
}

/// Reason why an envelope holds no message for its receiver.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum OpenError {
    /// The peer's message cannot be read here.
    #[error(transparent)]
    Unreadable(#[from] Fault),
    /// The message to the peer could not be read there.
    #[error("refused by the peer: {0}")]
    Refused(Fault),
}

/// Plain data with a place in the table of kinds.
pub trait Message: Serialize + DeserializeOwned {
    /// Its kind.
    const KIND: Kind;
}

/// A message that is answered.
pub trait Request: Message {
    /// The answer.
    type Reply: Message;
}

macro_rules! kinds {
    ($($kind:ident = $number:literal),+ $(,)?) => {
        /// Kind of a message. The numbers never change, nor is one used again.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
        #[repr(u8)]
        pub enum Kind { $($kind = $number),+ }

        impl Kind {
            /// All kinds.
            pub const ALL: &[Self] = &[$(Self::$kind),+];

            /// Number of the kind in the header.
            pub const fn number(self) -> u8 {
                self as u8
            }
        }

        impl TryFrom<u8> for Kind {
            type Error = Fault;

            fn try_from(kind: u8) -> Result<Self, Fault> {
                match kind {
                    $($number => Ok(Self::$kind),)+
                    _ => Err(Fault::UnknownKind { kind }),
                }
            }
        }

        $(impl Message for $kind {
            const KIND: Kind = Kind::$kind;
        })+
    };
}

kinds! {
    Fault = 0,
    Handshake = 1,
    EndpointInfo = 2,
    Assign = 3,
    AssignReply = 4,
    Heartbeat = 5,
    HeartbeatReply = 6,
    Report = 7,
    ReportReply = 8,
    Drain = 9,
    DrainReply = 10,
    Cancel = 11,
    CancelReply = 12,
    NodeNotice = 13,
    NoticeReply = 14,
    Command = 15,
    CommandReply = 16,
    AssignDocument = 17,
    Spend = 18,
    SpendReply = 19,
    Askers = 20,
    AskersReply = 21,
}

impl Request for Handshake {
    type Reply = EndpointInfo;
}

impl Request for Assign {
    type Reply = AssignReply;
}

impl Request for AssignDocument {
    type Reply = AssignReply;
}

impl Request for Heartbeat {
    type Reply = HeartbeatReply;
}

impl Request for Report {
    type Reply = ReportReply;
}

impl Request for Spend {
    type Reply = SpendReply;
}

impl Request for NodeNotice {
    type Reply = NoticeReply;
}

impl Request for Askers {
    type Reply = AskersReply;
}

impl Request for Drain {
    type Reply = DrainReply;
}

impl Request for Cancel {
    type Reply = CancelReply;
}

impl Request for Command {
    type Reply = CommandReply;
}

/// One message as bytes. Making one from received bytes cannot fail, as the transport has nobody to report an error to; opening
/// it can.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Envelope(Vec<u8>);

impl Envelope {
    /// Encodes a message.
    ///
    /// # Errors
    ///
    /// [`Fault::TooLarge`] over [`MAX_MESSAGE`], and [`Fault::Malformed`] for a message that cannot be encoded.
    pub fn seal<M: Message>(message: &M) -> Result<Self, Fault> {
        let kind = M::KIND.number();
        let mut bytes = vec![VERSION, kind];
        codec::encode(message, &mut bytes).map_err(|reason| Fault::Malformed {
            kind,
            reason: clipped(reason),
        })?;
        check_size(&bytes)?;
        Ok(Self(bytes))
    }

    /// The answer to an envelope that could not be read.
    pub fn fault(fault: &Fault) -> Self {
        // A fault is smaller than any limit; if it were not, its bare header would still tell the peer of one.
        Self::seal(fault).unwrap_or_else(|_| Self(vec![VERSION, Kind::Fault.number()]))
    }

    /// Kind of the message, by the header.
    ///
    /// # Errors
    ///
    /// A [`Fault`] when the header cannot be read, or the envelope is too large.
    pub fn kind(&self) -> Result<Kind, Fault> {
        // Before anything of it is decoded.
        check_size(&self.0)?;
        match self.0[..] {
            [VERSION, kind, ..] => Kind::try_from(kind),
            [version, _, ..] => Err(Fault::UnknownVersion { version }),
            _ => Err(Fault::NoHeader),
        }
    }

    /// Decodes the message, which must be of the kind `M`.
    ///
    /// # Errors
    ///
    /// [`OpenError::Refused`] if the envelope holds a fault, with which the peer refused a message, and
    /// [`OpenError::Unreadable`] if it holds no message of the kind.
    pub fn open<M: Message>(&self) -> Result<M, OpenError> {
        let kind = self.kind()?;
        if kind == M::KIND {
            return Ok(self.body(kind)?);
        }
        if kind == Kind::Fault {
            return Err(OpenError::Refused(self.body(kind)?));
        }
        Err(Fault::UnexpectedKind { kind: kind.number() }.into())
    }

    fn body<M: DeserializeOwned>(&self, kind: Kind) -> Result<M, Fault> {
        // The kind was read from the header, so there is one.
        codec::decode(&self.0[HEADER..]).map_err(|reason| Fault::Malformed {
            kind: kind.number(),
            reason: clipped(reason),
        })
    }
}

impl BytesConvertable for Envelope {
    fn into_bytes(self) -> Vec<u8> {
        self.0
    }

    fn from_bytes(bytes: Vec<u8>) -> Self {
        Self(bytes)
    }
}

fn check_size(bytes: &[u8]) -> Result<(), Fault> {
    if bytes.len() <= MAX_MESSAGE {
        return Ok(());
    }
    Err(Fault::TooLarge {
        bytes: bytes.len() as u64,
    })
}

fn clipped(reason: String) -> String {
    reason.chars().take(MAX_REASON).collect()
}
