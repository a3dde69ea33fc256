//! The decision which parts of an index become one. Parts are merged in tiers, as a log-structured store does it (O'Neil et al., 1996):
//! each document is copied once a tier, and a search has few parts to look into.

use std::collections::BTreeMap;

use crate::vectors::ModelHash;

/// Parts of one tier that are merged when there are so many, and the factor from one tier to the next.
const FAN: u64 = 8;
/// Documents below which parts are all of the first tier.
const SMALLEST: u64 = 1_000;

/// Size of a part.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct PartSize {
    /// Documents in it, replaced ones included.
    pub documents: u64,
    /// Documents of volumes that were replaced since.
    pub replaced: u64,
    /// Model of the vectors of its chunks. Parts of different models stay apart, as their vectors cannot be compared.
    pub model: Option<ModelHash>,
}

impl PartSize {
    fn tier(self) -> u32 {
        (self.documents.max(SMALLEST) / SMALLEST).ilog(FAN)
    }
}

/// Indices of the parts to make one of next; `None` if the parts may stay as they are.
pub(crate) fn choose(parts: &[PartSize]) -> Option<Vec<usize>> {
    let mostly_replaced = parts.iter().position(|part| part.replaced * 2 > part.documents);
    if let Some(part) = mostly_replaced {
        return Some(vec![part]);
    }
    let mut alike: BTreeMap<(u32, Option<ModelHash>), Vec<usize>> = BTreeMap::new();
    for (index, part) in parts.iter().enumerate() {
        alike.entry((part.tier(), part.model)).or_default().push(index);
    }
    let full = alike.into_values().find(|parts| parts.len() as u64 >= FAN)?;
    Some(full.into_iter().take(FAN as usize).collect())
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn a_part_of_which_most_was_replaced_is_written_again() {
        let part = |documents, replaced| PartSize {
            documents,
            replaced,
            model: None,
        };
        assert_eq!(choose(&[part(100, 0), part(100, 51)]), Some(vec![1]));
        assert_eq!(choose(&[part(100, 50), part(100, 0)]), None);
        assert_eq!(choose(&[part(10, 0); 8]), Some((0..8).collect()));
        assert_eq!(choose(&[part(10, 0); 7]), None);
        let other = |model| PartSize {
            model: Some([model; 16]),
            ..part(10, 0)
        };
        assert_eq!(
            choose(&[[other(1); 4], [other(2); 4]].concat()),
            None,
            "of different models"
        );
    }

    proptest! {
        #[test]
        fn parts_stay_few_and_pages_are_seldom_copied(sizes in prop::collection::vec(1_u64..5_000, 1..300)) {
            let mut parts: Vec<PartSize> = Vec::new();
            let (mut added, mut copied) = (0, 0);
            for documents in sizes {
                parts.push(PartSize { documents, replaced: 0, model: None });
                added += documents;
                while let Some(chosen) = choose(&parts) {
                    prop_assert!(chosen.len() > 1);
                    let documents = chosen.iter().map(|index| parts[*index].documents).sum();
                    copied += documents;
                    let mut index = 0;
                    parts.retain(|_| { index += 1; !chosen.contains(&(index - 1)) });
                    parts.push(PartSize { documents, replaced: 0, model: None });
                }
            }
            let tiers = u64::from((added.max(SMALLEST) / SMALLEST).ilog(FAN)) + 1;
            prop_assert!(parts.len() as u64 <= tiers * (FAN - 1));
            // A merge of small parts may stay in the first tier, so a document may be copied there more than once.
            prop_assert!(copied <= added * (tiers + 2), "{copied} of {added}");
        }
    }
}
