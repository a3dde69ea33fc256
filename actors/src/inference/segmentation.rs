use std::borrow::Cow;
use std::sync::Arc;

use parkhang_models::inference::{Classes, InferenceError, Segmenter, TileBatch};

use super::BatchModel;

/// The tiles of one page, and the classes of pixels that the network is asked for.
#[derive(Debug, Clone, PartialEq)]
pub struct PageTiles {
    pub tiles: TileBatch,
    pub classes: Classes,
}

/// A line segmenter as a batch model: one request is the tiles of one page.
#[derive(Debug)]
pub struct PageSegmentation {
    pub network: Arc<dyn Segmenter>,
    /// Limit on tiles in one forward pass.
    pub max_tiles: usize,
}

impl BatchModel for PageSegmentation {
    type Input = PageTiles;
    type Output = Vec<f32>;

    fn weight(&self, page: &PageTiles) -> usize {
        page.tiles.count
    }

    fn capacity(&self) -> usize {
        self.max_tiles
    }

    fn compatible(&self, first: &PageTiles, other: &PageTiles) -> bool {
        (first.tiles.size, first.classes) == (other.tiles.size, other.classes)
    }

    fn smallest(&self, _: &[PageTiles]) -> usize {
        1
    }

    fn run(&self, pages: &[PageTiles], limit: usize) -> Result<Vec<Vec<f32>>, InferenceError> {
        let [first, ..] = pages else {
            return Ok(Vec::new());
        };
        let (size, classes) = (first.tiles.size, first.classes);
        let of_a_tile = classes.planes() * size * size;
        let mut probabilities = Vec::new();
        for part in parts(pages, limit) {
            let answer = self.network.probabilities(&part, classes)?;
            let expected = part.count * of_a_tile;
            if answer.len() != expected {
                return Err(InferenceError::Shape {
                    expected: expected.to_string(),
                    actual: answer.len(),
                });
            }
            // Most batches are one part, whose answer is taken as it is.
            if probabilities.is_empty() {
                probabilities = answer;
            } else {
                probabilities.extend(answer);
            }
        }
        let mut rest = probabilities.as_slice();
        Ok(pages
            .iter()
            .map(|page| {
                let (own, others) = rest.split_at(page.tiles.count * of_a_tile);
                rest = others;
                own.to_vec()
            })
            .collect())
    }

    /// A blank tile.
    fn probe(&self) -> PageTiles {
        let size = self.network.tile_size();
        PageTiles {
            tiles: TileBatch {
                size,
                count: 1,
                values: vec![1.0; size * size],
            },
            classes: Classes::Line,
        }
    }

    fn is_sound(&self, probabilities: &Vec<f32>) -> bool {
        probabilities.iter().all(|value| value.is_finite())
    }
}

/// The tiles of all pages, at most `limit` in a part. A page that fits whole is borrowed, as copying its pixels would cost
/// memory for nothing.
fn parts(pages: &[PageTiles], limit: usize) -> impl Iterator<Item = Cow<'_, TileBatch>> {
    let size = pages.first().map_or(0, |page| page.tiles.size);
    let limit = limit.max(1);
    let whole = match pages {
        [page] if page.tiles.count <= limit => Some(Cow::Borrowed(&page.tiles)),
        _ => None,
    };
    let tiles: Vec<&[f32]> = match whole {
        Some(_) => Vec::new(),
        None => pages
            .iter()
            .flat_map(|page| page.tiles.values.chunks_exact((size * size).max(1)))
            .collect(),
    };
    let parts: Vec<TileBatch> = tiles
        .chunks(limit)
        .map(|tiles| TileBatch {
            size,
            count: tiles.len(),
            values: tiles.concat(),
        })
        .collect();
    whole.into_iter().chain(parts.into_iter().map(Cow::Owned))
}

#[cfg(test)]
mod tests {
    use std::sync::Mutex;

    use super::*;

    /// Answers each pixel with itself, and remembers how many tiles were asked for at once.
    #[derive(Debug, Default)]
    struct Mirror {
        asked: Mutex<Vec<usize>>,
    }

    impl Segmenter for Mirror {
        fn tile_size(&self) -> usize {
            2
        }

        fn line_probabilities(&self, tiles: &TileBatch) -> Result<Vec<f32>, InferenceError> {
            self.asked.lock().unwrap().push(tiles.count);
            Ok(tiles.values.clone())
        }
    }

    fn page(first: f32, count: usize) -> PageTiles {
        PageTiles {
            tiles: TileBatch {
                size: 2,
                count,
                values: (0..4 * count).map(|at| first + at as f32).collect(),
            },
            classes: Classes::Line,
        }
    }

    #[test]
    fn pages_meet_and_heavy_ones_go_in_parts() {
        let pages = [page(0.0, 3), page(100.0, 2)];
        for (limit, asked) in [(16, vec![5]), (2, vec![2, 2, 1]), (0, vec![1; 5])] {
            let network = Arc::new(Mirror::default());
            let model = PageSegmentation {
                network: network.clone(),
                max_tiles: 16,
            };
            let answers = model.run(&pages, limit).unwrap();
            let expected: Vec<Vec<f32>> = pages.iter().map(|page| page.tiles.values.clone()).collect();
            assert_eq!(answers, expected, "{limit}");
            assert_eq!(*network.asked.lock().unwrap(), asked, "{limit}");
        }
    }
}
