//! Work that goes on by itself: tasks that nobody waits for, and messages that an actor gets later.
//!
//! What the runtime does with a task is compiled once for each type of future, and that is some 5,000 lines for LLVM: with a type
//! for each of these, it was a tenth of this crate. They start once a message or less often, so that a box for each costs nothing.

use std::time::Duration;

use futures::FutureExt;
use futures::future::BoxFuture;
use ractor::{ActorRef, Message};

/// Starts a task that goes on to its end, whoever drops what.
pub(crate) fn spawn(task: impl Future<Output = ()> + Send + 'static) {
    let task: BoxFuture<'static, ()> = task.boxed();
    tokio::spawn(task);
}

/// Sends a message to an actor after a delay, unless the actor has stopped by then.
pub(crate) fn send_later<M: Message>(actor: &ActorRef<M>, delay: Duration, message: M) {
    actor.send_after(delay, move || message);
}
