//! Trie of the pieces of a vocabulary, made in about the time that sorting them takes. An automaton that finds all pieces in one pass over a text takes ten
//! times as long to make, which each start of a node would wait for, and is no faster with pieces of a few letters.

use crate::token::TokenizerError;

/// Node at which every search begins.
const ROOT: usize = 0;

/// Trie of pieces. Its nodes are in the order of their depth, so that the children of a node are in a row.
#[derive(Debug)]
pub(super) struct Trie {
    /// Byte that leads to each node; that of the root is not used.
    labels: Vec<u8>,
    /// First child of each node, whose children end where those of the next one begin; one entry more than there are nodes.
    children: Vec<usize>,
    /// Position in the list of pieces of that which ends at each node.
    pieces: Vec<Option<usize>>,
}

impl Trie {
    /// Makes the trie of a list of pieces.
    ///
    /// # Errors
    /// [`TokenizerError::Twice`] where a piece is in the list twice.
    pub(super) fn new(pieces: &[&str]) -> Result<Self, TokenizerError> {
        let mut sorted: Vec<(&str, usize)> = pieces.iter().copied().zip(0..).collect();
        sorted.sort_unstable();
        if let Some(pair) = sorted.windows(2).find(|pair| pair[0].0 == pair[1].0) {
            return Err(TokenizerError::Twice(pair[0].0.to_owned()));
        }
        let mut trie = Self {
            labels: vec![0],
            children: Vec::new(),
            pieces: Vec::new(),
        };
        // Pieces below each node of a depth; the sorted list has them in a row.
        let mut nodes = vec![sorted.as_slice()];
        let mut depth = 0;
        while !nodes.is_empty() {
            let mut deeper = Vec::new();
            for mut below in nodes {
                // A piece that ends here is a prefix of the others, and so sorted before them.
                let ending = below.first().filter(|(piece, _)| piece.len() == depth);
                trie.pieces.push(ending.map(|(_, place)| *place));
                below = &below[usize::from(ending.is_some())..];
                trie.children.push(trie.labels.len());
                while let Some((piece, _)) = below.first() {
                    let label = piece.as_bytes()[depth];
                    let count = below.partition_point(|(piece, _)| piece.as_bytes()[depth] == label);
                    let child;
                    (child, below) = below.split_at(count);
                    trie.labels.push(label);
                    deeper.push(child);
                }
            }
            nodes = deeper;
            depth += 1;
        }
        trie.children.push(trie.labels.len());
        Ok(trie)
    }

    /// Pieces that the text begins with, shortest first: for each its position in the list and its bytes.
    pub(super) fn prefixes(&self, text: &str) -> impl Iterator<Item = (usize, usize)> {
        let mut node = ROOT;
        let nodes = text.bytes().map_while(move |byte| {
            let children = self.children[node]..self.children[node + 1];
            let place = self.labels[children.clone()].binary_search(&byte).ok()?;
            node = children.start + place;
            Some(node)
        });
        nodes
            .zip(1..)
            .filter_map(|(node, length)| Some((self.pieces[node]?, length)))
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn a_piece_that_is_there_twice_is_named() {
        let error = Trie::new(&["b", "a", "b"]).unwrap_err();
        assert!(matches!(error, TokenizerError::Twice(piece) if piece == "b"));
    }

    proptest! {
        #[test]
        fn prefixes_are_those_of_a_search_through_the_list(
            pieces in proptest::collection::hash_set("[abཀཁ]{1,5}", 0..40),
            text in "[abཀཁ]{0,8}",
        ) {
            let pieces: Vec<&str> = pieces.iter().map(String::as_str).collect();
            let trie = Trie::new(&pieces).unwrap();
            let mut expected: Vec<(usize, usize)> = (0..pieces.len())
                .map(|place| (place, pieces[place].len()))
                .filter(|(place, _)| text.starts_with(pieces[*place]))
                .collect();
            expected.sort_by_key(|(_, length)| *length);
            prop_assert_eq!(trie.prefixes(&text).collect::<Vec<_>>(), expected);
        }
    }
}
