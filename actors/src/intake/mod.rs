//! Intake: the messages by which other programs ask for volumes or for pages of PDFs, taken into a standing job.
//!
//! BDRC's `bec queue enqueue` sends one message a volume to the queue of a job, and their workers work for as long as they hold it:
//! what a message stands for is then a matter of how old it is, how often it was received and whose clock is asked, and volumes get
//! lost or are read twice. Here a message is a request and nothing more. It is taken into the database, as a task of a job that
//! stands, and deleted once that is committed; leases, fences, retries and their counters are those of every other task, whatever
//! [source](crate::source) hands them out. A message that comes again is known by its id, so it may come as often as it likes.
//!
//! [`VolumeMessage`] reads a message by the rules of the program that sends it, [`PageMessage`] one that asks for pages of a PDF;
//! [`Intake`] carries out what [`policy::request`](parkhang_core::policy::request) says of it. What cannot be understood goes to the
//! dead-letter queue with the reason; what lies there because it was received too often is taken from there, since a receive is no try
//! of a volume. The room knows queues by [`parkhang_queue::TaskQueue`] and the database by [`parkhang_state::Inbox`], and neither
//! stages nor nodes.

mod message;
mod page_message;
mod request;
mod settling;
mod taking;
#[cfg(test)]
mod tests;

pub use message::{MalformedRequest, VolumeMessage};
pub use page_message::{ChunkSize, DocumentPlace, MalformedPages, PageMessage, parts};
pub use request::{NoRequest, ScanBucket};
pub use taking::{Intake, IntakeError};
