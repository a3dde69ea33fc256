//! Judgement of what is done with receipts.

use std::collections::BTreeMap;

use super::*;
use crate::{Extended, Extension, FifoKey};

impl Model<'_> {
    /// Whether a receipt must be good in all of a request, or cannot be good in any of it; `None` if it may be either.
    fn is_good(&self, hold: &Hold, began: Instant, ended: Instant) -> Option<bool> {
        if hold.is_safe(ended) {
            return Some(true);
        }
        let deviation = self.site.deviates(Deviation::HonoursExpiredReceipts);
        let is_over = hold.replaced || (hold.over_at <= began && !deviation);
        is_over.then_some(false)
    }

    pub(super) async fn delete(&mut self, which: &[usize]) {
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

    pub(super) async fn extend(&mut self, which: usize, visibility: Duration) {
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
            Extended::Stale if self.site.loses_answers && visibility.is_zero() => {
                // It was given back by a request whose answer was lost.
                self.holds[picked].safe_until = began;
                self.holds[picked].over_at = ended;
            }
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

    pub(super) async fn dead_letter(&mut self, which: usize) {
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
            attributes: BTreeMap::new(),
            fifo: self.messages[message].group.clone().map(|group| FifoKey {
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
}
