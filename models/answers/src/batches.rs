//! Division of pages among requests.

use std::ops::Range;

/// Bounds of one request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct BatchLimits {
    pub images: usize,
    /// Sum of the sizes of the images.
    pub bytes: usize,
}

/// Divides images of these sizes, in their order, among requests. One that is larger than a request by itself has one of its own, which
/// the service will refuse.
pub fn batches(sizes: &[usize], limits: BatchLimits) -> Vec<Range<usize>> {
    let mut batches = Vec::new();
    let (mut start, mut bytes) = (0, 0_usize);
    for (index, size) in sizes.iter().enumerate() {
        let is_full = index - start >= limits.images.max(1) || bytes.saturating_add(*size) > limits.bytes;
        if index > start && is_full {
            batches.push(start..index);
            (start, bytes) = (index, 0);
        }
        bytes = bytes.saturating_add(*size);
    }
    if start < sizes.len() {
        batches.push(start..sizes.len());
    }
    batches
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::golden::fixture;

    /// Rows: 84.
    #[test]
    fn pages_are_divided_as_in_the_archive() {
        for case in fixture("chunk_cases.jsonl") {
            let sizes: Vec<usize> = case["decoded_bytes"]
                .as_array()
                .unwrap()
                .iter()
                .map(|size| usize::try_from(size.as_u64().unwrap()).unwrap())
                .collect();
            // No limit is written as 0 there, or less.
            let bytes = case["max_bytes"].as_u64().filter(|bytes| *bytes > 0);
            let bytes = bytes.map_or(usize::MAX, |bytes| usize::try_from(bytes).unwrap());
            let limits = BatchLimits {
                images: usize::MAX,
                bytes,
            };
            let found: Vec<Vec<usize>> = batches(&sizes, limits)
                .into_iter()
                .map(Iterator::collect)
                .collect();
            assert_eq!(serde_json::json!(found), case["chunks"], "{case}");
        }
    }

    proptest! {
        #[test]
        fn each_image_is_in_one_request_within_its_bounds(
            sizes in prop::collection::vec(0_usize..50, 0..40),
            images in 1_usize..8,
            bytes in 0_usize..100,
        ) {
            let found = batches(&sizes, BatchLimits { images, bytes });
            let all: Vec<usize> = found.iter().cloned().flatten().collect();
            prop_assert_eq!(all, (0..sizes.len()).collect::<Vec<_>>());
            for batch in found {
                let sum: usize = sizes[batch.clone()].iter().sum();
                prop_assert!(batch.len() <= images && (sum <= bytes || batch.len() == 1));
            }
        }
    }
}
