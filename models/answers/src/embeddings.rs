//! Requests for embeddings of texts, and their answers, as OpenAI's interface has them.

use serde_json::{Value, json};

/// Largest length of a vector that is read.
const LONGEST: usize = 1 << 14;

/// Answer that has no vectors of the texts.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
pub enum EmbeddingError {
    #[error("the answer has {found} vectors for {texts} texts")]
    Count { texts: usize, found: usize },
    #[error("the answer has no vector of text {0}")]
    Missing(usize),
    #[error("the vector of text {text} has {found} numbers, not {expected}")]
    Dimension {
        text: usize,
        found: usize,
        expected: usize,
    },
    #[error("the vector of text {0} has something else than finite numbers, or no direction")]
    NoNumbers(usize),
}

/// Body of a request for the vectors of texts.
pub fn embeddings_body(model: &str, texts: &[&str]) -> Value {
    json!({ "model": model, "input": texts, "encoding_format": "float" })
}

/// Reads the vectors of so many texts, each at a length of 1, in the order of the texts and not of the answer.
///
/// # Errors
///
/// [`EmbeddingError`] if there is not one of the same dimension for each.
pub fn embeddings(answer: &Value, texts: usize) -> Result<Vec<Vec<f32>>, EmbeddingError> {
    let data = answer["data"].as_array().map_or(&[][..], Vec::as_slice);
    if data.len() != texts {
        let found = data.len();
        return Err(EmbeddingError::Count { texts, found });
    }
    let mut vectors: Vec<Option<Vec<f32>>> = vec![None; texts];
    for (place, entry) in data.iter().enumerate() {
        // Some servers leave the index out and keep the order.
        let index = match &entry["index"] {
            Value::Null => Some(place),
            index => index.as_u64().and_then(|index| usize::try_from(index).ok()),
        };
        let vector = index.and_then(|index| vectors.get_mut(index));
        if let Some(vector) = vector {
            *vector =
                Some(unit(&entry["embedding"]).ok_or(EmbeddingError::NoNumbers(index.unwrap_or(place)))?);
        }
    }
    let mut dimension = None;
    let mut read = Vec::with_capacity(texts);
    for (text, vector) in vectors.into_iter().enumerate() {
        let vector = vector.ok_or(EmbeddingError::Missing(text))?;
        let (found, expected) = (vector.len(), *dimension.get_or_insert(vector.len()));
        if found != expected {
            return Err(EmbeddingError::Dimension {
                text,
                found,
                expected,
            });
        }
        read.push(vector);
    }
    Ok(read)
}

/// A vector at a length of 1; `None` if it has none.
fn unit(vector: &Value) -> Option<Vec<f32>> {
    let numbers = vector.as_array().filter(|numbers| numbers.len() <= LONGEST)?;
    let numbers: Vec<f64> = numbers.iter().map(Value::as_f64).collect::<Option<_>>()?;
    let length = numbers.iter().map(|number| number * number).sum::<f64>().sqrt();
    let has_direction = length.is_finite() && length > f64::from(f32::MIN_POSITIVE);
    has_direction.then(|| numbers.iter().map(|number| (number / length) as f32).collect())
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn answer(entries: Value) -> Value {
        json!({ "object": "list", "data": entries, "model": "m", "usage": { "prompt_tokens": 3, "total_tokens": 3 } })
    }

    /// Rows: 202.
    #[test]
    fn vectors_are_those_of_the_texts_in_their_order() {
        let both = answer(json!([
            { "object": "embedding", "index": 1, "embedding": [0, 2] },
            { "object": "embedding", "index": 0, "embedding": [3.0, 4.0] },
        ]));
        assert_eq!(embeddings(&both, 2), Ok(vec![vec![0.6, 0.8], vec![0.0, 1.0]]));
        let without = answer(json!([{ "embedding": [1] }, { "embedding": [-1] }]));
        assert_eq!(embeddings(&without, 2), Ok(vec![vec![1.0], vec![-1.0]]));
        let body = embeddings_body("m", &["a", "b"]);
        assert_eq!(body["input"], json!(["a", "b"]));
    }

    #[test]
    fn what_is_no_vector_for_each_text_is_refused() {
        let one = json!({ "index": 0, "embedding": [1.0] });
        for (data, expected) in [
            (json!([]), EmbeddingError::Count { texts: 2, found: 0 }),
            (json!([one]), EmbeddingError::Count { texts: 2, found: 1 }),
            (json!([one, one]), EmbeddingError::Missing(1)),
            (
                json!([one, { "index": 7, "embedding": [1.0] }]),
                EmbeddingError::Missing(1),
            ),
            (
                json!([one, { "index": 1, "embedding": [1.0, 2.0] }]),
                EmbeddingError::Dimension {
                    text: 1,
                    found: 2,
                    expected: 1,
                },
            ),
            (
                json!([one, { "index": 1, "embedding": [0.0] }]),
                EmbeddingError::NoNumbers(1),
            ),
            (
                json!([one, { "index": 1, "embedding": [null] }]),
                EmbeddingError::NoNumbers(1),
            ),
            (
                json!([one, { "index": 1, "embedding": "AACAPw==" }]),
                EmbeddingError::NoNumbers(1),
            ),
            (
                json!([one, { "index": 1, "embedding": [1e300, 1e300] }]),
                EmbeddingError::NoNumbers(1),
            ),
            (json!([one, { "index": 1 }]), EmbeddingError::NoNumbers(1)),
        ] {
            assert_eq!(embeddings(&answer(data.clone()), 2), Err(expected), "{data}");
        }
        assert!(embeddings(&json!("no object"), 1).is_err());
    }

    proptest! {
        #[test]
        fn vectors_have_a_length_of_one(numbers in proptest::collection::vec(-1e6_f64..1e6, 1..40)) {
            prop_assume!(numbers.iter().any(|number| number.abs() > 1e-3));
            let read = embeddings(&answer(json!([{ "embedding": numbers }])), 1).unwrap();
            let length: f32 = read[0].iter().map(|number| number * number).sum();
            prop_assert!((length - 1.0).abs() < 1e-4);
        }
    }
}
