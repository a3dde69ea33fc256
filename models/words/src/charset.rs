//! Symbols of the recogniser's classes.

use std::collections::HashSet;

/// Symbols by class: the blank of CTC, the symbols of the model, the space.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Charset {
    symbols: Vec<String>,
    /// Characters of the symbols.
    characters: HashSet<char>,
}

impl Charset {
    /// A charset of the symbols after the blank and before the space.
    pub fn new(symbols: Vec<String>) -> Self {
        let characters = symbols.iter().flat_map(|symbol| symbol.chars()).collect();
        Self { symbols, characters }
    }

    /// Number of classes, with the blank and the space.
    pub fn classes(&self) -> usize {
        self.symbols.len() + 2
    }

    /// Returns whether a character is, or is part of, a symbol.
    pub fn knows(&self, character: char) -> bool {
        self.characters.contains(&character)
    }

    /// Symbol of a class; `None` for the blank, and for what is no class.
    pub fn symbol(&self, class: u32) -> Option<&str> {
        let place = usize::try_from(class).ok()?.checked_sub(1)?;
        if place == self.symbols.len() {
            return Some(" ");
        }
        self.symbols.get(place).map(String::as_str)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_class_is_no_symbol_and_the_last_is_a_space() {
        let charset = Charset::new(vec!["a".to_owned(), "b".to_owned()]);
        let symbols: Vec<_> = (0..5).map(|class| charset.symbol(class)).collect();
        assert_eq!(symbols, [None, Some("a"), Some("b"), Some(" "), None]);
        assert_eq!(charset.classes(), 4);
        assert!(charset.knows('a') && !charset.knows('c'));
    }
}
