//! Parts of a line that are read again.

use std::ops::Range;

/// Frames on either side of a frame in doubt that are read again with it: a letter is as wide.
const LETTER: usize = 2;
/// Frames on either side of what is read again that the network sees as well. It looks as far as 23 frames, but those beyond a third of
/// that hardly change a reading: with 8, 12 and 24, held-out pages are read alike, and a quarter less is read with 8 than with 24.
const CONTEXT: usize = 8;

/// Part of a line that is read again, in frames of the line.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Span {
    /// Frames that the network sees.
    pub(super) seen: Range<usize>,
    /// Frames whose scores are mixed, within `seen`.
    mixed: Range<usize>,
    /// Frames from `LEAST` context on either side on: the mixed ones may be extended as far.
    sound: Range<usize>,
}

impl Span {
    /// Frames whose scores are mixed: those of the span, extended to the nearest frames at which `is_parted` says that both readings
    /// have no letter, so that none is cut in two, each half by another network. Where there is no such frame the span ends as it is.
    pub(super) fn parted(&self, is_parted: impl Fn(usize) -> bool) -> Range<usize> {
        let from = (self.sound.start..=self.mixed.start)
            .rev()
            .find(|&frame| is_parted(frame));
        let to = (self.mixed.end..self.sound.end).find(|&frame| is_parted(frame));
        // The ends of a line part it from nothing.
        let from = if self.mixed.start == self.seen.start {
            None
        } else {
            from
        };
        let to = if self.mixed.end == self.seen.end { None } else { to };
        from.unwrap_or(self.mixed.start)..to.unwrap_or(self.mixed.end)
    }
}

/// Parts of a line of so many frames in which these, in order, are in doubt. They are apart from each other: where the context of one
/// would reach that of the next they are one, as it costs no more to read what lies between.
pub(super) fn spans(in_doubt: &[usize], frames: usize) -> Vec<Span> {
    let mut mixed: Vec<Range<usize>> = Vec::new();
    for &frame in in_doubt {
        let (from, to) = (frame.saturating_sub(LETTER), (frame + LETTER + 1).min(frames));
        match mixed.last_mut() {
            Some(last) if from <= last.end + 2 * CONTEXT => last.end = to,
            _ => mixed.push(from..to),
        }
    }
    mixed
        .into_iter()
        .map(|mixed| with_context(mixed, frames))
        .collect()
}

/// The span around these frames of a line of `frames`.
fn with_context(mixed: Range<usize>, frames: usize) -> Span {
    let seen = mixed.start.saturating_sub(CONTEXT)..(mixed.end + CONTEXT).min(frames);
    // At an end of the line the network misses nothing, and its scores are as sound there as anywhere.
    let (at_start, at_end) = (seen.start == 0, seen.end == frames);
    let mixed = if at_start { 0 } else { mixed.start }..if at_end { frames } else { mixed.end };
    let sound =
        mixed.start.min(seen.start + CONTEXT / 2)..mixed.end.max(seen.end.saturating_sub(CONTEXT / 2));
    Span { seen, mixed, sound }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn doubts_far_from_each_other_are_spans_of_their_own() {
        let spans = spans(&[40, 42, 80], 200);
        let seen: Vec<_> = spans.iter().map(|span| span.seen.clone()).collect();
        assert_eq!(seen, [30..53, 70..91]);
        let mixed: Vec<_> = spans.iter().map(|span| span.mixed.clone()).collect();
        assert_eq!(mixed, [38..45, 78..83]);
    }

    #[test]
    fn doubts_that_share_their_context_are_one_span() {
        let spans = spans(&[40, 60], 200);
        assert_eq!(spans.len(), 1);
        assert_eq!((&spans[0].seen, &spans[0].mixed), (&(30..71), &(38..63)));
    }

    #[test]
    fn a_span_is_extended_to_where_no_letter_is() {
        let span = spans(&[40], 200).remove(0);
        assert_eq!(span.mixed, 38..43);
        assert_eq!(span.parted(|frame| frame == 36 || frame == 45), 36..45);
        assert_eq!(span.parted(|frame| frame == 38 || frame == 43), 38..43);
        // Too near to the ends of what is seen.
        assert_eq!(span.parted(|frame| frame <= 33 || frame >= 47), 38..43);
    }

    #[test]
    fn at_the_ends_of_a_line_all_is_mixed() {
        let spans = spans(&[5, 90], 100);
        assert_eq!((&spans[0].seen, &spans[0].mixed), (&(0..16), &(0..8)));
        assert_eq!((&spans[1].seen, &spans[1].mixed), (&(80..100), &(88..100)));
        assert_eq!(spans[0].parted(|frame| frame == 3 || frame == 10), 0..10);
    }

    proptest! {
        #[test]
        fn all_that_is_in_doubt_is_mixed(
            frames in 1_usize..300,
            doubts in prop::collection::btree_set(0_usize..300, 0..40),
            blanks in prop::collection::btree_set(0_usize..300, 0..300),
        ) {
            let doubts: Vec<usize> = doubts.into_iter().filter(|&frame| frame < frames).collect();
            let spans = spans(&doubts, frames);
            let parted: Vec<_> = spans.iter().map(|span| span.parted(|frame| blanks.contains(&frame))).collect();
            for frame in doubts {
                prop_assert_eq!(parted.iter().filter(|range| range.contains(&frame)).count(), 1);
            }
            for (span, parted) in spans.iter().zip(&parted) {
                prop_assert!(span.seen.start <= parted.start && parted.end <= span.seen.end && span.seen.end <= frames);
            }
            for pair in spans.windows(2) {
                prop_assert!(pair[0].seen.end <= pair[1].seen.start);
            }
        }
    }
}
