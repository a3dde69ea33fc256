//! Messages of a queue, ordered by what is asked of them: which comes next, whose time is over, and which is too old.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use tokio::time::Instant;

use crate::NewMessage;

/// Message in a queue.
#[derive(Debug, Clone)]
pub(super) struct Stored {
    pub(super) id: String,
    pub(super) message: NewMessage,
    pub(super) sent: Instant,
    pub(super) receives: u32,
    /// Name of the queue from which it was moved here.
    pub(super) moved_from: Option<String>,
    /// Time from which it counts against the retention.
    pub(super) kept_since: Instant,
    pub(super) visibility: Visibility,
    /// Number of its last delivery, if that is still worth anything.
    pub(super) receipt: Option<u64>,
}

impl Stored {
    fn group(&self) -> Option<&str> {
        self.message.fifo.as_ref().map(|key| key.group.as_str())
    }
}

/// Visibility of a message to receives.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Visibility {
    Visible,
    /// Received, and invisible until then; so are those of its group.
    Held(Instant),
    /// Sent to be visible from then on.
    Delayed(Instant),
}

/// Numbers of messages by the time at which they become visible.
type Timeline = BTreeSet<(Instant, u64)>;

/// Messages of a group that are there.
#[derive(Debug, Default)]
struct Group {
    visible: BTreeSet<u64>,
    held: usize,
}

impl Group {
    /// Number of the message that comes next, unless one is held.
    fn head(&self) -> Option<u64> {
        self.visible.first().copied().filter(|_| self.held == 0)
    }
}

/// Messages by the number of their send, which is the order of a FIFO queue.
#[derive(Debug)]
pub(super) struct Messages {
    by_number: BTreeMap<u64, Stored>,
    ages: Timeline,
    held: Timeline,
    delayed: Timeline,
    /// Groups of which messages are there.
    groups: HashMap<String, Group>,
    /// The next message of each group of which none is held, and every visible one without a group.
    heads: BTreeSet<u64>,
    /// Number of messages from the head of the queue on among which receives look, visible or not.
    scanned: usize,
    /// Number of the last one among these.
    last_scanned: u64,
}

impl Messages {
    /// No messages, of which receives are to see the first `scanned`.
    pub(super) fn new(scanned: usize) -> Self {
        Self {
            by_number: BTreeMap::new(),
            ages: Timeline::new(),
            held: Timeline::new(),
            delayed: Timeline::new(),
            groups: HashMap::new(),
            heads: BTreeSet::new(),
            scanned,
            last_scanned: 0,
        }
    }

    pub(super) fn len(&self) -> usize {
        self.by_number.len()
    }

    pub(super) fn held(&self) -> usize {
        self.held.len()
    }

    pub(super) fn delayed(&self) -> usize {
        self.delayed.len()
    }

    pub(super) fn get(&self, number: u64) -> Option<&Stored> {
        self.by_number.get(&number)
    }

    /// Adds a message, behind all others.
    pub(super) fn push(&mut self, number: u64, stored: Stored) {
        self.enter(number, &stored);
        self.ages.insert((stored.kept_since, number));
        self.by_number.insert(number, stored);
        if self.by_number.len() <= self.scanned {
            self.last_scanned = number;
        }
    }

    pub(super) fn remove(&mut self, number: u64) -> Option<Stored> {
        let stored = self.by_number.remove(&number)?;
        self.leave(number, &stored);
        self.ages.remove(&(stored.kept_since, number));
        if number <= self.last_scanned {
            // The next one moves up; without one, all that are left are seen.
            let next = self.by_number.range(self.last_scanned + 1..).next();
            let last = next.or_else(|| self.by_number.last_key_value());
            self.last_scanned = last.map_or(0, |(number, _)| *number);
        }
        Some(stored)
    }

    /// Changes a message by `change`.
    pub(super) fn update(&mut self, number: u64, change: impl FnOnce(&mut Stored)) {
        // Taken out and put back: the orders go by what is changed.
        let Some(mut stored) = self.by_number.remove(&number) else {
            return;
        };
        self.leave(number, &stored);
        change(&mut stored);
        self.enter(number, &stored);
        self.by_number.insert(number, stored);
    }

    /// Makes visible what is held or delayed until `now`.
    pub(super) fn surface(&mut self, now: Instant) {
        while let Some((_, number)) = due(&self.held, now).or_else(|| due(&self.delayed, now)) {
            self.update(number, |stored| stored.visibility = Visibility::Visible);
        }
    }

    /// The message that has been kept for longest, with the time since when.
    pub(super) fn oldest(&self) -> Option<(Instant, u64)> {
        self.ages.first().copied()
    }

    /// The next time at which a message becomes visible by itself.
    pub(super) fn next_visible(&self) -> Option<Instant> {
        let firsts = [&self.held, &self.delayed].map(|timeline| timeline.first());
        firsts.into_iter().flatten().map(|(at, _)| *at).min()
    }

    /// Numbers of the messages that one receive may have, in order: several of a group too, but none of a group of which one is held.
    pub(super) fn receivable(&self) -> impl Iterator<Item = u64> {
        let mut heads = self.heads.iter().copied().peekable();
        // Those that come next in the groups whose heads were given.
        let mut followers: BTreeSet<u64> = BTreeSet::new();
        std::iter::from_fn(move || {
            let follower = followers.first().copied();
            let number = match heads.peek().copied() {
                Some(head) if follower.is_none_or(|follower| head < follower) => heads.next(),
                _ => followers.pop_first(),
            }?;
            followers.extend(self.follower(number));
            Some(number)
        })
        .take_while(|number| *number <= self.last_scanned)
    }

    /// Number of the visible message behind this one in its group.
    fn follower(&self, number: u64) -> Option<u64> {
        let group = self.by_number.get(&number)?.group()?;
        let visible = &self.groups.get(group)?.visible;
        visible.range(number + 1..).next().copied()
    }

    /// Enters a message into the orders that go by its visibility.
    fn enter(&mut self, number: u64, stored: &Stored) {
        match stored.visibility {
            Visibility::Visible => {}
            Visibility::Held(until) => _ = self.held.insert((until, number)),
            Visibility::Delayed(until) => _ = self.delayed.insert((until, number)),
        }
        match stored.group() {
            Some(name) => self.change_group(name, |group| match stored.visibility {
                Visibility::Visible => _ = group.visible.insert(number),
                Visibility::Held(_) => group.held += 1,
                Visibility::Delayed(_) => {}
            }),
            None if stored.visibility == Visibility::Visible => _ = self.heads.insert(number),
            None => {}
        }
    }

    /// Takes a message out of the orders that go by its visibility.
    fn leave(&mut self, number: u64, stored: &Stored) {
        match stored.visibility {
            Visibility::Visible => {}
            Visibility::Held(until) => _ = self.held.remove(&(until, number)),
            Visibility::Delayed(until) => _ = self.delayed.remove(&(until, number)),
        }
        match stored.group() {
            Some(name) => self.change_group(name, |group| match stored.visibility {
                Visibility::Visible => _ = group.visible.remove(&number),
                Visibility::Held(_) => group.held -= 1,
                Visibility::Delayed(_) => {}
            }),
            None => _ = self.heads.remove(&number),
        }
    }

    fn change_group(&mut self, name: &str, change: impl FnOnce(&mut Group)) {
        let group = match self.groups.get_mut(name) {
            Some(group) => group,
            None => self.groups.entry(name.to_owned()).or_default(),
        };
        let before = group.head();
        change(group);
        let after = group.head();
        if group.visible.is_empty() && group.held == 0 {
            self.groups.remove(name);
        }
        if before != after {
            before.map(|head| self.heads.remove(&head));
            self.heads.extend(after);
        }
    }
}

/// The first entry of a timeline, if its time has come.
fn due(timeline: &Timeline, now: Instant) -> Option<(Instant, u64)> {
    timeline.first().copied().filter(|(at, _)| *at <= now)
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use proptest::prelude::*;

    use super::*;

    #[derive(Debug, Clone)]
    enum Deed {
        Push {
            group: Option<u8>,
            delay: u64,
        },
        /// Removes the message at this place.
        Remove(usize),
        /// Holds the message at this place for so many seconds; none makes it visible.
        Hold(usize, u64),
        Pass(u64),
    }

    fn deed() -> impl Strategy<Value = Deed> {
        prop_oneof![
            4 => (prop::option::of(0..3u8), 0..3u64).prop_map(|(group, delay)| Deed::Push { group, delay }),
            2 => (0..12usize).prop_map(Deed::Remove),
            4 => (0..12usize, 0..4u64).prop_map(|(place, time)| Deed::Hold(place, time)),
            1 => (1..4u64).prop_map(Deed::Pass),
        ]
    }

    fn stored(group: Option<u8>, sent: Instant, visibility: Visibility) -> Stored {
        let message = NewMessage::new("x");
        let message = match group {
            Some(group) => message.in_group(group.to_string(), "d"),
            None => message,
        };
        Stored {
            id: String::new(),
            message,
            sent,
            receives: 0,
            moved_from: None,
            kept_since: sent,
            visibility,
            receipt: None,
        }
    }

    /// The same by looking at one message after the other.
    fn looked_through(messages: &Messages) -> Vec<u64> {
        let is_held = |stored: &Stored| matches!(stored.visibility, Visibility::Held(_));
        let all = || messages.by_number.values();
        let is_free = |group| !all().any(|other| other.group() == Some(group) && is_held(other));
        let seen = messages.by_number.iter().take(messages.scanned);
        seen.filter(|(_, stored)| {
            stored.visibility == Visibility::Visible && stored.group().is_none_or(is_free)
        })
        .map(|(number, _)| *number)
        .collect()
    }

    proptest! {
        #[test]
        fn the_orders_give_what_a_look_at_every_message_gives(
            deeds in prop::collection::vec(deed(), 0..80),
            scanned in 1..9usize,
        ) {
            let mut now = Instant::now();
            let mut messages = Messages::new(scanned);
            let mut number = 0;
            for deed in deeds {
                let at = |place: usize| messages.by_number.keys().nth(place).copied();
                match deed {
                    Deed::Push { group, delay } => {
                        number += 1;
                        let visibility = match delay {
                            0 => Visibility::Visible,
                            delay => Visibility::Delayed(now + Duration::from_secs(delay)),
                        };
                        messages.push(number, stored(group, now, visibility));
                    }
                    Deed::Remove(place) => {
                        if let Some(number) = at(place) {
                            messages.remove(number);
                        }
                    }
                    Deed::Hold(place, time) => {
                        let visibility = match time {
                            0 => Visibility::Visible,
                            time => Visibility::Held(now + Duration::from_secs(time)),
                        };
                        if let Some(number) = at(place) {
                            messages.update(number, |stored| stored.visibility = visibility);
                        }
                    }
                    Deed::Pass(time) => now += Duration::from_secs(time),
                }
                messages.surface(now);
                prop_assert_eq!(messages.receivable().collect::<Vec<_>>(), looked_through(&messages));
                let count = |is_meant: fn(Visibility) -> bool| {
                    messages.by_number.values().filter(|stored| is_meant(stored.visibility)).count()
                };
                prop_assert_eq!(messages.held(), count(|it| matches!(it, Visibility::Held(_))));
                prop_assert_eq!(messages.delayed(), count(|it| matches!(it, Visibility::Delayed(_))));
                let hidden = messages.by_number.values().filter_map(|stored| match stored.visibility {
                    Visibility::Visible => None,
                    Visibility::Held(until) | Visibility::Delayed(until) => Some(until),
                });
                prop_assert_eq!(messages.next_visible(), hidden.min());
                let oldest = messages.by_number.iter().map(|(number, stored)| (stored.kept_since, *number)).min();
                prop_assert_eq!(messages.oldest(), oldest);
                prop_assert_eq!(messages.groups.values().filter(|it| it.visible.is_empty() && it.held == 0).count(), 0);
            }
        }
    }
}
