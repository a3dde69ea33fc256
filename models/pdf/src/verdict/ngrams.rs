//! Language model of characters for all kinds of writing, made by `models/training/train_page_ngrams.py`; `data/README.md` names what it was
//! made of. N-grams that it does not know are scored by shorter ones at a price ("stupid backoff", Brants et al. 2007).

use std::collections::HashMap;
use std::io::Read;
use std::sync::OnceLock;

use flate2::read::ZlibDecoder;

static FILE: &[u8] = include_bytes!("../../data/ngrams.bin");

/// Bits for each character of context that is not known.
const BACKOFF: f64 = 1.32;
/// Bits of a character that is not known at all.
const UNKNOWN: f64 = 18.0;
/// Steps of a stored number within a bit.
const STEPS: f64 = 8.0;

/// Bits that a character costs after two others.
#[derive(Debug)]
pub(super) struct Ngrams {
    bits: HashMap<[char; 3], u8>,
}

/// Place of a character that is not part of a shorter n-gram.
const ABSENT: char = '\0';

impl Ngrams {
    /// Returns the model that is compiled in.
    pub(super) fn shipped() -> &'static Self {
        static MODEL: OnceLock<Ngrams> = OnceLock::new();
        MODEL.get_or_init(|| {
            // The tests read the file that is compiled in. Without it every text would be as plausible as any other.
            Self::read(FILE).unwrap_or(Self { bits: HashMap::new() })
        })
    }

    fn read(file: &[u8]) -> Option<Self> {
        let mut data = Vec::new();
        ZlibDecoder::new(file).read_to_end(&mut data).ok()?;
        let mut rest = data.as_slice();
        let count = u32::from_le_bytes(take(&mut rest)?);
        let characters: Option<Vec<char>> = (0..count)
            .map(|_| char::from_u32(u32::from_le_bytes(take(&mut rest)?)))
            .collect();
        let characters = characters?;
        let mut bits = HashMap::new();
        for order in 1..=3 {
            for _ in 0..u32::from_le_bytes(take(&mut rest)?) {
                let mut gram = [ABSENT; 3];
                for place in gram.get_mut(3 - order..)? {
                    let number = u16::from_le_bytes(take(&mut rest)?);
                    *place = *characters.get(usize::from(number))?;
                }
                let [cost] = take(&mut rest)?;
                bits.insert(gram, cost);
            }
        }
        Some(Self { bits })
    }

    /// Returns the bits of the last of three characters after the others.
    pub(super) fn bits(&self, [first, second, last]: [char; 3]) -> f64 {
        let shorter = [
            [first, second, last],
            [ABSENT, second, last],
            [ABSENT, ABSENT, last],
        ];
        let mut price = 0.0;
        for gram in shorter {
            if let Some(bits) = self.bits.get(&gram) {
                return price + f64::from(*bits) / STEPS;
            }
            price += BACKOFF;
        }
        UNKNOWN
    }
}

fn take<const N: usize>(rest: &mut &[u8]) -> Option<[u8; N]> {
    let (first, others) = rest.split_first_chunk::<N>()?;
    *rest = others;
    Some(*first)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_shipped_model_is_whole_and_knows_what_follows_what() {
        let model = Ngrams::read(FILE).unwrap();
        assert!(model.bits.len() > 10_000);
        assert!(model.bits(['t', 'h', 'e']) < model.bits(['t', 'h', 'q']));
        assert!(model.bits([' ', '中', '国']) < model.bits([' ', '中', '猫']));
        assert!(model.bits(['བ', 'ས', 'ྒ']) < model.bits(['བ', 'ས', 'ཿ']));
    }

    #[test]
    fn a_file_that_ends_early_is_no_model() {
        let half = FILE.get(..FILE.len() / 2).unwrap();
        assert!(Ngrams::read(half).is_none());
    }
}
