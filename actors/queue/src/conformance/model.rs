//! What SQS promises about one queue, as a model that follows its history from outside. It knows when each request began and ended,
//! and from that what must be so, what cannot be so, and what may be either.

use tokio::time::Instant;

use super::chance::Deed;
use super::*;
use crate::limits::DEDUPLICATION_WINDOW;
use crate::{Extended, Extension, NewMessage, REASON, Receipt, ReceiptStatus};

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

    async fn receive(&mut self, request: Receive) -> usize {
        let began = Instant::now();
        let deliveries = self.queue.receive(request).await.unwrap();
        let ended = Instant::now();
        assert!(deliveries.len() <= request.max);
        let count = deliveries.len();
        self.told(format!("    received {:?}", bodies(&deliveries)));
        let mut batch: Vec<usize> = Vec::new();
        for delivery in deliveries {
            let found = self
                .messages
                .iter()
                .position(|message| message.body == delivery.body);
            let place = found.unwrap_or_else(|| panic!("{} was never sent", delivery.body));
            self.judge(place, &delivery, &batch, ended);
            batch.push(place);
            let message = &mut self.messages[place];
            message.receives += 1;
            // Whoever said that it was deleted was wrong, which a standard queue may be for a receipt that was not good.
            message.fate = Fate::Due;
            for hold in self.holds.iter_mut().filter(|hold| hold.message == place) {
                hold.replaced = true;
            }
            self.holds.push(Hold {
                receipt: delivery.receipt,
                message: place,
                safe_until: began + request.visibility,
                over_at: ended + request.visibility,
                replaced: false,
                forgotten: false,
            });
        }
        count
    }

    /// Judges a delivery of the message at `place` that arrived before `ended`, behind those of `batch` in one answer.
    fn judge(&self, place: usize, delivery: &Delivery, batch: &[usize], ended: Instant) {
        let message = &self.messages[place];
        let body = &message.body;
        assert_eq!(delivery.id, message.id, "{body}");
        assert_eq!(delivery.receives, message.receives + 1, "{body}");
        assert!(delivery.receives <= MAX_RECEIVES, "{body} is dead");
        assert!(
            matches!(message.fate, Fate::Due | Fate::Unsure),
            "{body} is {:?}",
            message.fate
        );
        assert!(message.due <= ended, "{body} came before its time");
        assert!(!batch.contains(&place), "{body} came twice in one answer");
        let held = |place: usize| {
            let mut holds = self.holds.iter();
            holds.any(|hold| hold.message == place && hold.is_safe(ended))
        };
        assert!(!held(place), "{body} is held by another");
        let Some(group) = &message.group else {
            return;
        };
        let key = delivery.fifo.as_ref();
        assert_eq!(key.map(|key| &key.group), Some(group), "{body}");
        for (other, earlier) in self.messages.iter().enumerate() {
            if other == place || earlier.group.as_ref() != Some(group) || batch.contains(&other) {
                continue;
            }
            // A group of which something is held gives nothing, neither before it nor behind it.
            let is_there = matches!(earlier.fate, Fate::Due);
            assert!(
                !(is_there && held(other)),
                "{body} came while {} is held",
                earlier.body
            );
            let may_be_dead = earlier.receives >= MAX_RECEIVES;
            assert!(
                other > place || !is_there || may_be_dead,
                "{body} came before {}",
                earlier.body
            );
        }
        let later = batch
            .iter()
            .any(|other| *other > place && self.messages[*other].group.as_ref() == Some(group));
        assert!(!later, "{body} came behind a later one in one answer");
    }

    /// Whether a receipt must be good in all of a request, or cannot be good in any of it; `None` if it may be either.
    fn is_good(&self, hold: &Hold, began: Instant, ended: Instant) -> Option<bool> {
        if hold.is_safe(ended) {
            return Some(true);
        }
        let deviation = self.site.deviates(Deviation::HonoursExpiredReceipts);
        let is_over = hold.replaced || (hold.over_at <= began && !deviation);
        is_over.then_some(false)
    }

    async fn delete(&mut self, which: &[usize]) {
        let mut picked: Vec<usize> = which.iter().filter_map(|which| self.pick(*which)).collect();
        picked.sort_unstable();
        picked.dedup();
        picked.retain(|hold| self.is_present(*hold));
        // Two deliveries of one message at once say nothing about one another.
        picked.dedup_by_key(|hold| self.holds[*hold].message);
        let receipts: Vec<Receipt> = picked
            .iter()
            .map(|hold| self.holds[*hold].receipt.clone())
            .collect();
        let began = Instant::now();
        let deleted = self.queue.delete_all(&receipts).await;
        let ended = Instant::now();
        for (hold, deleted) in picked.into_iter().zip(deleted) {
            let hold = &self.holds[hold];
            let deleted = deleted.unwrap();
            let message = &mut self.messages[hold.message];
            let body = message.body.clone();
            self.story.push(format!("    deletion of {body}: {deleted:?}"));
            let was = message.fate;
            match (self.is_good(hold, began, ended), deleted) {
                (Some(true), ReceiptStatus::Stale) => panic!("the receipt of {body} is good"),
                (Some(true), ReceiptStatus::Honoured) => self.messages[hold.message].fate = Fate::Deleted,
                (Some(false), ReceiptStatus::Honoured) if self.kind == QueueKind::Fifo => {
                    panic!("the receipt of {body} is stale")
                }
                (_, ReceiptStatus::Honoured) => {
                    let surely = self.kind == QueueKind::Fifo;
                    let fate = if surely { Fate::Deleted } else { Fate::Unsure };
                    self.messages[hold.message].fate = fate;
                }
                (_, ReceiptStatus::Stale) => self.messages[hold.message].fate = was,
            }
        }
    }

    /// Whether the message of a delivery is still there, as far as is known: nothing is promised about receipts of others.
    fn is_present(&self, hold: usize) -> bool {
        self.messages[self.holds[hold].message].fate == Fate::Due
    }

    async fn extend(&mut self, which: usize, visibility: Duration) {
        let Some(picked) = self.pick(which).filter(|hold| self.is_present(*hold)) else {
            return;
        };
        let extension = Extension {
            receipt: self.holds[picked].receipt.clone(),
            visibility,
        };
        let began = Instant::now();
        let extended = self.queue.extend_all(&[extension]).await;
        let ended = Instant::now();
        let extended = extended.into_iter().next().unwrap().unwrap();
        let message = self.holds[picked].message;
        let body = self.messages[message].body.clone();
        self.told(format!("    extension of {body}: {extended:?}"));
        let was_good = self.is_good(&self.holds[picked], began, ended);
        match extended {
            Extended::AtCap => panic!("{body} is far from the cap"),
            Extended::Stale => assert_ne!(was_good, Some(true), "the receipt of {body} is good"),
            Extended::For(granted) => {
                assert_eq!(granted, visibility, "{body}");
                let replaced = self.holds[picked].replaced;
                let lenient = self.site.deviates(Deviation::HonoursReplacedReceipts);
                assert!(
                    was_good != Some(false) || (replaced && lenient),
                    "the receipt of {body} is stale"
                );
                // Through a replaced receipt the server has set the visibility of the delivery that replaced it.
                for hold in self.holds.iter_mut().filter(|hold| hold.message == message) {
                    hold.safe_until = began + visibility;
                    hold.over_at = ended + visibility;
                }
            }
        }
    }

    async fn dead_letter(&mut self, which: usize) {
        let Some(picked) = self.pick(which).filter(|hold| self.is_present(*hold)) else {
            return;
        };
        let hold = &self.holds[picked];
        // Long enough for three requests: otherwise nothing is certain about it.
        if !hold.is_safe(Instant::now() + 2 * SECOND) {
            return;
        }
        let message = hold.message;
        let delivery = Delivery {
            id: self.messages[message].id.clone(),
            receipt: hold.receipt.clone(),
            body: self.messages[message].body.clone(),
            attributes: std::collections::BTreeMap::new(),
            fifo: self.messages[message].group.clone().map(|group| crate::FifoKey {
                group,
                deduplication: String::new(),
            }),
            sequence: None,
            receives: self.messages[message].receives,
            sent: None,
            moved_from: None,
        };
        let status = self.queue.dead_letter(&delivery, "by chance").await.unwrap();
        assert_eq!(status, ReceiptStatus::Honoured);
        self.messages[message].fate = Fate::Letter;
    }

    async fn count(&self) {
        let began = Instant::now();
        let counts = self.queue.counts().await.unwrap();
        let ended = Instant::now();
        let mut least = crate::Counts::default();
        let mut unsure = 0;
        for (place, message) in self.messages.iter().enumerate() {
            let mut holds = self
                .holds
                .iter()
                .filter(|hold| hold.message == place && !hold.replaced);
            let last = holds.next();
            let is_gone = matches!(message.fate, Fate::Deleted | Fate::Letter);
            if is_gone {
                continue;
            }
            let may_be_dead =
                message.receives >= MAX_RECEIVES && !last.is_some_and(|hold| hold.is_safe(ended));
            let visible_from = message.sent.1 + message.due.duration_since(message.sent.0);
            if message.fate == Fate::Unsure || may_be_dead {
                unsure += 1;
            } else if last.is_some_and(|hold| hold.is_safe(ended)) {
                least.in_flight += 1;
            } else if message.receives == 0 && message.due > ended {
                least.delayed += 1;
            } else if visible_from <= began && last.is_none_or(|hold| hold.over_at <= began) {
                least.visible += 1;
            } else {
                unsure += 1;
            }
        }
        let within = |count: u64, least: u64| (least..=least + unsure).contains(&count);
        assert!(
            within(counts.visible, least.visible)
                && within(counts.in_flight, least.in_flight)
                && within(counts.delayed, least.delayed),
            "{counts:?} are not {least:?} with {unsure} unsure"
        );
    }

    /// Whatever happened, everything that is due is delivered now, or in the dead-letter queue.
    pub(super) async fn finish(&mut self) {
        let ends = self.holds.iter().map(|hold| hold.over_at);
        let last = ends
            .chain(self.messages.iter().map(|message| message.due + SECOND))
            .max();
        let last = last.unwrap_or_else(Instant::now) + self.site.slack;
        tokio::time::sleep_until(last).await;
        self.told("the end".to_owned());
        let mut idle = 0;
        while idle < 2 {
            let from = self.holds.len();
            let found = self.receive(Receive::one(HOLD).up_to(10).waiting(SECOND)).await;
            idle = if found == 0 { idle + 1 } else { 0 };
            let receipts = self.holds[from..].iter().map(|hold| hold.receipt.clone());
            let deleted = self.queue.delete_all(&receipts.collect::<Vec<_>>()).await;
            for (hold, deleted) in (from..).zip(deleted) {
                assert_eq!(deleted.unwrap(), ReceiptStatus::Honoured);
                let message = self.holds[hold].message;
                self.messages[message].fate = Fate::Deleted;
            }
        }
        let mut dead = self.dead().await;
        for message in &self.messages {
            let body = &message.body;
            let found = dead.iter().position(|(dead, _)| dead == body);
            let found = found.map(|place| dead.swap_remove(place));
            match (message.fate, found) {
                (Fate::Deleted, None) => {}
                (Fate::Unsure, found) => assert!(!found.is_some_and(|(_, has_reason)| has_reason), "{body}"),
                (Fate::Letter, Some((_, has_reason))) => assert!(has_reason, "{body}"),
                (Fate::Due, Some((_, has_reason))) => {
                    assert!(
                        !has_reason && message.receives == MAX_RECEIVES,
                        "{body} is dead too early"
                    );
                }
                (fate, found) => panic!("{body} is {fate:?}, and as a dead letter it is {found:?}"),
            }
        }
        assert!(dead.is_empty(), "nobody sent {dead:?}");
    }

    /// Bodies in the dead-letter queue, and whether they have a reason.
    async fn dead(&self) -> Vec<(String, bool)> {
        let letters = self.queue.dead_letters().await.unwrap();
        let mut dead = Vec::new();
        loop {
            let found = letters.receive(Receive::one(HOLD).up_to(10)).await.unwrap();
            if found.is_empty() {
                return dead;
            }
            let receipts: Vec<Receipt> = found.iter().map(|delivery| delivery.receipt.clone()).collect();
            for deleted in letters.delete_all(&receipts).await {
                assert_eq!(deleted.unwrap(), ReceiptStatus::Honoured);
            }
            let facts = |delivery: Delivery| (delivery.body, delivery.attributes.contains_key(REASON));
            dead.extend(found.into_iter().map(facts));
        }
    }
}
