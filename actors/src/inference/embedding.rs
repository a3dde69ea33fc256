//! The networks that embed texts as batch models: a request is the tokens of some texts, and the answer has a vector for each.

use std::fmt;
use std::sync::Arc;

use parkhang_embeddings::EmbeddingModels;
use parkhang_embeddings::inference::{DenseEncoder, SparseEncoder, Terms, TextEncoder};
use parkhang_models::inference::InferenceError;

use super::{BatchModel, DeviceMemory, DeviceStatus, Inference};

/// Tokens of texts in one forward pass: so many texts that all threads of a processor have some, and a GPU is busy.
const MAX_TOKENS: usize = 1 << 14;

/// Tokens of some texts.
type Texts = Vec<Vec<u32>>;

/// A kind of vector.
trait Vector: Send + 'static {
    /// True if a working device can make it: it consists of finite numbers.
    fn is_sound(&self) -> bool;
}

impl Vector for Vec<f32> {
    fn is_sound(&self) -> bool {
        self.iter().all(|value| value.is_finite())
    }
}

impl Vector for Terms {
    fn is_sound(&self) -> bool {
        self.iter().all(|(_, weight)| weight.is_finite())
    }
}

/// A network that embeds texts as a batch model.
struct Encoder<V>(Arc<dyn TextEncoder<Vector = V>>);

impl<V: Vector> BatchModel for Encoder<V> {
    type Input = Texts;
    type Output = Vec<V>;

    fn weight(&self, texts: &Texts) -> usize {
        texts.iter().map(Vec::len).sum()
    }

    fn capacity(&self) -> usize {
        MAX_TOKENS
    }

    fn compatible(&self, _: &Texts, _: &Texts) -> bool {
        true
    }

    /// The longest text.
    fn smallest(&self, requests: &[Texts]) -> usize {
        requests.iter().flatten().map(Vec::len).max().unwrap_or(0)
    }

    fn run(&self, requests: &[Texts], limit: usize) -> Result<Vec<Vec<V>>, InferenceError> {
        let texts: Vec<Vec<u32>> = requests.iter().flatten().cloned().collect();
        let mut vectors = Vec::with_capacity(texts.len());
        let mut rest = &*texts;
        while !rest.is_empty() {
            let mut tokens = 0;
            let fits = |text: &&Vec<u32>| {
                tokens += text.len();
                tokens <= limit
            };
            let (part, after) = rest.split_at(rest.iter().take_while(fits).count().max(1));
            vectors.extend(self.0.vectors(part)?);
            rest = after;
        }
        if vectors.len() != texts.len() {
            return Err(InferenceError::Shape {
                expected: format!("{} vectors", texts.len()),
                actual: vectors.len(),
            });
        }
        let mut vectors = vectors.into_iter();
        Ok(requests
            .iter()
            .map(|texts| vectors.by_ref().take(texts.len()).collect())
            .collect())
    }

    /// Tokens that every vocabulary has.
    fn probe(&self) -> Texts {
        vec![vec![1, 2]]
    }

    fn is_sound(&self, vectors: &Vec<V>) -> bool {
        !vectors.is_empty() && vectors.iter().all(V::is_sound)
    }
}

/// The threads of the networks that embed texts.
pub struct EmbeddingThreads {
    dense: Inference<Encoder<Vec<f32>>>,
    sparse: Inference<Encoder<Terms>>,
}

impl fmt::Debug for EmbeddingThreads {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("EmbeddingThreads").finish_non_exhaustive()
    }
}

impl EmbeddingThreads {
    /// Starts the threads. `inbox` bounds the requests that wait for each.
    ///
    /// # Errors
    ///
    /// When the system gives no thread.
    pub fn start(networks: &EmbeddingModels, memory: &DeviceMemory, inbox: usize) -> std::io::Result<Self> {
        Ok(Self {
            dense: Inference::start(
                "embedding-dense",
                Encoder(networks.dense.clone()),
                memory.part("dense"),
                inbox,
            )?,
            sparse: Inference::start(
                "embedding-sparse",
                Encoder(networks.sparse.clone()),
                memory.part("sparse"),
                inbox,
            )?,
        })
    }

    /// The same networks, asked through their threads by callers that may block.
    pub fn networks(&self, networks: &EmbeddingModels) -> EmbeddingModels {
        let dense: Arc<DenseEncoder> = Arc::new(OnThread {
            thread: self.dense.clone(),
            longest: networks.dense.longest(),
        });
        let sparse: Arc<SparseEncoder> = Arc::new(OnThread {
            thread: self.sparse.clone(),
            longest: networks.sparse.longest(),
        });
        EmbeddingModels {
            dense,
            sparse,
            ..networks.clone()
        }
    }

    /// State of the thread of the dense network.
    pub fn status(&self) -> DeviceStatus {
        self.dense.status()
    }

    /// Leaves the threads behind and goes on with new ones.
    ///
    /// # Errors
    ///
    /// When the system gives no thread.
    pub fn renew(&self) -> std::io::Result<()> {
        self.dense.renew()?;
        self.sparse.renew()
    }

    /// Checks that the networks answer what they are known to answer.
    ///
    /// # Errors
    ///
    /// [`InferenceError`] of the first that does not.
    pub async fn check(&self) -> Result<(), InferenceError> {
        self.dense.check().await?;
        self.sparse.check().await
    }
}

/// A network on its thread.
struct OnThread<V: Vector> {
    thread: Inference<Encoder<V>>,
    longest: usize,
}

impl<V: Vector> fmt::Debug for OnThread<V> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(&self.thread, f)
    }
}

impl<V: Vector> TextEncoder for OnThread<V> {
    type Vector = V;

    fn vectors(&self, texts: &[Vec<u32>]) -> Result<Vec<V>, InferenceError> {
        self.thread.infer_blocking(texts.to_vec())
    }

    fn longest(&self) -> usize {
        self.longest
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Mutex;

    use super::*;

    /// Answers a text with its first token, and remembers how many texts were asked for at once.
    #[derive(Debug, Default)]
    struct FirstToken(Mutex<Vec<usize>>);

    impl TextEncoder for FirstToken {
        type Vector = Vec<f32>;

        fn vectors(&self, texts: &[Vec<u32>]) -> Result<Vec<Vec<f32>>, InferenceError> {
            self.0.lock().unwrap().push(texts.len());
            Ok(texts.iter().map(|text| vec![text[0] as f32]).collect())
        }

        fn longest(&self) -> usize {
            9
        }
    }

    #[test]
    fn requests_meet_and_heavy_ones_go_in_parts() {
        let requests = [vec![vec![1, 0], vec![2, 0, 0]], vec![], vec![vec![3, 0]]];
        for (limit, asked) in [(100, vec![3]), (5, vec![2, 1]), (1, vec![1; 3])] {
            let network = Arc::new(FirstToken::default());
            let model = Encoder(network.clone());
            assert_eq!(model.smallest(&requests), 3);
            let answers = model.run(&requests, limit).unwrap();
            assert_eq!(answers, [vec![vec![1.0], vec![2.0]], vec![], vec![vec![3.0]]]);
            assert_eq!(*network.0.lock().unwrap(), asked, "{limit}");
        }
    }
}
