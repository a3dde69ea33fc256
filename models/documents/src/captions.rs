//! Captions, and the tables and figures that they belong to.

use crate::block::Role;

/// Number of parts from `place` on that stay together: a table or figure and its caption, before or below it; 1 for any other part.
pub(crate) fn unit_at(role: impl Fn(usize) -> Option<Role>, place: usize) -> usize {
    let is_captioned = |place| matches!(role(place), Some(Role::Table | Role::Figure));
    let is_caption = |place| role(place) == Some(Role::Caption);
    if is_caption(place) {
        return 1 + usize::from(is_captioned(place + 1));
    }
    // A caption between two tables is that of the second.
    let is_next = role(place) == Some(Role::Table) && role(place + 2) == Some(Role::Table);
    1 + usize::from(is_captioned(place) && is_caption(place + 1) && !is_next)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_caption_stays_with_what_it_is_of() {
        use Role::{Caption, Figure, Table, Text};
        for (roles, units) in [
            (&[Caption, Table, Text][..], &[2, 1][..]),
            (&[Figure, Caption, Table], &[2, 1]),
            (&[Table, Caption, Table], &[1, 2]),
            (&[Table, Caption, Text], &[2, 1]),
            (&[Caption, Text], &[1, 1]),
        ] {
            let mut found = Vec::new();
            let mut place = 0;
            while place < roles.len() {
                found.push(unit_at(|place| roles.get(place).copied(), place));
                place += found[found.len() - 1];
            }
            assert_eq!(found, units, "{roles:?}");
        }
    }
}
