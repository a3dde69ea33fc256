//! CTC prefix beam search, with the pruning rules of `pyctcdecode` (Kensho, 0.5.0); a language model may have its say where a
//! token is written.
//!
//! A hypothesis is a text and the class of its last frame. Hypotheses that agree on both are one: their probabilities
//! add up. Texts are compared by a rolling hash of their bytes, so that two spellings of one text in different labels
//! meet as well. The tokens of a text lie in an arena as a tree that grows towards the root; only survivors enter it.

use std::collections::HashMap;

use serde::{Deserialize, Serialize};

use super::text_hash::{IdentityHash, TextHash};
use super::{DecodedToken, Decoding, LogProbs, kept_classes};
use crate::recognition::charset::{BLANK, Charset};
use crate::recognition::language::{History, LanguageModel};

/// Settings of the beam search. The defaults are those of the published production pipeline.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct BeamSearch {
    /// Hypotheses kept after each frame; at least one is.
    pub width: usize,
    /// A frame proposes its best class and all classes with at least this log-probability.
    pub token_min_log_prob: f32,
    /// Hypotheses that are worse than the best one by more than this (a negative number) are dropped.
    pub beam_prune_log_prob: f32,
    /// Classes that exceed this log-probability in no frame of the line are ignored; `None` keeps all.
    pub vocabulary_prune_log_prob: Option<f32>,
}

impl Default for BeamSearch {
    fn default() -> Self {
        Self {
            width: 64,
            token_min_log_prob: -3.0,
            beam_prune_log_prob: -10.0,
            vocabulary_prune_log_prob: Some(-10.0),
        }
    }
}

/// The most probable text of a line. A space is written only between other tokens, and only once in a row.
pub fn beam_search(
    log_probs: &LogProbs,
    charset: &Charset,
    search: &BeamSearch,
    language: Option<&LanguageModel>,
) -> Decoding {
    n_best(log_probs, charset, search, language, 1)
        .pop()
        .unwrap_or_default()
}

/// The `count` most probable texts of a line, best first; fewer if fewer survive.
pub fn n_best(
    log_probs: &LogProbs,
    charset: &Charset,
    search: &BeamSearch,
    language: Option<&LanguageModel>,
    count: usize,
) -> Vec<Decoding> {
    let vocabulary = Vocabulary::new(log_probs, charset, search.vocabulary_prune_log_prob);
    let mut lattice = Lattice::new(language);
    let mut proposals = Vec::new();
    for (frame, row) in log_probs.iter().enumerate() {
        vocabulary.propose(row, search.token_min_log_prob, &mut proposals);
        lattice.advance(frame, &proposals, search);
    }
    lattice
        .finish(search)
        .into_iter()
        .take(count)
        .map(|(score, tokens)| Decoding::new(tokens, score, log_probs.frames(), charset))
        .collect()
}

/// One class of the line's vocabulary.
#[derive(Debug, Clone, Copy)]
struct Entry {
    class: usize,
    label: TextHash,
    kind: Kind,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    Blank,
    Space,
    Letter,
}

/// The classes that a line is read with.
#[derive(Debug)]
struct Vocabulary(Vec<Entry>);

impl Vocabulary {
    fn new(log_probs: &LogProbs, charset: &Charset, prune: Option<f32>) -> Self {
        let classes = match prune {
            Some(threshold) => kept_classes(log_probs, threshold),
            None => (0..log_probs.classes()).collect(),
        };
        let entry = |class| {
            let label = charset.label(class);
            let kind = match label {
                "" => Kind::Blank,
                " " => Kind::Space,
                _ => Kind::Letter,
            };
            Entry {
                class,
                label: TextHash::of(label),
                kind,
            }
        };
        Self(classes.into_iter().map(entry).collect())
    }

    /// The classes that a frame allows: all that reach `min_log_prob`, and the best one in any case.
    fn propose(&self, row: &[f32], min_log_prob: f32, proposals: &mut Vec<(Entry, f32)>) {
        proposals.clear();
        let mut best = None::<(Entry, f32)>;
        for entry in &self.0 {
            let log_prob = row[entry.class];
            // Strictly: of equal classes the first one counts, as everywhere in the decoders.
            if best.is_none_or(|(_, highest)| log_prob > highest) {
                best = Some((*entry, log_prob));
            }
            if log_prob >= min_log_prob {
                proposals.push((*entry, log_prob));
            }
        }
        if proposals.is_empty() {
            proposals.extend(best);
        }
    }
}

/// Parent of the first token; other parents are one more than an index into the arena.
const ROOT: u32 = 0;

/// A written token and the tokens before it.
#[derive(Debug, Clone, Copy)]
struct Node {
    parent: u32,
    token: DecodedToken,
}

/// A hypothesis. Its last token still grows and is therefore kept outside the arena.
#[derive(Debug, Clone, Copy)]
struct Beam {
    text: TextHash,
    /// Hash of the text without a space at its end.
    trimmed: TextHash,
    /// Class of the last frame.
    last: usize,
    score: f64,
    /// Sum of what the language model added to the score.
    language: f64,
    history: History,
    parent: u32,
    open: Option<DecodedToken>,
}

impl Beam {
    /// Returns whether a space would add nothing: at the start of the text and after another space.
    fn at_word_start(&self) -> bool {
        self.open.is_none() || self.text != self.trimmed
    }
}

/// Effect of a frame on a hypothesis.
#[derive(Debug, Clone, Copy)]
enum Step {
    /// The text stays as it is.
    Stay,
    /// The last token goes on.
    Repeat,
    /// A token is added to the text.
    Write,
}

/// A hypothesis for the next frame, before pruning. Where several paths lead to it, the most probable one says where
/// its tokens lie.
#[derive(Debug, Clone, Copy)]
struct Candidate {
    text: TextHash,
    last: usize,
    score: f64,
    /// Score of the most probable path alone.
    lead: f64,
    /// Index of the beam that this path comes from.
    source: usize,
    step: Step,
    proposal: (Entry, f32),
    /// Score that the language model adds.
    language: f64,
    history: History,
}

/// The hypotheses of a line while its frames are read.
#[derive(Debug)]
struct Lattice<'l> {
    language: Option<&'l LanguageModel>,
    nodes: Vec<Node>,
    beams: Vec<Beam>,
    next: Vec<Beam>,
    candidates: Vec<Candidate>,
    index: HashMap<u64, usize, IdentityHash>,
    /// Node of each beam's last token, once a survivor has asked for it.
    closed: Vec<Option<u32>>,
}

impl<'l> Lattice<'l> {
    fn new(language: Option<&'l LanguageModel>) -> Self {
        let empty = TextHash::of("");
        let start = Beam {
            text: empty,
            trimmed: empty,
            // As after a blank: there is no token that the first class could go on with.
            last: BLANK,
            score: 0.0,
            language: 0.0,
            history: History::EMPTY,
            parent: ROOT,
            open: None,
        };
        Self {
            language,
            nodes: Vec::new(),
            beams: vec![start],
            next: Vec::new(),
            candidates: Vec::new(),
            index: HashMap::default(),
            closed: Vec::new(),
        }
    }

    /// Goes on by one frame: extends every hypothesis by every proposed class, merges, prunes, and makes the survivors the new
    /// hypotheses.
    fn advance(&mut self, frame: usize, proposals: &[(Entry, f32)], search: &BeamSearch) {
        self.candidates.clear();
        self.index.clear();
        // Class by class and not beam by beam: the order of the candidates decides ties, and this is the order of
        // `pyctcdecode`.
        for &proposal in proposals {
            for source in 0..self.beams.len() {
                self.propose(source, proposal);
            }
        }
        // First what is hopeless goes, then what is too many: sorting is for few.
        let best = self
            .candidates
            .iter()
            .map(|candidate| candidate.score)
            .fold(f64::NEG_INFINITY, f64::max);
        // Relative to the best, because scores fall from frame to frame.
        let worst = best + f64::from(search.beam_prune_log_prob);
        self.candidates.retain(|candidate| candidate.score >= worst);
        keep_best(&mut self.candidates, search.width.max(1), |candidate| {
            candidate.score
        });

        self.next.clear();
        self.closed.clear();
        self.closed.resize(self.beams.len(), None);
        // Only now, for survivors, does anything become a token: of a frame's candidates most are dropped again.
        for candidate in &self.candidates {
            let source = &self.beams[candidate.source];
            let mut beam = Beam {
                last: candidate.last,
                score: candidate.score,
                // Kept apart, so that what is reported in the end is the probability of the network alone.
                language: source.language + candidate.language,
                history: candidate.history,
                ..*source
            };
            let (entry, log_prob) = candidate.proposal;
            match (candidate.step, &mut beam.open) {
                // The class goes on; its token, still open, grows in this beam alone.
                (Step::Repeat, Some(token)) => {
                    token.end_frame = frame + 1;
                    token.log_prob = token.log_prob.max(log_prob);
                }
                // A blank, or a space that adds nothing: the text stays, and the open token ends where it ended.
                (Step::Stay | Step::Repeat, _) => {}
                (Step::Write, _) => {
                    // The token before is complete. Several survivors may stem from one beam; they share its node, so that
                    // the arena grows by beams and not by candidates.
                    if let Some(token) = source.open {
                        let node = *self.closed[candidate.source].get_or_insert_with(|| {
                            self.nodes.push(Node {
                                parent: source.parent,
                                token,
                            });
                            // One more than the index: zero is the root.
                            self.nodes.len() as u32
                        });
                        beam.parent = node;
                    }
                    beam.text = candidate.text;
                    // A text that ends in a space is the same reading as one without; `finish` joins them by this hash.
                    beam.trimmed = if entry.kind == Kind::Space {
                        source.text
                    } else {
                        candidate.text
                    };
                    beam.open = Some(DecodedToken {
                        class: entry.class,
                        start_frame: frame,
                        end_frame: frame + 1,
                        log_prob,
                    });
                }
            }
            self.next.push(beam);
        }
        std::mem::swap(&mut self.beams, &mut self.next);
    }

    /// Extends one beam by one class and adds the result to the candidates.
    fn propose(&mut self, source: usize, proposal: (Entry, f32)) {
        let beam = &self.beams[source];
        let (entry, log_prob) = proposal;
        // The rules of CTC: a blank writes nothing, a class that goes on is the same token, anything else is written. A space
        // at the start of a word changes the last frame, not the text.
        let (text, last, step) = match entry.kind {
            Kind::Blank => (beam.text, BLANK, Step::Stay),
            _ if entry.class == beam.last => (beam.text, beam.last, Step::Repeat),
            Kind::Space if beam.at_word_start() => (beam.text, entry.class, Step::Stay),
            Kind::Space | Kind::Letter => (beam.text.followed_by(entry.label), entry.class, Step::Write),
        };
        let (language, history) = match (self.language, step) {
            (Some(model), Step::Write) => model.step(&beam.history, entry.class),
            _ => (0.0, beam.history),
        };
        let score = beam.score + f64::from(log_prob) + language;
        let candidates = &mut self.candidates;
        // Text and class of the last frame are all that later frames can see of a path: paths that agree on both are one
        // hypothesis from here on, whatever tokens they came by.
        let at = *self
            .index
            .entry(text.with_class(last))
            .or_insert(candidates.len());
        match candidates.get_mut(at) {
            None => candidates.push(Candidate {
                text,
                last,
                score,
                lead: score,
                source,
                step,
                proposal,
                language,
                history,
            }),
            Some(known) => {
                known.score = add_log(known.score, score);
                // The sum is over all paths, but the places of the tokens are those of the likeliest one.
                if score > known.lead {
                    *known = Candidate {
                        lead: score,
                        source,
                        step,
                        proposal,
                        language,
                        history,
                        ..*known
                    };
                }
            }
        }
    }

    /// The remaining texts with their scores and tokens. Adds up hypotheses that differ only in their last frame or in a space
    /// at the end; best first. The scores are those without the language model's part.
    fn finish(self, search: &BeamSearch) -> Vec<(f64, Vec<DecodedToken>)> {
        let mut texts: Vec<(f64, f64, usize)> = Vec::new();
        let mut index: HashMap<u64, usize, IdentityHash> = HashMap::default();
        for (source, beam) in self.beams.iter().enumerate() {
            let at = *index.entry(beam.trimmed.with_class(BLANK)).or_insert(texts.len());
            match texts.get_mut(at) {
                None => texts.push((beam.score, beam.score, source)),
                Some((score, lead, leader)) => {
                    *score = add_log(*score, beam.score);
                    if beam.score > *lead {
                        (*lead, *leader) = (beam.score, source);
                    }
                }
            }
        }
        let best = texts.iter().map(|text| text.0).fold(f64::NEG_INFINITY, f64::max);
        texts.retain(|text| text.0 >= best + f64::from(search.beam_prune_log_prob));
        let count = texts.len();
        keep_best(&mut texts, count, |text| text.0);
        texts
            .into_iter()
            .map(|(score, _, source)| {
                let beam = &self.beams[source];
                (score - beam.language, self.tokens(beam))
            })
            .collect()
    }

    /// The tokens of a hypothesis in the order of the line, without a space at its end.
    fn tokens(&self, beam: &Beam) -> Vec<DecodedToken> {
        let mut tokens: Vec<DecodedToken> = Vec::new();
        if beam.text == beam.trimmed {
            tokens.extend(beam.open);
        }
        let mut node = beam.parent;
        while let Some(index) = node.checked_sub(1) {
            let Node { parent, token } = self.nodes[index as usize];
            tokens.push(token);
            node = parent;
        }
        // The arena only knows the way back to the start of the line.
        tokens.reverse();
        tokens
    }
}

/// Sorts by falling score, earlier items first among equals, and cuts the list to `count`.
fn keep_best<T>(items: &mut Vec<T>, count: usize, score: impl Fn(&T) -> f64) {
    // A stable sort, because `pyctcdecode` leaves equals in their order.
    items.sort_by(|a, b| score(b).total_cmp(&score(a)));
    items.truncate(count);
}

/// ln(e^a + e^b) for finite numbers.
fn add_log(a: f64, b: f64) -> f64 {
    let (high, low) = if a > b { (a, b) } else { (b, a) };
    // The exponent is at most zero and cannot overflow; `ln_1p` keeps what is added where it is small.
    high + (low - high).exp().ln_1p()
}
