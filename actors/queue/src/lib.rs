//! Queues of work: messages that are handed out, held for a time, and come back unless they are deleted.
//!
//! The crate knows texts and receipts, not tasks: what a message means, and whether its holder still has the right to it, is for
//! `source` and the database to say. [`TaskQueue`] is one queue and [`QueueServer`] the place where queues are made and found; both
//! are object safe. [`SqsServer`] is SQS and what speaks its protocol, [`MemoryServer`] its twin for tests. The suite in `conformance`
//! holds both to what SQS promises, and to no more than that: a message is delivered at least once; in a FIFO queue those of a group
//! come in order, and none while another one of the group is held; and what is received is invisible to others for as long as asked.
//!
//! What that means for whoever works on messages:
//!
//! * A receipt is a lease without a fence. It is lost when its time is over, and a server may take a lost one without a word
//!   ([`ReceiptStatus`]), so the right to record a result is a matter of the database.
//! * A standard queue may deliver twice, in any order, and now and then after a deletion. A FIFO queue drops what is sent again under
//!   the same deduplication id, but for five minutes only ([`limits::DEDUPLICATION_WINDOW`]).
//! * Counts are approximate, and zero never means that work is finished.

mod checks;
#[cfg(any(test, feature = "testing"))]
pub mod conformance;
mod error;
#[cfg(test)]
mod implementations;
pub mod limits;
mod memory;
mod message;
#[cfg(any(test, feature = "testing"))]
pub mod refusing;
mod settings;
pub mod sqs;
mod task_queue;

pub use error::QueueError;
pub use limits::LimitError;
pub use memory::MemoryServer;
pub use message::{Attribute, Delivery, Extension, FifoKey, NewMessage, Receipt, Receive, Sent};
pub use settings::{Counts, DeadLetters, Difference, QueueFacts, QueueKind, QueueSpec};
pub use sqs::{SqsOptions, SqsServer};
pub use task_queue::{Extended, QueueServer, REASON, ReceiptStatus, Redrive, SOURCE, TaskQueue, reconcile};
