//! Formatting of counts.

/// Formats a count with its noun: `1 volume`, `2 volumes`.
pub fn pluralize(number: impl TryInto<u64>, noun: &str) -> String {
    let number = number.try_into().unwrap_or(u64::MAX);
    let ending = if number == 1 { "" } else { "s" };
    format!("{number} {noun}{ending}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_is_not_many() {
        let written = [0_usize, 1, 2].map(|number| pluralize(number, "page"));
        assert_eq!(written, ["0 pages", "1 page", "2 pages"]);
    }
}
