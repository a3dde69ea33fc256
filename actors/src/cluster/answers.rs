use std::collections::VecDeque;
use std::time::Duration;

use tokio::time::Instant;

/// How long the further parts of an answer may be asked for.
const KEPT: Duration = Duration::from_secs(30);
/// Answers that are kept at once: what they take is bounded, whoever asks.
const MOST: usize = 8;

/// Long answers, for those who fetch them part by part.
#[derive(Debug, Default)]
pub(super) struct Answers {
    last: u64,
    /// The oldest first.
    kept: VecDeque<Kept>,
}

#[derive(Debug)]
struct Kept {
    answer: u64,
    until: Instant,
    parts: Vec<String>,
}

impl Answers {
    /// Keeps an answer for a while; returns its number.
    pub(super) fn keep(&mut self, parts: Vec<String>, now: Instant) -> u64 {
        self.forget(now);
        self.last += 1;
        while self.kept.len() >= MOST {
            self.kept.pop_front();
        }
        self.kept.push_back(Kept {
            answer: self.last,
            until: now + KEPT,
            parts,
        });
        self.last
    }

    pub(super) fn part(&mut self, answer: u64, part: u32, now: Instant) -> Option<String> {
        self.forget(now);
        let kept = self.kept.iter().find(|kept| kept.answer == answer)?;
        kept.parts.get(usize::try_from(part).ok()?).cloned()
    }

    fn forget(&mut self, now: Instant) {
        self.kept.retain(|kept| kept.until > now);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parts(text: &str) -> Vec<String> {
        text.split(' ').map(str::to_owned).collect()
    }

    #[test]
    fn parts_may_be_fetched_for_a_while() {
        let (mut answers, now) = (Answers::default(), Instant::now());
        let first = answers.keep(parts("a b"), now);
        let second = answers.keep(parts("c"), now);
        assert_ne!(first, second);
        assert_eq!(answers.part(first, 1, now).as_deref(), Some("b"));
        assert_eq!(answers.part(first, 1, now).as_deref(), Some("b"), "asked again");
        assert_eq!(answers.part(first, 2, now), None);
        assert_eq!(answers.part(second, 0, now + KEPT / 2).as_deref(), Some("c"));
        assert_eq!(answers.part(second, 0, now + KEPT), None);
    }

    #[test]
    fn the_oldest_answer_makes_room() {
        let (mut answers, now) = (Answers::default(), Instant::now());
        let first = answers.keep(parts("a"), now);
        let others: Vec<u64> = (0..MOST).map(|_| answers.keep(parts("b"), now)).collect();
        assert_eq!(answers.part(first, 0, now), None);
        assert!(
            others
                .iter()
                .all(|answer| answers.part(*answer, 0, now).is_some())
        );
    }
}
