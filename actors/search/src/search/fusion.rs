//! Rankings joined by reciprocal ranks (Cormack, Clarke and Büttcher, 2009): scores of different kinds need not be compared.

use std::collections::HashMap;
use std::hash::Hash;

/// Rank that is added to all, so that the first of one ranking does not outweigh what several have.
const RANK: f32 = 60.0;

/// Joins rankings, each best first, to one with scores. Equal ones are in their own order.
pub(super) fn fuse<T: Clone + Eq + Hash + Ord>(rankings: &[Vec<T>]) -> Vec<(T, f32)> {
    let mut scores: HashMap<&T, f32> = HashMap::new();
    for ranking in rankings {
        for (rank, item) in ranking.iter().enumerate() {
            *scores.entry(item).or_default() += 1.0 / (RANK + rank as f32 + 1.0);
        }
    }
    let mut fused: Vec<(T, f32)> = scores
        .into_iter()
        .map(|(item, score)| (item.clone(), score))
        .collect();
    fused.sort_by(|(one, low), (other, high)| high.total_cmp(low).then(one.cmp(other)));
    fused
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_several_rankings_have_is_first() {
        let fused = fuse(&[vec!["a", "b", "c"], vec!["d", "b"], vec!["c"]]);
        let order: Vec<&str> = fused.iter().map(|(item, _)| *item).collect();
        assert_eq!(order, ["c", "b", "a", "d"]);
        assert_eq!(fuse::<u8>(&[]), []);
    }
}
