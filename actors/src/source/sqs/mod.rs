//! Source of work from queues: messages say which task may have work, the database says who may do it.
//!
//! A message is a hint and never a right. [`Publisher`] sends one for each task that may begin a stage, by the outbox of the state
//! store; [`QueueClaims`] receives as many as it has free slots and leases their tasks by the same fenced change that every other source makes;
//! [`DeadLetters`] finds what was received too often and sets its task aside. So what a queue may do, deliver twice, late, in another
//! order, or lose what it holds, costs a receive or some time, and nothing is done twice or forgotten: a message whose task has moved
//! on is deleted, one whose lease another worker holds waits for the end of that lease, and what a queue has lost is published again.
//!
//! The visibility of a message is the lease in the eyes of the queue. It is extended as long as the lease is renewed, and given up at
//! once when the lease is released, so that work goes on elsewhere without anybody who publishes.
//!
//! [`QueueWatch`] counts what is in the queues for those who operate them. Nothing is decided by its numbers but alarms: they are
//! approximate, and the database knows what waits.
//!
//! The room knows queues by [`parkhang_queue::TaskQueue`] and names nothing of AWS.

mod claims;
mod decision;
mod ends;
mod held;
mod letters;
mod message;
mod publisher;
mod receives;
mod stage_queues;
#[cfg(test)]
mod tests;
mod watch;

pub use claims::{QueueClaims, QueueOptions};
pub use letters::DeadLetters;
pub use message::{MalformedMessage, TaskMessage};
pub use publisher::{PublishError, Publisher};
pub use stage_queues::StageQueues;
pub use watch::{QueueWatch, WatchLimits, count_dead_letters};
