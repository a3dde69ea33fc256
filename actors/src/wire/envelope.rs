use ractor::BytesConvertable;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

use super::message::{
    Assign, Cancel, CancelReply, Drain, DrainReply, GateInfo, Heartbeat, HeartbeatReply, Hello, NodeNotice,
    NoticeReply, Order, OrderReply, Report,
};
use super::{MAX_MESSAGE, codec};
use parkhang_core::domain::{AssignReply, ReportReply};

/// Version of the envelope itself: the two bytes of its header and the encoding of its body.
pub const VERSION: u8 = 1;
const HEADER: usize = 2;
/// Characters of a reason that are sent back.
const MAX_REASON: usize = 256;

/// Why an envelope cannot be read, or not be sent. As a message it is the answer to an envelope that could not be read.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, thiserror::Error)]
pub enum Fault {
    #[error("envelope version {version} is not known here")]
    UnknownVersion { version: u8 },
    #[error("message kind {kind} is not known here")]
    UnknownKind { kind: u8 },
    #[error("message kind {kind} has no place here")]
    UnexpectedKind { kind: u8 },
    #[error("message of kind {kind} cannot be read: {reason}")]
    Malformed { kind: u8, reason: String },
    #[error("message of {bytes} bytes is over the limit of {MAX_MESSAGE}")]
    TooLarge { bytes: u64 },
    #[error("message has no header")]
    NoHeader,
}

/// Why no message came out of an envelope.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum OpenError {
    /// What the peer sent cannot be read here.
    #[error(transparent)]
    Unreadable(#[from] Fault),
    /// What was sent to the peer could not be read there.
    #[error("refused by the peer: {0}")]
    Refused(Fault),
}

/// Plain data with a place in the table of kinds.
pub trait Message: Serialize + DeserializeOwned {
    const KIND: Kind;
}

/// A message that is answered.
pub trait Request: Message {
    type Reply: Message;
}

macro_rules! kinds {
    ($($kind:ident = $number:literal),+ $(,)?) => {
        /// What a message is. The numbers are for ever.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
        #[repr(u8)]
        pub enum Kind { $($kind = $number),+ }

        impl Kind {
            pub const ALL: &[Self] = &[$(Self::$kind),+];

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
    Hello = 1,
    GateInfo = 2,
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
    Order = 15,
    OrderReply = 16,
}

impl Request for Hello {
    type Reply = GateInfo;
}

impl Request for Assign {
    type Reply = AssignReply;
}

impl Request for Heartbeat {
    type Reply = HeartbeatReply;
}

impl Request for Report {
    type Reply = ReportReply;
}

impl Request for NodeNotice {
    type Reply = NoticeReply;
}

impl Request for Drain {
    type Reply = DrainReply;
}

impl Request for Cancel {
    type Reply = CancelReply;
}

impl Request for Order {
    type Reply = OrderReply;
}

/// One message as bytes. Making one from what the network brought cannot fail; opening it can.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Envelope(Vec<u8>);

impl Envelope {
    /// Encodes a message, unless it is over [`MAX_MESSAGE`].
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

    /// What the envelope says it holds.
    pub fn kind(&self) -> Result<Kind, Fault> {
        check_size(&self.0)?;
        match self.0[..] {
            [VERSION, kind, ..] => Kind::try_from(kind),
            [version, _, ..] => Err(Fault::UnknownVersion { version }),
            _ => Err(Fault::NoHeader),
        }
    }

    /// Decodes the message, which must be of the kind `M`. A fault in its place is the peer's refusal.
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
