//! Best-path decoding.

use super::{DecodedToken, Decoding, LogProbs};
use crate::recognition::charset::{BLANK, Charset};

/// Takes the best class of every frame, joins equal neighbours and drops blanks.
pub fn greedy(log_probs: &LogProbs, charset: &Charset) -> Decoding {
    let mut tokens: Vec<DecodedToken> = Vec::new();
    let mut log_score = 0.0;
    let mut last = BLANK;
    for frame in 0..log_probs.frames() {
        let (class, log_prob) = log_probs.best(frame);
        // The score of the path, for which blanks count as well.
        log_score += f64::from(log_prob);
        // An empty label writes nothing, yet parts equal classes as the blank does.
        let writes = class != BLANK && !charset.label(class).is_empty();
        if writes {
            match tokens.last_mut() {
                Some(token) if class == last => {
                    token.end_frame = frame + 1;
                    token.log_prob = token.log_prob.max(log_prob);
                }
                _ => tokens.push(DecodedToken {
                    class,
                    start_frame: frame,
                    end_frame: frame + 1,
                    log_prob,
                }),
            }
        }
        last = class;
    }
    Decoding::new(tokens, log_score, log_probs.frames(), charset)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Frames that are sure of one class each.
    fn sure_of(classes: &[usize]) -> LogProbs {
        let values = classes
            .iter()
            .flat_map(|&sure| (0..4).map(move |class| if class == sure { -0.1 } else { -3.0 }))
            .collect();
        LogProbs::new(classes.len(), 4, values).unwrap()
    }

    #[test]
    fn repeats_collapse_and_blanks_part() {
        let charset = Charset::new(["a", "b", ""]).unwrap();
        let decoding = greedy(&sure_of(&[1, 1, 0, 1, 2, 2, 3, 2]), &charset);
        assert_eq!(decoding.text, "aabb");
        let frames: Vec<_> = decoding
            .tokens
            .iter()
            .map(|token| (token.start_frame, token.end_frame))
            .collect();
        assert_eq!(frames, [(0, 2), (3, 4), (4, 6), (7, 8)]);
        assert!((decoding.log_score + 0.8).abs() < 1e-6);
        assert!((decoding.confidence - (-0.2_f32).exp()).abs() < 1e-6);
    }

    #[test]
    fn no_frames_no_text() {
        let charset = Charset::new(["a"]).unwrap();
        let decoding = greedy(&LogProbs::new(0, 2, vec![]).unwrap(), &charset);
        assert_eq!((decoding.text.as_str(), decoding.confidence), ("", 0.0));
    }
}
