//! Headings that parts of a document stand below.

use crate::block::Role;
use crate::document::Part;

/// Factor by which the letters of a heading are larger than those of one below it.
const LARGER: f32 = 1.1;

/// The open headings at each part, by their places among the parts, from the outermost down; a heading is the last of its own.
pub(crate) fn paths(parts: &[Part]) -> Vec<Vec<usize>> {
    let mut open: Vec<usize> = Vec::new();
    let mut paths = Vec::with_capacity(parts.len());
    for (place, part) in parts.iter().enumerate() {
        if is_heading(part) {
            while let Some(&last) = open.last()
                && !is_above(&parts[last], part)
            {
                open.pop();
            }
            open.push(place);
        }
        paths.push(open.clone());
    }
    paths
}

pub(crate) fn is_heading(part: &Part) -> bool {
    matches!(part.role, Role::Title | Role::Heading)
}

/// True if what follows the heading `lower` still stands below `upper`: numbers of sections decide, else the size of the letters.
fn is_above(upper: &Part, lower: &Part) -> bool {
    match (upper.role, lower.role) {
        (Role::Title, Role::Heading) => return true,
        (_, Role::Title) => return false,
        _ => {}
    }
    match (depth(&upper.text), depth(&lower.text)) {
        (Some(upper), Some(lower)) => upper < lower,
        _ => upper.size > LARGER * lower.size,
    }
}

/// Number of numbers of a section's number: 2 of `2.3 Method`.
fn depth(text: &str) -> Option<usize> {
    let (number, _) = text.trim_start().split_once(char::is_whitespace)?;
    let number = number.trim_end_matches('.');
    let mut numbers = number.split('.');
    let all = numbers
        .all(|part| !part.is_empty() && part.len() <= 3 && part.bytes().all(|digit| digit.is_ascii_digit()));
    all.then(|| number.split('.').count())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn part(role: Role, text: &str, size: f32) -> Part {
        Part {
            role,
            text: text.to_owned(),
            table: None,
            size,
            places: Vec::new(),
        }
    }

    #[test]
    fn sections_stand_in_sections_by_number_or_size() {
        let parts = [
            part(Role::Title, "Title", 20.0),
            part(Role::Heading, "1 One", 12.0),
            part(Role::Text, "text", 10.0),
            part(Role::Heading, "1.1 Below one", 12.0),
            part(Role::Heading, "2. Two", 11.0),
            part(Role::Heading, "Small", 9.0),
            part(Role::Heading, "As small", 9.2),
            part(Role::Title, "Another", 20.0),
        ];
        let expected: [&[usize]; 8] = [
            &[0],
            &[0, 1],
            &[0, 1],
            &[0, 1, 3],
            &[0, 4],
            &[0, 4, 5],
            &[0, 4, 6],
            &[7],
        ];
        assert_eq!(paths(&parts), expected);
    }
}
