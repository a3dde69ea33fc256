//! Judgement of counts, and of what is left in the end.

use super::*;
use crate::{Counts, REASON};

impl Model<'_> {
    pub(super) async fn count(&self) {
        let began = Instant::now();
        let counts = self.queue.counts().await.unwrap();
        let ended = Instant::now();
        let mut least = Counts::default();
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
            let may_be_dead = self.may_be_dead(message) && !last.is_some_and(|hold| hold.is_safe(ended));
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
    pub(in super::super) async fn finish(&mut self) {
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
                        !has_reason && self.may_be_dead(message),
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
