use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::path::Path;

use super::InvalidImageName;
use super::fingerprint::Digest;

/// Largest length of a name in bytes, which leaves room for a line index, an extension and a hash within the 255 of a file name.
const MAX_BYTES: usize = 160;
/// Number of hexadecimal digits of the file name's hash that tell apart names which are equal once made safe.
const HASH_DIGITS: usize = 8;

/// Name of a page within its volume: unique there, and safe as a segment of an artifact key.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct ImageName(String);

impl ImageName {
    /// Accepts a name that [`image_names`] could have given.
    ///
    /// # Errors
    ///
    /// [`InvalidImageName`] for any other text.
    pub fn new(name: impl Into<String>) -> Result<Self, InvalidImageName> {
        let name = name.into();
        if make_safe(&name) == name && name.len() <= MAX_BYTES + 1 + 64 {
            Ok(Self(name))
        } else {
            Err(InvalidImageName { name })
        }
    }

    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for ImageName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// Names for the files of a volume, in the order of `files`, which are distinct.
///
/// A file is named by its stem. Where several files share a stem, or a stem is not safe in a key, the name is the stem
/// made safe plus a hash of the file name. The names depend on the set of files, not on their order.
pub fn image_names(files: &[String]) -> Vec<ImageName> {
    let mut sharers: BTreeMap<String, usize> = BTreeMap::new();
    for file in files {
        *sharers.entry(stem(file)).or_default() += 1;
    }
    let stands_as_it_is = |stem: &str| sharers.get(stem) == Some(&1) && shortened(&make_safe(stem)) == stem;

    // Stems that stand as they are come first, so that no hashed name takes the place of one.
    let mut names: BTreeMap<&str, String> = BTreeMap::new();
    for file in files {
        let stem = stem(file);
        if stands_as_it_is(&stem) {
            names.insert(file, stem);
        }
    }
    let mut taken: BTreeSet<String> = names.values().cloned().collect();
    // In the order of names, as a salt depends on the names given before; the order of `files` must not
    // count.
    let sorted: BTreeSet<&str> = files.iter().map(String::as_str).collect();
    for file in sorted {
        if !names.contains_key(file) {
            let name = free_name(file, &taken);
            taken.insert(name.clone());
            names.insert(file, name);
        }
    }
    files
        .iter()
        // Every file got its name in one of the two loops.
        .map(|file| ImageName(names[file.as_str()].clone()))
        .collect()
}

fn stem(file: &str) -> String {
    let stem = Path::new(file).file_stem().unwrap_or_default();
    stem.to_string_lossy().into_owned()
}

/// First hashed name that no other file has. The salt matters only if a file is named after a hash.
fn free_name(file: &str, taken: &BTreeSet<String>) -> String {
    let safe = make_safe(&stem(file));
    let mut salt = 0_u32;
    loop {
        let digest = Digest::of_parts([file.as_bytes(), &salt.to_le_bytes()]).to_hex();
        let name = format!("{}-{}", shortened(&safe), &digest[..HASH_DIGITS]);
        if !taken.contains(&name) {
            return name;
        }
        salt += 1;
    }
}

/// Replaces characters that are not safe in a key, a URL or a shell; letters and marks of any script stay.
fn make_safe(stem: &str) -> String {
    let replace = |(index, c): (usize, char)| {
        let plain = match c {
            '.' => index > 0,
            '_' | '-' => true,
            c if c.is_ascii() => c.is_ascii_alphanumeric(),
            c => !(c.is_control() || c.is_whitespace() || is_invisible(c)),
        };
        if plain { c } else { '_' }
    };
    let safe: String = stem.chars().enumerate().map(replace).collect();
    if safe.is_empty() { "page".to_owned() } else { safe }
}

/// True for zero-width characters, direction marks and the replacement character of names that are not UTF-8.
fn is_invisible(c: char) -> bool {
    matches!(c, '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2060}'..='\u{206f}' | '\u{feff}' | '\u{fffd}')
}

fn shortened(name: &str) -> &str {
    &name[..name.floor_char_boundary(MAX_BYTES)]
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::storage::ArtifactKey;

    fn names(files: &[&str]) -> Vec<String> {
        let files: Vec<String> = files.iter().map(ToString::to_string).collect();
        image_names(&files).iter().map(ToString::to_string).collect()
    }

    #[test]
    fn ordinary_files_are_named_by_their_stems() {
        assert_eq!(
            names(&["I08860003.tif", "p.1.jpg", "ཀ་.png"]),
            ["I08860003", "p.1", "ཀ་"]
        );
    }

    #[test]
    fn files_that_share_a_stem_get_a_hash_each_and_others_keep_theirs() {
        let found = names(&["a.tif", "a.jpg", "b.jpg"]);
        assert!(
            found[0].starts_with("a-") && found[1].starts_with("a-"),
            "{found:?}"
        );
        assert_ne!(found[0], found[1]);
        assert_eq!(found[2], "b");
        assert_eq!(
            names(&["b.jpg", "a.jpg", "a.tif"]),
            [&*found[2], &*found[1], &*found[0]]
        );
    }

    #[test]
    fn a_file_named_after_a_hash_does_not_collide() {
        let hashed = names(&["a.tif", "a.jpg"])[0].clone();
        let found = names(&["a.tif", "a.jpg", &format!("{hashed}.png")]);
        assert_eq!(found[2], hashed);
        assert_ne!(found[0], hashed);
    }

    #[test]
    fn unsafe_and_endless_names_are_mended() {
        let long = format!("{}.tif", "ཀ".repeat(100));
        for name in names(&["a b.tif", "a_b.tif", ".hidden", "..", "c/d.jpg", &long]) {
            assert!(ImageName::new(name.clone()).is_ok(), "{name}");
        }
    }

    proptest! {
        #[test]
        fn names_are_unique_and_safe(files in prop::collection::btree_set("[ab./\\\\ \u{f40}\u{200b}-]{0,6}", 0..12)) {
            let files: Vec<String> = files.into_iter().collect();
            let names = image_names(&files);
            let unique: BTreeSet<&ImageName> = names.iter().collect();
            prop_assert_eq!(unique.len(), files.len());
            for name in &names {
                let key = ArtifactKey::new(format!("{name}_12.jpg"));
                prop_assert!(key.is_ok());
                prop_assert!(ImageName::new(name.as_str()).is_ok());
                prop_assert!(!name.as_str().contains('/'));
            }
        }
    }
}
