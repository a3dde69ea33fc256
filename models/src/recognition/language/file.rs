//! The file of n-grams: `models/training/train_language_model.py` writes it and says how it is laid out.

use std::io::Read;

use flate2::read::GzDecoder;

use super::{Level, MAX_ORDER, Ngrams, STEP};

const MAGIC: &[u8] = b"PKNG";
const VERSION: u8 = 1;
/// Bytes of a file when it is unpacked, at most.
const MAX_BYTES: u64 = 256 << 20;

/// Reason why a file holds no n-grams.
#[derive(Debug, thiserror::Error)]
pub enum NgramError {
    #[error("not a gzip file")]
    Unpack(#[source] std::io::Error),
    #[error("not a file of n-grams")]
    Magic,
    #[error("format version {0}; this program knows version {VERSION}")]
    Version(u8),
    #[error("n-grams of up to {0}; this program reads 1 to {MAX_ORDER}")]
    Order(u8),
    #[error("ends too early, or too late")]
    Length,
    #[error("n-grams of length {0} are not in order")]
    Disorder(usize),
}

impl Ngrams {
    /// Reads the n-grams of a file, gzipped.
    ///
    /// # Errors
    /// [`NgramError`] where it is no such file or contradicts itself.
    pub fn parse(file: &[u8]) -> Result<Self, NgramError> {
        let mut bytes = Vec::new();
        GzDecoder::new(file)
            // A file that unpacks to more is cut off here and then fails by its length.
            .take(MAX_BYTES)
            .read_to_end(&mut bytes)
            .map_err(NgramError::Unpack)?;
        let mut reader = Reader(&bytes);
        if reader.take(MAGIC.len())? != MAGIC {
            return Err(NgramError::Magic);
        }
        let version = reader.byte()?;
        if version != VERSION {
            return Err(NgramError::Version(version));
        }
        let order = reader.byte()?;
        if !(1..=MAX_ORDER).contains(&usize::from(order)) {
            return Err(NgramError::Order(order));
        }
        let classes = usize::from(reader.words(1)?.first().copied().unwrap_or_default());
        let sizes: Vec<usize> = (0..order).map(|_| reader.size()).collect::<Result<_, _>>()?;
        let unit_of = reader.words(classes)?;
        let mut levels = Vec::with_capacity(sizes.len());
        for (place, &size) in sizes.iter().enumerate() {
            levels.push(reader.level(size, sizes.get(place + 1).copied())?);
        }
        if !reader.0.is_empty() {
            return Err(NgramError::Length);
        }
        for (place, level) in levels.iter().enumerate() {
            let starts = match place.checked_sub(1).and_then(|before| levels.get(before)) {
                Some(before) => before.children.clone(),
                None => vec![0, u32::try_from(level.units.len()).unwrap_or(u32::MAX)],
            };
            // `find` searches by halves and takes ranges from these starts: an order that is not there would
            // hide n-grams.
            if !is_ordered(level, &starts) {
                return Err(NgramError::Disorder(place + 1));
            }
        }
        Ok(Self { unit_of, levels })
    }
}

/// Units rise among the entries that begin with the same.
fn is_ordered(level: &Level, starts: &[u32]) -> bool {
    starts.windows(2).all(|range| {
        let units = level.units.get(range[0] as usize..range[1] as usize);
        units.is_some_and(|units| units.is_sorted_by(|a, b| a < b))
    })
}

struct Reader<'b>(&'b [u8]);

impl<'b> Reader<'b> {
    fn take(&mut self, count: usize) -> Result<&'b [u8], NgramError> {
        let (taken, rest) = self.0.split_at_checked(count).ok_or(NgramError::Length)?;
        self.0 = rest;
        Ok(taken)
    }

    fn byte(&mut self) -> Result<u8, NgramError> {
        Ok(self.take(1)?[0])
    }

    fn size(&mut self) -> Result<usize, NgramError> {
        let bytes = self.take(4)?;
        Ok(bytes
            .iter()
            .rev()
            .fold(0, |size, byte| size << 8 | usize::from(*byte)))
    }

    fn words(&mut self, count: usize) -> Result<Vec<u16>, NgramError> {
        let bytes = self.take(count.checked_mul(2).ok_or(NgramError::Length)?)?;
        Ok(bytes
            .chunks_exact(2)
            .map(|pair| u16::from_le_bytes([pair[0], pair[1]]))
            .collect())
    }

    /// A level of `size` n-grams, before one of `next` if there is one.
    fn level(&mut self, size: usize, next: Option<usize>) -> Result<Level, NgramError> {
        let units = self.words(size)?;
        let log_probs = self
            .take(size)?
            .iter()
            .map(|cost| -f32::from(*cost) * STEP)
            .collect();
        let Some(next) = next else {
            return Ok(Level {
                units,
                log_probs,
                ..Level::default()
            });
        };
        let back_off = self
            .take(size)?
            .iter()
            .map(|weight| f32::from(weight.cast_signed()) * STEP)
            .collect();
        let counts = self.words(size)?;
        // The file has counts, which fit 16 bits; their running sums are the places of the children.
        let mut children = Vec::with_capacity(size + 1);
        let mut total = 0_u32;
        children.push(total);
        for count in counts {
            // A file within its limit can state more children than 32 bits count.
            total = total.checked_add(u32::from(count)).ok_or(NgramError::Length)?;
            children.push(total);
        }
        if total as usize == next {
            Ok(Level {
                units,
                log_probs,
                back_off,
                children,
            })
        } else {
            Err(NgramError::Length)
        }
    }
}
