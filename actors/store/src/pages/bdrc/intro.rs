use std::collections::BTreeMap;

use parkhang_core::domain::VolumeId;

/// Error for a line that does not name a volume and a number.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("line {line}: {text:?} is not a volume W-I and the number of its intro pages")]
pub struct IntroPagesError {
    pub line: usize,
    pub text: String,
}

/// Reads the numbers of pages that stand before the book in each volume: lines of `W-I NUMBER`, with `#` before comments.
///
/// # Errors
///
/// [`IntroPagesError`] for the first line of another kind.
pub fn read_intro_pages(text: &str) -> Result<BTreeMap<VolumeId, usize>, IntroPagesError> {
    let mut found = BTreeMap::new();
    for (number, line) in (1..).zip(text.lines()) {
        let content = line.split('#').next().unwrap_or_default().trim();
        if content.is_empty() {
            continue;
        }
        let entry = content
            .split_once([' ', '\t', ','])
            .and_then(|(volume, pages)| Some((volume.parse().ok()?, pages.trim().parse().ok()?)));
        let (volume, pages) = entry.ok_or_else(|| IntroPagesError {
            line: number,
            text: line.to_owned(),
        })?;
        found.insert(volume, pages);
    }
    Ok(found)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_are_volumes_and_numbers() {
        let read = read_intro_pages("# W-I pages\nW22084-I0886 2\n\nW1-I1-2,0  # none\nW1-I3\t12\n").unwrap();
        let read: Vec<(String, usize)> = read
            .into_iter()
            .map(|(volume, pages)| (volume.to_string(), pages))
            .collect();
        let expected = [("W1-I1-2", 0), ("W1-I3", 12), ("W22084-I0886", 2)];
        assert_eq!(read, expected.map(|(volume, pages)| (volume.to_owned(), pages)));
        for wrong in ["W1-I1", "W1 2", "W1-I1 two", "W1-I1 -1", "W1-I1 1 2"] {
            let error = read_intro_pages(&format!("\n{wrong}\n")).unwrap_err();
            assert_eq!(error.line, 2, "{wrong}");
        }
    }
}
