use std::sync::Mutex;

use proptest::prelude::*;

use super::*;

const HEIGHT: usize = 2;
const STRIDE: usize = 4;
/// The blank, two letters, and one that no frame has, whose score says who read the frame.
const CLASSES: usize = 4;

/// Contents of a frame, as the value of its pixels.
const PAPER: u8 = 0;
const KA: u8 = 1;
const KHA: u8 = 2;
/// Either letter, with the same probability.
const TORN: u8 = 3;

/// A network that sees of a frame what its first pixel shows.
#[derive(Debug)]
struct Reader {
    name: f32,
    /// Widths of the lines of each batch.
    batches: Mutex<Vec<Vec<usize>>>,
}

impl Reader {
    fn named(name: f32) -> Arc<Self> {
        let batches = Mutex::default();
        Arc::new(Self { name, batches })
    }

    /// Number of lines of each batch.
    fn batch_sizes(&self) -> Vec<usize> {
        self.batches.lock().unwrap().iter().map(Vec::len).collect()
    }
}

impl Recognizer for Reader {
    fn logits(&self, lines: &LineBatch) -> Result<Vec<Logits>, InferenceError> {
        self.batches.lock().unwrap().push(lines.line_widths.clone());
        let images = lines.values.chunks_exact(lines.height * lines.width);
        let read = |(image, &width): (&[f32], &usize)| {
            let frames = image[..width].chunks(STRIDE).map(|frame| match frame[0] as u8 {
                PAPER => [9.0, 0.0, 0.0, self.name],
                KA => [0.0, 9.0, 0.0, self.name],
                KHA => [0.0, 0.0, 9.0, self.name],
                _ => [0.0, 9.0, 9.0, self.name],
            });
            Logits {
                frames: width.div_ceil(STRIDE),
                classes: CLASSES,
                values: frames.flatten().collect(),
            }
        };
        Ok(images.zip(&lines.line_widths).map(read).collect())
    }
}

const FIRST: f32 = -20.0;
const SECOND: f32 = -30.0;

/// Lines whose frames show this, the last one by one column only.
fn lines(of: &[Vec<u8>]) -> LineBatch {
    let line_widths: Vec<usize> = of.iter().map(|frames| frames.len() * STRIDE - 3).collect();
    let width = line_widths.iter().copied().max().unwrap();
    let row = |frames: &Vec<u8>| -> Vec<f32> {
        let pixels = frames.iter().flat_map(|&shows| [f32::from(shows); STRIDE]);
        // Behind the line lies nothing that a network may read.
        let own = frames.len() * STRIDE - 3;
        pixels
            .take(own)
            .chain(std::iter::repeat(f32::NAN))
            .take(width)
            .collect()
    };
    LineBatch {
        height: HEIGHT,
        width,
        line_widths,
        values: of.iter().flat_map(|frames| row(frames).repeat(HEIGHT)).collect(),
    }
}

fn readers(second: f32) -> SecondReading<Reader, Reader> {
    SecondReading {
        first: Reader::named(FIRST),
        second: Reader::named(second),
        doubt: 0.2,
        stride: STRIDE,
    }
}

/// Frames in which the second network has its share.
fn read_again(answer: &Logits) -> Vec<usize> {
    (0..answer.frames)
        .filter(|&frame| answer.frame(frame)[CLASSES - 1] == FIRST + SHARE * (SECOND - FIRST))
        .collect()
}

/// A line of clear letters, one every five frames, torn at these.
fn torn_at(frames: usize, torn: &[usize]) -> Vec<u8> {
    let clear = |frame: usize| if frame % 5 == 2 { KA } else { PAPER };
    let shows = |frame: usize| if torn.contains(&frame) { TORN } else { clear(frame) };
    (0..frames).map(shows).collect()
}

#[test]
fn parts_in_doubt_are_read_again_and_others_are_not() {
    let readers = readers(SECOND);
    let lines = lines(&[torn_at(200, &[]), torn_at(200, &[100]), torn_at(150, &[30, 140])]);
    let answers = readers.logits(&lines).unwrap();
    let again: Vec<Vec<usize>> = answers.iter().map(read_again).collect();
    assert!(again[0].is_empty());
    assert_eq!(again[1], (98..103).collect::<Vec<_>>());
    assert_eq!(again[2], (28..33).chain(138..150).collect::<Vec<_>>());
    // The second network takes its time, so it sees no more than what lies around each place.
    let batches = readers.second.batches.lock().unwrap().concat();
    assert_eq!(batches, [21 * STRIDE, 21 * STRIDE, 20 * STRIDE - 3]);
}

#[test]
fn without_doubt_nobody_is_asked_again() {
    let readers = readers(SECOND);
    readers.logits(&lines(&[torn_at(90, &[])])).unwrap();
    assert_eq!(*readers.second.batches.lock().unwrap(), Vec::<Vec<usize>>::new());
}

#[test]
fn parts_of_one_width_are_one_batch() {
    let readers = readers(SECOND);
    // One part as wide as its line, and small ones, which together with it would be as wide.
    let all = vec![TORN; 400];
    let some = torn_at(400, &[50, 100, 150, 200, 250, 300]);
    let answers = readers.logits(&lines(&[all, some])).unwrap();
    assert_eq!(read_again(&answers[0]).len(), 400);
    assert_eq!(readers.second.batch_sizes(), [6, 1]);
}

#[test]
fn a_batch_of_parts_is_no_larger_than_that_of_the_lines() {
    let readers = readers(SECOND);
    // Parts of up to 21 frames, each as one of 24: six of these have as many columns as the line.
    let torn: Vec<usize> = (10..150).step_by(22).collect();
    readers.logits(&lines(&[torn_at(150, &torn)])).unwrap();
    assert_eq!((torn.len(), readers.second.batch_sizes()), (7, vec![6, 1]));
}

#[test]
fn answers_that_do_not_fit_are_errors() {
    #[derive(Debug)]
    struct Answers(Vec<Logits>);
    impl Recognizer for Answers {
        fn logits(&self, _: &LineBatch) -> Result<Vec<Logits>, InferenceError> {
            Ok(self.0.clone())
        }
    }
    let short = Logits {
        frames: 1,
        classes: CLASSES,
        values: vec![0.0; CLASSES],
    };
    for answers in [Vec::new(), vec![short]] {
        let readers = SecondReading {
            first: Reader::named(FIRST),
            second: Arc::new(Answers(answers)),
            doubt: 0.2,
            stride: STRIDE,
        };
        let error = readers.logits(&lines(&[torn_at(90, &[50])])).unwrap_err();
        assert!(matches!(error, InferenceError::Shape { .. }), "{error}");
    }
}

proptest! {
    /// The parts are those of the line, and are put back where they were.
    #[test]
    fn the_same_network_again_changes_nothing(
        shown in prop::collection::vec(prop::collection::vec(PAPER..=TORN, 1..200), 1..5),
        clear in prop::collection::vec(any::<bool>(), 200),
    ) {
        // So that there are stretches without doubt, which random letters are not.
        let shown: Vec<Vec<u8>> = shown
            .iter()
            .map(|line| line.iter().enumerate().map(|(frame, &shows)| if clear[frame / 25] { PAPER } else { shows }).collect())
            .collect();
        let lines = lines(&shown);
        let readers = readers(FIRST);
        prop_assert_eq!(readers.logits(&lines).unwrap(), readers.first.logits(&lines).unwrap());
    }
}
