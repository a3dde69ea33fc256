//! Sets of pages of a document.

use std::fmt;
use std::str::FromStr;

use super::InvalidName;

/// Pages of a document, numbered from 1, at least one: `3-12_15` are the pages 3 to 12 and 15. Every set has one written form.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct PageSet {
    /// Ranges in their order, with a page between each two of them that is not in the set.
    ranges: Vec<RangeOf>,
}

/// First and last page of a range.
type RangeOf = (u32, u32);

/// Most pages of a set: larger than any document, and few enough to be listed.
const MOST_PAGES: usize = 10_000;
/// Longest written form, in bytes. Forty pages that are no neighbours, of a document of a thousand, need 160.
const MAX_LENGTH: usize = 160;

impl PageSet {
    /// Set of these pages, in any order; `None` if there are none of them, a page 0, or more than 10,000.
    pub fn of(pages: impl IntoIterator<Item = u32>) -> Option<Self> {
        let mut pages: Vec<u32> = pages.into_iter().collect();
        pages.sort_unstable();
        pages.dedup();
        let mut ranges: Vec<RangeOf> = Vec::new();
        for page in pages {
            match ranges.last_mut() {
                Some((_, last)) if page - *last == 1 => *last = page,
                _ => ranges.push((page, page)),
            }
        }
        let (first, _) = ranges.first()?;
        (*first > 0 && pages_of(&ranges) <= MOST_PAGES).then_some(Self { ranges })
    }

    pub fn contains(&self, page: u32) -> bool {
        self.ranges
            .iter()
            .any(|(first, last)| (*first..=*last).contains(&page))
    }

    /// Pages in their order.
    pub fn pages(&self) -> impl Iterator<Item = u32> {
        self.ranges.iter().flat_map(|(first, last)| *first..=*last)
    }

    /// Sets of any number of pages in ascending order, each of `most` pages at most and with a written form that is short enough for the
    /// name of a volume.
    pub fn chunks(all: impl IntoIterator<Item = u32>, most: usize) -> Vec<Self> {
        let mut sets = Vec::new();
        let mut pages: Vec<u32> = Vec::new();
        for page in all {
            pages.push(page);
            let grown = Self::of(pages.iter().copied());
            let fits = grown.is_some_and(|set| set.to_string().len() <= MAX_LENGTH);
            if pages.len() > most.max(1) || !fits {
                pages.pop();
                sets.extend(Self::of(pages.drain(..)));
                pages.push(page);
            }
        }
        sets.extend(Self::of(pages));
        sets
    }
}

/// Number of the pages in ranges.
fn pages_of(ranges: &[RangeOf]) -> usize {
    let lengths = ranges.iter().map(|(first, last)| (last - first) as usize + 1);
    lengths.fold(0, usize::saturating_add)
}

impl fmt::Display for PageSet {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, (first, last)) in self.ranges.iter().enumerate() {
            if index > 0 {
                f.write_str("_")?;
            }
            if first == last {
                write!(f, "{first}")?;
            } else {
                write!(f, "{first}-{last}")?;
            }
        }
        Ok(())
    }
}

impl FromStr for PageSet {
    type Err = InvalidName;

    /// Reads the written form; another form of the same set is refused, as it would be another name for it.
    fn from_str(text: &str) -> Result<Self, InvalidName> {
        let refused = || InvalidName {
            kind: "set of pages",
            rule: "at most 10,000 page numbers from 1 in ascending order, such as 3-12_15, in 160 characters at most",
            name: text.to_owned(),
        };
        if text.len() > MAX_LENGTH {
            return Err(refused());
        }
        let number = |text: &str| text.parse::<u32>().map_err(|_| refused());
        let mut ranges: Vec<RangeOf> = Vec::new();
        for part in text.split('_') {
            let (first, last) = match part.split_once('-') {
                Some((first, last)) => (number(first)?, number(last)?),
                None => (number(part)?, number(part)?),
            };
            let follows = ranges
                .last()
                .is_none_or(|(_, before)| first.checked_sub(1).is_some_and(|gap| gap > *before));
            if first == 0 || last < first || !follows {
                return Err(refused());
            }
            ranges.push((first, last));
        }
        if pages_of(&ranges) > MOST_PAGES {
            return Err(refused());
        }
        let set = Self { ranges };
        // Neither signs nor leading zeros, nor a range of one page.
        if set.to_string() == text {
            Ok(set)
        } else {
            Err(refused())
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn other_forms_of_a_set_are_refused() {
        for form in [
            "", "0", "3-3", "03", "+3", "5_3", "3_4", "3-4_5", "3_3", "4-3", "3_", "a", "3--4", "3-4-5",
        ] {
            assert!(form.parse::<PageSet>().is_err(), "{form:?}");
        }
        assert!("1_".repeat(90).parse::<PageSet>().is_err());
    }

    #[test]
    fn there_is_no_set_without_pages_and_none_with_a_page_0() {
        assert_eq!(PageSet::of([]), None);
        assert_eq!(PageSet::of([0, 1]), None);
        assert_eq!(PageSet::of([u32::MAX, 1]).unwrap().to_string(), "1_4294967295");
    }

    proptest! {
        #[test]
        fn the_written_form_reads_back(pages in proptest::collection::btree_set(1u32..2000, 1..30)) {
            let set = PageSet::of(pages.iter().copied()).unwrap();
            prop_assert_eq!(set.pages().collect::<Vec<_>>(), pages.into_iter().collect::<Vec<_>>());
            for part in PageSet::chunks(set.pages(), 20) {
                prop_assert_eq!(part.to_string().parse::<PageSet>().unwrap(), part);
            }
        }

        #[test]
        fn parts_hold_every_page_once_and_are_bounded(
            pages in proptest::collection::btree_set(1u32..200_000, 1..200), most in 1usize..40,
        ) {
            let parts = PageSet::chunks(PageSet::of(pages.iter().copied()).unwrap().pages(), most);
            let all: Vec<u32> = parts.iter().flat_map(PageSet::pages).collect();
            prop_assert_eq!(all, pages.into_iter().collect::<Vec<_>>());
            for part in parts {
                prop_assert!(part.pages().count() <= most);
                prop_assert!(part.to_string().len() <= MAX_LENGTH);
            }
        }
    }
}
