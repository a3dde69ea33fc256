//! Judgement of what is received.

use super::*;

impl Model<'_> {
    pub(super) async fn receive(&mut self, request: Receive) -> usize {
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
            message.receives = delivery.receives;
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
        let next = message.receives + 1;
        let counts_lost = self.site.loses_answers && delivery.receives > next;
        assert!(
            delivery.receives == next || counts_lost,
            "{body}: {} for {next}",
            delivery.receives
        );
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
            let may_be_dead = self.may_be_dead(earlier);
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
}
