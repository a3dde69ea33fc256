//! Common height of the words of a line. The box of a word may end where its ink does, and a viewer that finds another size of font in
//! every word sees no line in them.

/// Height of a line, in those of its usual word, from which on its words are in several rows.
const ROWS: f64 = 3.0;
/// Steepest slope of a line that is askew.
const STEEPEST: f64 = 0.25;
/// Rise of a line from end to end, in parts of its height, below which it is level.
const LEVEL: f64 = 0.25;

/// Box of a word in the frame of its line.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Extent {
    /// First and last edge in the direction of reading.
    pub(crate) along: [f64; 2],
    /// Upper and lower edge as seen by a reader of the line.
    pub(crate) across: [f64; 2],
}

/// Gives the words of a line one height, and edges along one straight line. Words in several rows keep theirs.
pub(crate) fn level(words: &mut [Extent]) {
    let Some(usual) = median(words.iter().map(Extent::height)) else {
        return;
    };
    let tilted = Band::around(words, slope(words));
    let band = if tilted.rise(words) < LEVEL * tilted.height() {
        Band::around(words, 0.0)
    } else {
        tilted
    };
    if band.height() > ROWS * usual || band.slope.abs() > STEEPEST {
        return;
    }
    let Band {
        edges: [top, bottom], ..
    } = Band::around(words, 0.0);
    for word in words {
        // The words are on the page, and the strip may leave it.
        word.across = band.at(word.middle()).map(|edge| edge.clamp(top, bottom));
    }
}

impl Extent {
    fn height(&self) -> f64 {
        self.across[1] - self.across[0]
    }

    fn middle(&self) -> f64 {
        f64::midpoint(self.along[0], self.along[1])
    }
}

/// Strip between two parallel edges.
#[derive(Debug, Clone, Copy)]
struct Band {
    slope: f64,
    /// Edges where the frame begins.
    edges: [f64; 2],
}

impl Band {
    /// The narrowest strip of a slope that holds the words by their middles.
    fn around(words: &[Extent], slope: f64) -> Self {
        let [top, bottom] = [0, 1].map(|edge| {
            words
                .iter()
                .map(move |word| word.across[edge] - slope * word.middle())
        });
        Self {
            slope,
            edges: [
                top.fold(f64::INFINITY, f64::min),
                bottom.fold(f64::NEG_INFINITY, f64::max),
            ],
        }
    }

    fn height(&self) -> f64 {
        self.edges[1] - self.edges[0]
    }

    /// Distance across the line between the first and the last word.
    fn rise(&self, words: &[Extent]) -> f64 {
        let middles = || words.iter().map(Extent::middle);
        let length = middles().fold(f64::NEG_INFINITY, f64::max) - middles().fold(f64::INFINITY, f64::min);
        (self.slope * length).abs()
    }

    fn at(&self, along: f64) -> [f64; 2] {
        self.edges.map(|edge| edge + self.slope * along)
    }
}

/// Slope of the straight line through the centres of words with the least sum of squares.
fn slope(words: &[Extent]) -> f64 {
    let centres = || {
        words
            .iter()
            .map(|word| (word.middle(), f64::midpoint(word.across[0], word.across[1])))
    };
    let count = words.len() as f64;
    let (x, y) = centres().fold((0.0, 0.0), |(x, y), centre| {
        (x + centre.0 / count, y + centre.1 / count)
    });
    let (shared, spread) = centres().fold((0.0, 0.0), |(shared, spread), centre| {
        let along = centre.0 - x;
        (shared + along * (centre.1 - y), spread + along * along)
    });
    if spread > 0.0 { shared / spread } else { 0.0 }
}

fn median(values: impl Iterator<Item = f64>) -> Option<f64> {
    let mut values: Vec<f64> = values.collect();
    values.sort_by(f64::total_cmp);
    values.get(values.len() / 2).copied()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn levelled(words: &[[f64; 4]]) -> Vec<[f64; 2]> {
        let extent = |[from, top, to, bottom]: &[f64; 4]| Extent {
            along: [*from, *to],
            across: [*top, *bottom],
        };
        let mut words: Vec<Extent> = words.iter().map(extent).collect();
        level(&mut words);
        words.into_iter().map(|word| word.across).collect()
    }

    #[test]
    fn syllables_with_and_without_vowels_are_one_line() {
        let words = [
            [0.0, 5.0, 10.0, 15.0],
            [12.0, 0.0, 20.0, 12.0],
            [22.0, 5.0, 30.0, 25.0],
        ];
        assert_eq!(levelled(&words), [[0.0, 25.0]; 3]);
    }

    #[test]
    fn a_skewed_line_stays_skewed() {
        let words: Vec<[f64; 4]> = (0..8)
            .map(f64::from)
            .map(|word| [40.0 * word, 2.0 * word, 40.0 * word + 30.0, 2.0 * word + 10.0])
            .collect();
        for (word, levelled) in words.iter().zip(levelled(&words)) {
            assert!((levelled[0] - word[1]).abs() < 1e-9 && (levelled[1] - word[3]).abs() < 1e-9);
        }
    }

    #[test]
    fn rows_stay_apart() {
        let words = [
            [0.0, 0.0, 40.0, 10.0],
            [0.0, 20.0, 40.0, 30.0],
            [0.0, 40.0, 40.0, 50.0],
        ];
        assert_eq!(levelled(&words), [[0.0, 10.0], [20.0, 30.0], [40.0, 50.0]]);
    }

    proptest! {
        #[test]
        fn words_of_one_height_on_one_line_keep_it(
            places in prop::collection::vec((0.0_f64..500.0, 1.0_f64..50.0), 1..20), top in 0.0_f64..500.0, height in 1.0_f64..40.0,
        ) {
            let words: Vec<[f64; 4]> = places.iter().map(|(from, width)| [*from, top, from + width, top + height]).collect();
            for [levelled_top, bottom] in levelled(&words) {
                prop_assert!((levelled_top - top).abs() < 1e-6 && (bottom - top - height).abs() < 1e-6);
            }
        }
    }
}
