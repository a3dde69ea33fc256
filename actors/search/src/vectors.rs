//! Dense vectors of chunks, as a part keeps them: bytes with one scale for each vector, in a file that is mapped into memory, all of which a
//! search compares. At 512 bytes a vector a million take half a gigabyte, which one core reads in a tenth of a second; an index of
//! neighbours would have to be built, and finds but most of them.

use std::io::Write;
use std::path::Path;

use sha2::{Digest, Sha256};
use tantivy::directory::{Directory, OwnedBytes, TerminatingWrite, WritePtr};

/// Name of the file in a part.
pub(crate) const FILE: &str = "vectors";
/// Bytes before the vectors: how long each is, how many there are, and what made them.
const HEADER: usize = 8 + MODEL;
const MODEL: usize = 16;
/// Largest value of a byte of a vector.
const LARGEST: f32 = 127.0;

/// Vector in bytes.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Quantised {
    /// Value of a byte.
    scale: f32,
    bytes: Vec<i8>,
}

impl Quantised {
    /// Rounds each number to one of 255 steps up to the largest of the vector.
    pub(crate) fn of(vector: &[f32]) -> Self {
        let largest = vector
            .iter()
            .fold(0.0_f32, |largest, value| largest.max(value.abs()));
        let scale = largest / LARGEST;
        let byte = |value: &f32| {
            if scale > 0.0 {
                (value / scale).round() as i8
            } else {
                0
            }
        };
        Self {
            scale,
            bytes: vector.iter().map(byte).collect(),
        }
    }
}

/// Hash of the name of a model.
pub(crate) type ModelHash = [u8; MODEL];

fn hash_of(model: &str) -> ModelHash {
    let mut hash = ModelHash::default();
    hash.iter_mut()
        .zip(Sha256::digest(model))
        .for_each(|(to, from)| *to = from);
    hash
}

/// Vectors of a part, in the order of its chunks.
#[derive(Debug, Clone)]
pub(crate) struct Vectors {
    model: ModelHash,
    dimension: usize,
    /// Scales of the vectors, then their bytes.
    scales: OwnedBytes,
    bytes: OwnedBytes,
}

impl Vectors {
    /// Opens the vectors of a part; `None` if it has none, or the file is cut off.
    pub(crate) fn open(directory: &dyn Directory) -> Option<Self> {
        let bytes = directory.open_read(Path::new(FILE)).ok()?.read_bytes().ok()?;
        let number = |at: usize| -> Option<usize> {
            let bytes: [u8; 4] = bytes.get(at..at + 4)?.try_into().ok()?;
            usize::try_from(u32::from_le_bytes(bytes)).ok()
        };
        let (dimension, count) = (number(0)?, number(4)?);
        let scales = HEADER..HEADER.checked_add(count.checked_mul(4)?)?;
        let end = scales.end.checked_add(count.checked_mul(dimension)?)?;
        let model = bytes.get(8..HEADER)?.try_into().ok()?;
        (end == bytes.len()).then(|| Self {
            model,
            dimension,
            scales: bytes.slice(scales.clone()),
            bytes: bytes.slice(scales.end..end),
        })
    }

    /// Vectors of so many chunks that were not embedded.
    pub(crate) fn none(count: usize) -> Self {
        Self {
            model: ModelHash::default(),
            dimension: 0,
            scales: OwnedBytes::new(vec![0; count * 4]),
            bytes: OwnedBytes::empty(),
        }
    }

    /// Model of the vectors; `None` where there are none.
    pub(crate) fn model(&self) -> Option<ModelHash> {
        (self.dimension > 0).then_some(self.model)
    }

    /// True if a model has made the vectors.
    pub(crate) fn is_of(&self, model: &str) -> bool {
        self.model() == Some(hash_of(model))
    }

    pub(crate) fn len(&self) -> usize {
        self.scales.len() / 4
    }

    /// Products of a vector with all of these, in order; none if it is of another length.
    pub(crate) fn products(&self, vector: &Quantised) -> impl Iterator<Item = f32> {
        let fits = vector.bytes.len() == self.dimension && self.dimension > 0;
        let rows = self
            .bytes
            .chunks_exact(self.dimension.max(1))
            .take(if fits { usize::MAX } else { 0 });
        let scales = self
            .scales
            .chunks_exact(4)
            .map(|bytes| f32::from_le_bytes(bytes.try_into().unwrap_or_default()));
        rows.zip(scales)
            .map(|(row, scale)| product(row, &vector.bytes) as f32 * scale * vector.scale)
    }

    fn row(&self, index: usize) -> Option<(&[u8], &[u8])> {
        let row = self
            .bytes
            .get(index * self.dimension..(index + 1) * self.dimension)?;
        Some((row, self.scales.get(index * 4..(index + 1) * 4)?))
    }
}

/// Product of two vectors of bytes. Pairs of sixteen bits are what processors multiply and add at once, and the compiler makes that of it.
fn product(row: &[u8], vector: &[i8]) -> i32 {
    row.iter()
        .zip(vector)
        .map(|(one, other)| i32::from(i16::from(one.cast_signed()) * i16::from(*other)))
        .sum()
}

/// Bytes of a file with these vectors of a model; those of another length than the first that has one are zeros, which are like nothing.
pub(crate) fn file_of(model: &str, vectors: &[Vec<f32>]) -> Vec<u8> {
    let dimension = vectors
        .iter()
        .map(Vec::len)
        .find(|length| *length > 0)
        .unwrap_or(0);
    let rows = vectors.iter().map(|vector| {
        let fits = vector.len() == dimension;
        Quantised::of(if fits { vector.as_slice() } else { &[] })
    });
    let rows: Vec<Quantised> = rows.collect();
    let mut file = header(dimension, rows.len(), hash_of(model));
    file.extend(rows.iter().flat_map(|row| row.scale.to_le_bytes()));
    for row in &rows {
        let missing = dimension - row.bytes.len();
        file.extend(row.bytes.iter().map(|byte| byte.cast_unsigned()));
        file.extend(std::iter::repeat_n(0, missing));
    }
    file
}

fn header(dimension: usize, count: usize, model: ModelHash) -> Vec<u8> {
    let number = |number: usize| u32::try_from(number).unwrap_or(u32::MAX).to_le_bytes();
    [&number(dimension), &number(count), &model[..]].concat()
}

/// Writes the chosen vectors of several parts as those of one; `kept` are the parts' vectors with the indices of those that stay, in
/// order. The parts are of one model, or have no vectors.
///
/// # Errors
///
/// If the file cannot be written.
pub(crate) fn merge(kept: &[(Vectors, Vec<usize>)], mut file: WritePtr) -> std::io::Result<()> {
    let first = kept
        .iter()
        .map(|(vectors, _)| vectors)
        .find(|vectors| vectors.dimension > 0);
    let (dimension, model) =
        first.map_or_else(Default::default, |vectors| (vectors.dimension, vectors.model));
    let rows = || {
        kept.iter().flat_map(|(vectors, indices)| {
            let fits = vectors.dimension == dimension;
            indices
                .iter()
                .map(move |index| vectors.row(*index).filter(|_| fits))
        })
    };
    let zeros = vec![0; dimension];
    file.write_all(&header(dimension, rows().count(), model))?;
    for row in rows() {
        file.write_all(row.map_or(&[0; 4], |(_, scale)| scale))?;
    }
    for row in rows() {
        file.write_all(row.map_or(&zeros, |(row, _)| row))?;
    }
    file.terminate()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use tantivy::directory::RamDirectory;

    use super::*;

    const MODEL_NAME: &str = "sha256:1";

    fn opened(vectors: &[Vec<f32>]) -> Vectors {
        let directory = RamDirectory::create();
        directory
            .atomic_write(Path::new(FILE), &file_of(MODEL_NAME, vectors))
            .unwrap();
        Vectors::open(&directory).unwrap()
    }

    #[test]
    fn a_file_that_is_cut_off_has_no_vectors() {
        let file = file_of(MODEL_NAME, &[vec![1.0, 0.5], vec![0.0, -1.0]]);
        for length in 0..file.len() {
            let directory = RamDirectory::create();
            directory.atomic_write(Path::new(FILE), &file[..length]).unwrap();
            assert!(Vectors::open(&directory).is_none(), "{length}");
        }
    }

    #[test]
    fn parts_become_one_without_what_was_replaced() {
        let (one, other) = (
            opened(&[vec![1.0, 0.0], vec![0.0, 1.0]]),
            opened(&[vec![0.5, 0.5]]),
        );
        let directory = RamDirectory::create();
        let file = directory.open_write(Path::new(FILE)).unwrap();
        merge(&[(one, vec![1]), (other, vec![0])], file).unwrap();
        let merged = Vectors::open(&directory).unwrap();
        let products: Vec<f32> = merged.products(&Quantised::of(&[0.0, 1.0])).collect();
        assert_eq!(merged.len(), 2);
        assert!(merged.is_of(MODEL_NAME) && !merged.is_of("sha256:2"));
        assert!(
            (products[0] - 1.0).abs() < 0.01 && (products[1] - 0.5).abs() < 0.01,
            "{products:?}"
        );
        assert_eq!(
            merged.products(&Quantised::of(&[1.0])).count(),
            0,
            "a vector of another length"
        );
    }

    proptest! {
        #[test]
        fn products_are_those_of_the_numbers_but_for_their_rounding(
            vectors in prop::collection::vec(prop::collection::vec(-1.0_f32..1.0, 16), 1..9),
            query in prop::collection::vec(-1.0_f32..1.0, 16),
        ) {
            let products: Vec<f32> = opened(&vectors).products(&Quantised::of(&query)).collect();
            prop_assert_eq!(products.len(), vectors.len());
            for (product, vector) in products.iter().zip(&vectors) {
                let exact: f32 = vector.iter().zip(&query).map(|(one, other)| one * other).sum();
                prop_assert!((product - exact).abs() < 16.0 * 2.0 / LARGEST, "{product} {exact}");
            }
        }
    }
}
