//! Feeds decoders and parsers with damaged inputs: known files, of which a few bytes are changed, moved, left out or repeated by chance.
//!
//! Whatever comes, a target has to return, soon, and without a panic. A test calls [`Fuzz`] with a small corpus; it goes on for
//! `PARKHANG_FUZZ_S` seconds, a tenth of a second if nothing is said, and always makes the same inputs in the same order, so that a build fails by what
//! was changed and not by luck. `PARKHANG_FUZZ_SEED=random`, or a number, makes others; a longer time makes more. The input of a failure is kept as a
//! file, whose path is printed: it belongs into the corpus.

#![allow(
    clippy::panic,
    clippy::print_stderr,
    reason = "test code fails by panicking and tells what it did"
)]

mod mutation;
mod watch;

use std::env;
use std::fs;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use fastrand::Rng;

use self::mutation::damage;
use self::watch::Watch;

/// Seconds for each target.
const SECONDS: &str = "PARKHANG_FUZZ_S";
/// Number that decides about all inputs, or `random`.
const SEED: &str = "PARKHANG_FUZZ_SEED";
const USUAL_TIME: Duration = Duration::from_millis(100);
const USUAL_SEED: u64 = 0x7061_726b_6861_6e67;
/// Longest that one input may take, without optimisation and beside other tests.
const LONGEST: Duration = Duration::from_secs(60);

/// Target with the inputs that others are made of.
#[derive(Debug)]
pub struct Fuzz {
    name: &'static str,
    corpus: Vec<Vec<u8>>,
    longest: Duration,
}

impl Fuzz {
    /// A target of this name, with known inputs.
    ///
    /// # Panics
    ///
    /// Without any.
    pub fn new(name: &'static str, corpus: impl IntoIterator<Item = Vec<u8>>) -> Self {
        let corpus: Vec<Vec<u8>> = corpus.into_iter().collect();
        assert!(!corpus.is_empty(), "{name} has no corpus");
        Self {
            name,
            corpus,
            longest: LONGEST,
        }
    }

    /// The same with the files of these names in a folder.
    ///
    /// # Panics
    ///
    /// If one of them cannot be read.
    pub fn of_files(name: &'static str, folder: &str, files: &[&str]) -> Self {
        let read = |file: &&str| {
            let path = Path::new(folder).join(file);
            fs::read(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
        };
        Self::new(name, files.iter().map(read))
    }

    /// The same with texts.
    pub fn of_texts<T: Into<String>>(name: &'static str, corpus: impl IntoIterator<Item = T>) -> Self {
        Self::new(name, corpus.into_iter().map(|text| text.into().into_bytes()))
    }

    /// Feeds the target with each known input and then with damaged ones until the time is over.
    ///
    /// # Panics
    ///
    /// If the target does, or if it takes too long for an input. One that does not return at all ends the process.
    pub fn feeds(self, target: impl Fn(&[u8])) {
        let mut inputs = Inputs::new(&self.corpus, seed());
        let watch = Watch::start(self.name, self.longest * 2);
        let (begin, time) = (Instant::now(), time());
        let mut executions = 0_u64;
        for known in &self.corpus {
            self.feed(known, &watch, &target);
        }
        while begin.elapsed() < time {
            self.feed(&inputs.next_input(), &watch, &target);
            executions += 1;
        }
        eprintln!(
            "fuzz {}: {} known inputs and {executions} damaged ones in {:.1} s",
            self.name,
            self.corpus.len(),
            begin.elapsed().as_secs_f64()
        );
    }

    /// The same for a target of texts. Bytes that are not UTF-8 are replaced.
    ///
    /// # Panics
    ///
    /// As [`Fuzz::feeds`].
    pub fn feeds_texts(self, target: impl Fn(&str)) {
        self.feeds(|bytes| target(&String::from_utf8_lossy(bytes)));
    }

    fn feed(&self, input: &[u8], watch: &Watch, target: &impl Fn(&[u8])) {
        let begin = Instant::now();
        watch.begins(input);
        let outcome = catch_unwind(AssertUnwindSafe(|| target(input)));
        watch.ends();
        if let Err(panic) = outcome {
            eprintln!(
                "fuzz {}: an input made it panic: {}",
                self.name,
                kept(self.name, input)
            );
            resume_unwind(panic);
        }
        let took = begin.elapsed();
        assert!(
            took <= self.longest,
            "fuzz {}: an input took {took:?}: {}",
            self.name,
            kept(self.name, input)
        );
    }
}

/// Damaged inputs, one after the other.
struct Inputs<'c> {
    corpus: &'c [Vec<u8>],
    random: Rng,
}

impl<'c> Inputs<'c> {
    fn new(corpus: &'c [Vec<u8>], seed: u64) -> Self {
        Self {
            corpus,
            random: Rng::with_seed(seed),
        }
    }

    fn next_input(&mut self) -> Vec<u8> {
        let mut input = self.corpus[self.random.usize(..self.corpus.len())].clone();
        // Few changes get far into a decoder, and many find what checks the first bytes only.
        let changes = 1 << self.random.u32(0..5);
        for _ in 0..self.random.u32(1..=changes) {
            let other = &self.corpus[self.random.usize(..self.corpus.len())];
            damage(&mut input, other, &mut self.random);
        }
        input
    }
}

fn time() -> Duration {
    let seconds = env::var(SECONDS).ok().and_then(|text| text.parse().ok());
    seconds.map_or(USUAL_TIME, Duration::from_secs_f64)
}

fn seed() -> u64 {
    let seed = match env::var(SEED) {
        Ok(text) if text == "random" => Rng::new().u64(..),
        Ok(text) => text
            .parse()
            .unwrap_or_else(|_| panic!("{SEED} is no number: {text}")),
        Err(_) => return USUAL_SEED,
    };
    eprintln!("{SEED}={seed}");
    seed
}

/// Writes an input to a file, and returns its path.
fn kept(name: &str, input: &[u8]) -> String {
    let folder = env::temp_dir().join("parkhang-fuzz");
    let path: PathBuf = folder.join(format!("{name}-{:08x}", sum(input)));
    match fs::create_dir_all(&folder).and_then(|()| fs::write(&path, input)) {
        Ok(()) => path.display().to_string(),
        Err(error) => format!("{} could not be written: {error}", path.display()),
    }
}

/// Sum by which files of inputs are told apart (FNV-1a).
fn sum(bytes: &[u8]) -> u32 {
    let add = |sum: u32, byte: &u8| (sum ^ u32::from(*byte)).wrapping_mul(0x0100_0193);
    bytes.iter().fold(0x811c_9dc5, add)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_same_seed_makes_the_same_inputs_and_another_makes_others() {
        let corpus = vec![b"known input".to_vec(), b"another one".to_vec()];
        let made = |seed| {
            let mut inputs = Inputs::new(&corpus, seed);
            (0..100).map(|_| inputs.next_input()).collect::<Vec<_>>()
        };
        assert_eq!(made(1), made(1));
        assert_ne!(made(1), made(2));
    }

    #[test]
    fn a_fault_that_two_changed_bytes_uncover_is_found() {
        let found = catch_unwind(|| {
            Fuzz {
                name: "two-bytes",
                corpus: vec![b"size=10;".to_vec()],
                longest: LONGEST,
            }
            .feeds(|input| {
                let digits = input
                    .strip_prefix(b"size=")
                    .map(|rest| rest.iter().take_while(|b| b.is_ascii_digit()).count());
                assert!(digits.is_none_or(|digits| digits < 3), "three digits");
            });
        });
        let message = found.unwrap_err();
        assert_eq!(message.downcast_ref::<&str>(), Some(&"three digits"));
    }
}
