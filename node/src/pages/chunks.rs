//! Plan of a manifest: its entries in chunks, and which of these a run does.

use std::ops::Range;

/// Chunks of a list of entries, each but the last of the same size.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Chunks {
    entries: usize,
    size: usize,
}

/// Choice among chunks that cannot be met.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum NoSuchChunk {
    #[error("--chunk-size is 0")]
    NoSize,
    #[error("--chunk is {given}, and the manifest has the chunks 1 to {count}")]
    Chunk { given: usize, count: usize },
}

impl Chunks {
    /// Plan of so many entries.
    ///
    /// # Errors
    ///
    /// [`NoSuchChunk::NoSize`] for chunks of nothing.
    pub fn new(entries: usize, size: usize) -> Result<Self, NoSuchChunk> {
        if size == 0 {
            return Err(NoSuchChunk::NoSize);
        }
        Ok(Self { entries, size })
    }

    pub fn count(&self) -> usize {
        self.entries.div_ceil(self.size)
    }

    /// Entries of a chunk, by its number from 0.
    pub fn entries(&self, chunk: usize) -> Range<usize> {
        let at = |chunk: usize| chunk.saturating_mul(self.size).min(self.entries);
        at(chunk)..at(chunk.saturating_add(1))
    }

    /// Numbers of the chunks that a run does, from 0: that of `--chunk`, which counts from 1, or else that of an array job. The array may
    /// be larger than there are chunks; those beyond have nothing to do.
    ///
    /// # Errors
    ///
    /// [`NoSuchChunk::Chunk`] if `--chunk` names none.
    pub fn chosen(
        &self,
        chunk: Option<usize>,
        array_index: Option<usize>,
    ) -> Result<Range<usize>, NoSuchChunk> {
        let count = self.count();
        match (chunk, array_index) {
            (Some(given), _) => {
                let index = given.checked_sub(1).filter(|index| *index < count);
                let index = index.ok_or(NoSuchChunk::Chunk { given, count })?;
                Ok(index..index + 1)
            }
            (None, Some(index)) if index < count => Ok(index..index + 1),
            (None, Some(_)) => Ok(count..count),
            (None, None) => Ok(0..count),
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn a_run_does_all_chunks_or_one() {
        let chunks = Chunks::new(2001, 1000).unwrap();
        assert_eq!((chunks.count(), chunks.entries(2)), (3, 2000..2001));
        assert_eq!(chunks.chosen(None, None), Ok(0..3));
        assert_eq!(chunks.chosen(Some(3), Some(0)), Ok(2..3));
        assert_eq!(chunks.chosen(None, Some(0)), Ok(0..1));
        assert_eq!(chunks.chosen(None, Some(7)), Ok(3..3));
        for given in [0, 4] {
            assert_eq!(
                chunks.chosen(Some(given), None),
                Err(NoSuchChunk::Chunk { given, count: 3 })
            );
        }
        assert_eq!(Chunks::new(5, 0), Err(NoSuchChunk::NoSize));
    }

    proptest! {
        #[test]
        fn array_jobs_do_every_entry_once(entries in 0usize..500, size in 1usize..70, spare in 0usize..3) {
            let chunks = Chunks::new(entries, size).unwrap();
            let mut done = Vec::new();
            for index in 0..chunks.count() + spare {
                for chunk in chunks.chosen(None, Some(index)).unwrap() {
                    let range = chunks.entries(chunk);
                    prop_assert!(!range.is_empty() && range.len() <= size);
                    done.extend(range);
                }
            }
            prop_assert_eq!(done, (0..entries).collect::<Vec<_>>());
        }
    }
}
