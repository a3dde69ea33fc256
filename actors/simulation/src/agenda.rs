use std::cmp::{Ordering, Reverse};
use std::collections::BinaryHeap;

/// Milliseconds since the simulation began.
pub(super) type Millis = i64;

/// Queue of events by time; those of one moment come in the order in which they were entered, so that a seed gives one run.
#[derive(Debug)]
pub(super) struct Agenda<E> {
    entries: BinaryHeap<Reverse<Entry<E>>>,
    entered: u64,
}

#[derive(Debug)]
struct Entry<E> {
    at: Millis,
    number: u64,
    event: E,
}

impl<E> Agenda<E> {
    pub(super) fn new() -> Self {
        Self {
            entries: BinaryHeap::new(),
            entered: 0,
        }
    }

    pub(super) fn enter(&mut self, at: Millis, event: E) {
        self.entered += 1;
        self.entries.push(Reverse(Entry {
            at,
            number: self.entered,
            event,
        }));
    }

    pub(super) fn next(&mut self) -> Option<(Millis, E)> {
        self.entries.pop().map(|Reverse(entry)| (entry.at, entry.event))
    }
}

impl<E> Ord for Entry<E> {
    fn cmp(&self, other: &Self) -> Ordering {
        (self.at, self.number).cmp(&(other.at, other.number))
    }
}

impl<E> PartialOrd for Entry<E> {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl<E> PartialEq for Entry<E> {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other) == Ordering::Equal
    }
}

impl<E> Eq for Entry<E> {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn events_come_in_order_of_time_and_then_of_entry() {
        let mut agenda = Agenda::new();
        for (at, event) in [(5, 'd'), (1, 'a'), (3, 'b'), (3, 'c')] {
            agenda.enter(at, event);
        }
        let order: Vec<(Millis, char)> = std::iter::from_fn(|| agenda.next()).collect();
        assert_eq!(order, [(1, 'a'), (3, 'b'), (3, 'c'), (5, 'd')]);
    }
}
