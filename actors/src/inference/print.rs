//! The networks that read print as batch models: a request is some pictures of one size, and the answer has a part for each.

use std::fmt;
use std::sync::Arc;

use parkhang_models::inference::InferenceError;
use parkhang_words::PrintModels;
use parkhang_words::inference::{Frame, ImageBatch, OrientationClassifier, TextDetector, WordRecognizer};

use super::{BatchModel, DeviceMemory, DeviceStatus, Inference};

/// Values of pictures in one forward pass: some pages, or the lines of one.
const MAX_VALUES: usize = 3 * 2_000_000;

/// A network that answers each picture of a batch by itself.
pub trait PictureNetwork: Send + Sync + 'static {
    /// Answer to one picture.
    type Answer: Send + 'static;

    /// Height and width of a picture that the network is known to take.
    const PROBE: (usize, usize);

    /// Answers the pictures, one by one and in order.
    ///
    /// # Errors
    ///
    /// [`InferenceError`] of the network.
    fn answers(&self, pictures: &ImageBatch) -> Result<Vec<Self::Answer>, InferenceError>;

    /// True if a working device can give this answer: it consists of finite numbers.
    fn is_sound(answer: &Self::Answer) -> bool;
}

/// The network that tells which way up a page is.
#[derive(Debug, Clone)]
pub(super) struct Orientation(Arc<dyn OrientationClassifier>);

/// The network that finds text.
#[derive(Debug, Clone)]
pub(super) struct Detection(Arc<dyn TextDetector>);

/// The network that reads lines.
#[derive(Debug, Clone)]
pub(super) struct Recognition(Arc<dyn WordRecognizer>);

impl PictureNetwork for Orientation {
    type Answer = [f32; 4];

    const PROBE: (usize, usize) = (224, 224);

    fn answers(&self, pictures: &ImageBatch) -> Result<Vec<[f32; 4]>, InferenceError> {
        self.0.probabilities(pictures)
    }

    fn is_sound(answer: &[f32; 4]) -> bool {
        answer.iter().all(|value| value.is_finite())
    }
}

impl PictureNetwork for Detection {
    type Answer = Vec<f32>;

    const PROBE: (usize, usize) = (64, 64);

    fn answers(&self, pictures: &ImageBatch) -> Result<Vec<Vec<f32>>, InferenceError> {
        let values = self.0.probabilities(pictures)?;
        let of_a_picture = (pictures.height * pictures.width).max(1);
        Ok(values.chunks(of_a_picture).map(<[f32]>::to_vec).collect())
    }

    fn is_sound(answer: &Vec<f32>) -> bool {
        answer.iter().all(|value| value.is_finite())
    }
}

impl PictureNetwork for Recognition {
    type Answer = Vec<Frame>;

    const PROBE: (usize, usize) = (48, 320);

    fn answers(&self, pictures: &ImageBatch) -> Result<Vec<Vec<Frame>>, InferenceError> {
        self.0.frames(pictures)
    }

    fn is_sound(answer: &Vec<Frame>) -> bool {
        answer.iter().all(|frame| frame.probability.is_finite())
    }
}

/// A network of pictures as a batch model.
#[derive(Debug)]
pub struct Pictures<N>(pub N);

impl<N: PictureNetwork> BatchModel for Pictures<N> {
    type Input = ImageBatch;
    type Output = Vec<N::Answer>;

    fn weight(&self, pictures: &ImageBatch) -> usize {
        pictures.values.len()
    }

    fn capacity(&self) -> usize {
        MAX_VALUES
    }

    fn compatible(&self, first: &ImageBatch, other: &ImageBatch) -> bool {
        (first.height, first.width) == (other.height, other.width)
    }

    /// One picture.
    fn smallest(&self, batches: &[ImageBatch]) -> usize {
        batches.first().map_or(0, of_a_picture)
    }

    fn run(&self, batches: &[ImageBatch], limit: usize) -> Result<Vec<Vec<N::Answer>>, InferenceError> {
        let [first, ..] = batches else {
            return Ok(Vec::new());
        };
        let (height, width, size) = (first.height, first.width, of_a_picture(first).max(1));
        let at_once = (limit / size).max(1);
        // By far the most frequent case, and the only one in which no pixel is copied.
        if batches.len() == 1 && first.count <= at_once {
            return Ok(vec![checked(self.0.answers(first)?, first.count)?]);
        }
        let pictures: Vec<&[f32]> = batches
            .iter()
            .flat_map(|batch| batch.values.chunks_exact(size))
            .collect();
        let mut answers = Vec::with_capacity(pictures.len());
        for part in pictures.chunks(at_once) {
            let batch = ImageBatch {
                count: part.len(),
                height,
                width,
                values: part.concat(),
            };
            answers.extend(checked(self.0.answers(&batch)?, part.len())?);
        }
        // Parts do not end where requests do, so the answers are dealt out by the number of pictures of each request.
        let mut answers = answers.into_iter();
        Ok(batches
            .iter()
            .map(|batch| answers.by_ref().take(batch.count).collect())
            .collect())
    }

    /// A blank picture.
    fn probe(&self) -> ImageBatch {
        let (height, width) = N::PROBE;
        ImageBatch {
            count: 1,
            height,
            width,
            values: vec![1.0; ImageBatch::CHANNELS * height * width],
        }
    }

    fn is_sound(&self, answers: &Vec<N::Answer>) -> bool {
        !answers.is_empty() && answers.iter().all(N::is_sound)
    }
}

fn of_a_picture(batch: &ImageBatch) -> usize {
    ImageBatch::CHANNELS * batch.height * batch.width
}

/// The answers, if there is one for each picture.
fn checked<A>(answers: Vec<A>, pictures: usize) -> Result<Vec<A>, InferenceError> {
    if answers.len() == pictures {
        return Ok(answers);
    }
    Err(InferenceError::Shape {
        expected: format!("{pictures} pictures"),
        actual: answers.len(),
    })
}

/// The threads of the three networks that read print.
#[derive(Debug)]
pub struct PrintThreads {
    orientation: Inference<Pictures<Orientation>>,
    detector: Inference<Pictures<Detection>>,
    recognizer: Inference<Pictures<Recognition>>,
}

impl PrintThreads {
    /// Starts the threads. `inbox` bounds the requests that wait for each.
    ///
    /// # Errors
    ///
    /// When the system gives no thread.
    pub fn start(networks: &PrintModels, memory: &DeviceMemory, inbox: usize) -> std::io::Result<Self> {
        Ok(Self {
            orientation: Inference::start(
                "print-orientation",
                Pictures(Orientation(networks.orientation.clone())),
                memory.part("orientation"),
                inbox,
            )?,
            detector: Inference::start(
                "print-detection",
                Pictures(Detection(networks.detector.clone())),
                memory.part("detector"),
                inbox,
            )?,
            recognizer: Inference::start(
                "print-recognition",
                Pictures(Recognition(networks.recognizer.clone())),
                memory.part("recognizer"),
                inbox,
            )?,
        })
    }

    /// The same networks, asked through their threads by callers that may block.
    pub fn networks(&self, networks: &PrintModels) -> PrintModels {
        PrintModels {
            orientation: Arc::new(OnThread(self.orientation.clone())),
            detector: Arc::new(OnThread(self.detector.clone())),
            recognizer: Arc::new(OnThread(self.recognizer.clone())),
            ..networks.clone()
        }
    }

    /// State of the thread that has most to do.
    pub fn status(&self) -> DeviceStatus {
        self.recognizer.status()
    }

    /// Leaves the threads behind and goes on with new ones.
    ///
    /// # Errors
    ///
    /// When the system gives no thread.
    pub fn renew(&self) -> std::io::Result<()> {
        self.orientation.renew()?;
        self.detector.renew()?;
        self.recognizer.renew()
    }

    /// Checks that the networks answer what they are known to answer.
    ///
    /// # Errors
    ///
    /// [`InferenceError`] of the first that does not.
    pub async fn check(&self) -> Result<(), InferenceError> {
        self.orientation.check().await?;
        self.detector.check().await?;
        self.recognizer.check().await
    }
}

/// A network on its thread.
pub(super) struct OnThread<N: PictureNetwork>(pub(super) Inference<Pictures<N>>);

impl<N: PictureNetwork> fmt::Debug for OnThread<N> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(&self.0, f)
    }
}

impl OrientationClassifier for OnThread<Orientation> {
    fn probabilities(&self, pictures: &ImageBatch) -> Result<Vec<[f32; 4]>, InferenceError> {
        self.0.infer_blocking(pictures.clone())
    }
}

impl TextDetector for OnThread<Detection> {
    fn probabilities(&self, pages: &ImageBatch) -> Result<Vec<f32>, InferenceError> {
        Ok(self.0.infer_blocking(pages.clone())?.concat())
    }
}

impl WordRecognizer for OnThread<Recognition> {
    fn frames(&self, lines: &ImageBatch) -> Result<Vec<Vec<Frame>>, InferenceError> {
        self.0.infer_blocking(lines.clone())
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Mutex;

    use super::*;

    /// Answers a picture with its first value, and remembers how many pictures were asked for at once.
    #[derive(Debug, Default)]
    struct FirstValue {
        asked: Mutex<Vec<usize>>,
    }

    impl TextDetector for FirstValue {
        fn probabilities(&self, pages: &ImageBatch) -> Result<Vec<f32>, InferenceError> {
            self.asked.lock().unwrap().push(pages.count);
            let pictures = pages.values.chunks_exact(of_a_picture(pages));
            Ok(pictures
                .flat_map(|picture| vec![picture[0]; pages.height * pages.width])
                .collect())
        }
    }

    fn batch(firsts: &[f32]) -> ImageBatch {
        ImageBatch {
            count: firsts.len(),
            height: 1,
            width: 2,
            values: firsts
                .iter()
                .flat_map(|&first| [first, 0.0, 0.0, 0.0, 0.0, 0.0])
                .collect(),
        }
    }

    #[test]
    fn requests_meet_and_heavy_ones_go_in_parts() {
        let requests = [batch(&[1.0, 2.0, 3.0]), batch(&[4.0])];
        for (limit, asked) in [(1000, vec![4]), (12, vec![2, 2]), (5, vec![1; 4])] {
            let network = Arc::new(FirstValue::default());
            let model = Pictures(Detection(network.clone()));
            assert_eq!(model.smallest(&requests), 6);
            let answers = model.run(&requests, limit).unwrap();
            assert_eq!(
                answers,
                [
                    vec![vec![1.0, 1.0], vec![2.0, 2.0], vec![3.0, 3.0]],
                    vec![vec![4.0, 4.0]]
                ],
                "{limit}"
            );
            assert_eq!(*network.asked.lock().unwrap(), asked, "{limit}");
        }
    }
}
