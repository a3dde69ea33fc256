//! Rankings joined by reciprocal ranks (Cormack, Clarke and Büttcher, 2009): scores of different kinds need not be compared.

use std::collections::HashMap;
use std::hash::Hash;

/// Rank that is added to all, so that the first of one ranking does not outweigh what several have.
const RANK: f32 = 60.0;

/// Ranking with its weight among others.
pub(super) struct Ranking<T> {
    pub weight: f32,
    /// Best first.
    pub items: Vec<T>,
}

/// Joins rankings to one with scores. Equal items are in their own order.
pub(super) fn fuse<T: Clone + Eq + Hash + Ord>(rankings: &[Ranking<T>]) -> Vec<(T, f32)> {
    let mut scores: HashMap<&T, f32> = HashMap::new();
    for ranking in rankings {
        for (rank, item) in ranking.items.iter().enumerate() {
            *scores.entry(item).or_default() += ranking.weight / (RANK + rank as f32 + 1.0);
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
        let ranking = |weight, items: &[&'static str]| Ranking {
            weight,
            items: items.to_vec(),
        };
        let order = |rankings: &[Ranking<&'static str>]| -> Vec<&str> {
            fuse(rankings).into_iter().map(|(item, _)| item).collect()
        };
        assert_eq!(
            order(&[
                ranking(1.0, &["a", "b", "c"]),
                ranking(1.0, &["d", "b"]),
                ranking(1.0, &["c"])
            ]),
            ["c", "b", "a", "d"]
        );
        assert_eq!(order(&[ranking(0.5, &["a"]), ranking(1.0, &["b"])]), ["b", "a"]);
        assert_eq!(order(&[]), [""; 0]);
    }
}
