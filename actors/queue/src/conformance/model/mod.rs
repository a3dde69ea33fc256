//! What SQS promises about one queue, as a model that follows its history from outside. It knows when each request began and ended,
//! and from that what must be so, what cannot be so, and what may be either.

mod deliveries;
mod ending;
mod receipts;

use tokio::time::Instant;

use super::chance::Deed;
use super::*;
use crate::limits::DEDUPLICATION_WINDOW;
use crate::{NewMessage, Receipt, ReceiptStatus};

/// Receives before a message is dead.
const MAX_RECEIVES: u32 = 3;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Fate {
    /// It must be delivered until it is deleted.
    Due,
    /// A server said that it deleted it for a receipt that was not good any more.
    Unsure,
    Deleted,
    /// It was put aside with a reason.
    Letter,
}

/// A message that was sent.
#[derive(Debug)]
struct Message {
    body: String,
    group: Option<String>,
    id: String,
    deduplication: Option<String>,
    /// Beginning and end of the request that sent it.
    sent: (Instant, Instant),
    /// Nobody may get it before.
    due: Instant,
    fate: Fate,
    receives: u32,
}

/// A delivery that was received.
#[derive(Debug)]
struct Hold {
    receipt: Receipt,
    message: usize,
    /// Nobody else may get the message before.
    safe_until: Instant,
    /// From then on somebody else may.
    over_at: Instant,
    /// The message was received again.
    replaced: bool,
    forgotten: bool,
}

impl Hold {
    fn is_safe(&self, at: Instant) -> bool {
        !self.replaced && self.safe_until > at
    }
}

pub(super) struct Model<'a> {
    site: &'a Site,
    kind: QueueKind,
    queue: Arc<dyn TaskQueue>,
    messages: Vec<Message>,
    holds: Vec<Hold>,
    /// What happened, for whoever reads why it failed.
    story: Vec<String>,
}

impl<'a> Model<'a> {
    pub(super) async fn new(site: &'a Site, number: usize, kind: QueueKind) -> Self {
        let spec = site.spec(&format!("history-{number}"), kind, MAX_RECEIVES);
        Self {
            site,
            kind,
            queue: site.server.create(&spec).await.unwrap(),
            messages: Vec::new(),
            holds: Vec::new(),
            story: Vec::new(),
        }
    }

    pub(super) fn told(&mut self, what: String) {
        self.story.push(what);
    }

    /// What happened so far.
    pub(super) fn story(&self) -> String {
        format!("{}:\n  {}", self.queue.name(), self.story.join("\n  "))
    }

    pub(super) async fn act(&mut self, deed: &Deed) {
        match deed {
            Deed::Send { groups, delay } => self.send(groups, *delay).await,
            Deed::SendAgain { which, group } => self.send_again(*which, *group).await,
            Deed::Receive {
                max,
                wait,
                visibility,
            } => {
                let request = Receive::one(SECOND * *visibility).up_to(*max);
                self.receive(request.waiting(SECOND * *wait)).await;
            }
            Deed::Delete { which } => self.delete(which).await,
            Deed::Extend { which, visibility } => self.extend(*which, SECOND * *visibility).await,
            Deed::Release { which } => self.extend(*which, Duration::ZERO).await,
            Deed::DeadLetter { which } => self.dead_letter(*which).await,
            Deed::Die { which } => {
                if let Some(hold) = self.pick(*which) {
                    self.holds[hold].forgotten = true;
                }
            }
            Deed::Count => self.count().await,
            Deed::Wait { millis } => pass(Duration::from_millis(*millis)).await,
        }
    }

    /// A delivery that is not forgotten, one of the last ones.
    fn pick(&self, which: usize) -> Option<usize> {
        let known = (0..self.holds.len())
            .rev()
            .filter(|hold| !self.holds[*hold].forgotten);
        let known: Vec<usize> = known.take(8).collect();
        (!known.is_empty()).then(|| known[which % known.len()])
    }

    async fn send(&mut self, groups: &[usize], delay: u32) {
        let first = self.messages.len();
        let delay = match self.kind {
            QueueKind::Standard => SECOND * delay,
            QueueKind::Fifo => Duration::ZERO,
        };
        let new = |(place, group): (usize, &usize)| {
            let number = first + place;
            let message = NewMessage::new(format!("m{number}")).delayed(delay);
            match self.kind {
                QueueKind::Standard => message,
                QueueKind::Fifo => message.in_group(format!("g{group}"), format!("d{number}")),
            }
        };
        let new: Vec<NewMessage> = groups.iter().enumerate().map(new).collect();
        let began = Instant::now();
        let sent = self.queue.send_all(&new).await;
        let ended = Instant::now();
        for (message, sent) in new.into_iter().zip(sent) {
            self.messages.push(Message {
                body: message.body,
                group: message.fifo.as_ref().map(|key| key.group.clone()),
                id: sent.unwrap().id,
                deduplication: message.fifo.map(|key| key.deduplication),
                sent: (began, ended),
                due: began + delay,
                fate: Fate::Due,
                receives: 0,
            });
        }
    }

    /// Sends another message under an id of an earlier one.
    async fn send_again(&mut self, which: usize, group: usize) {
        // The last one of the id counts.
        let Some(first) = self.messages.len().checked_sub(1 + which) else {
            return;
        };
        let Some(id) = self.messages[first].deduplication.clone() else {
            return;
        };
        let last = self
            .messages
            .iter()
            .rposition(|message| message.deduplication.as_ref() == Some(&id));
        let first = &self.messages[last.unwrap_or(first)];
        let (first_sent, first_id) = (first.sent, first.id.clone());
        let body = format!("m{} under {id}", self.messages.len());
        let group = format!("g{group}");
        let message = NewMessage::new(&body).in_group(&group, &id);
        let began = Instant::now();
        let sent = self.queue.send(message).await.unwrap();
        let ended = Instant::now();
        let is_new = sent.id != first_id;
        if ended < first_sent.0 + DEDUPLICATION_WINDOW {
            assert!(!is_new, "{body} was taken within the window");
        }
        if began > first_sent.1 + DEDUPLICATION_WINDOW {
            assert!(is_new, "{body} was dropped after the window");
        }
        if is_new {
            self.messages.push(Message {
                body,
                group: Some(group),
                id: sent.id,
                deduplication: Some(id),
                sent: (began, ended),
                due: began,
                fate: Fate::Due,
                receives: 0,
            });
        }
    }

    /// Whether the server may have moved a message to the dead-letter queue, if nobody holds it.
    fn may_be_dead(&self, message: &Message) -> bool {
        message.receives >= MAX_RECEIVES || self.site.loses_answers
    }
}
