//! The shipped bundles against numbers of other programs that are part of the repository.

use std::num::NonZeroUsize;
use std::path::{Path, PathBuf};
use std::sync::LazyLock;

use parkhang_kernels::device::{ComputeDevice, DeviceSpec};
use parkhang_kernels::feature_map::DeviceMap;
use parkhang_models::weights::Bundle;
use serde::Deserialize;

use crate::inference::Terms;
use crate::models::{EmbeddingModels, load};
use crate::networks::{self, Network, Splade, Universal};
use crate::{dense, sparse};

#[derive(Debug, Deserialize)]
struct DenseCase {
    text: String,
    ids: Vec<u32>,
    vector: Vec<f32>,
}

#[derive(Debug, Deserialize)]
struct SparseCase {
    text: String,
    ids: Vec<u32>,
    indices: Vec<u32>,
    values: Vec<f32>,
}

fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../weights/embeddings")
}

fn processor() -> ComputeDevice {
    ComputeDevice::open(&DeviceSpec::cpu(NonZeroUsize::MIN)).unwrap()
}

static MODELS: LazyLock<EmbeddingModels> = LazyLock::new(|| load(&folder(), &processor()).unwrap());

fn dense_cases() -> Vec<DenseCase> {
    serde_json::from_str(include_str!("../tests/data/dense.json")).unwrap()
}

fn sparse_cases() -> Vec<SparseCase> {
    serde_json::from_str(include_str!("../tests/data/sparse.json")).unwrap()
}

fn assert_dense(actual: &[f32], case: &DenseCase) {
    assert_eq!(actual.len(), 512);
    let product: f32 = actual
        .iter()
        .zip(&case.vector)
        .map(|(one, other)| one * other)
        .sum();
    let length = |vector: &[f32]| vector.iter().map(|value| value * value).sum::<f32>().sqrt();
    let cosine = product / length(actual) / length(&case.vector);
    assert!(cosine > 0.9999, "{cosine} {}", case.text);
    for (actual, expected) in actual.iter().zip(&case.vector) {
        assert!(
            (actual - expected).abs() < 1e-3,
            "{actual} {expected} {}",
            case.text
        );
    }
}

fn assert_sparse(actual: &Terms, case: &SparseCase) {
    let expected: Terms = case
        .indices
        .iter()
        .copied()
        .zip(case.values.iter().copied())
        .collect();
    let weight = |terms: &Terms, term: u32| {
        let found = terms.binary_search_by_key(&term, |(term, _)| *term);
        found.map_or(0.0, |place| terms[place].1)
    };
    for (term, _) in actual.iter().chain(&expected) {
        let (actual, expected) = (weight(actual, *term), weight(&expected, *term));
        assert!((actual - expected).abs() < 5e-3, "{term}: {actual} {expected}");
    }
    assert!(actual.len().abs_diff(expected.len()) <= 2);
}

#[test]
fn dense_vectors_are_those_of_the_published_model() {
    for case in dense_cases() {
        let tokens = MODELS.dense_tokenizer.encode(&case.text);
        let ids: Vec<u32> = tokens.iter().map(|token| token.id).collect();
        if !case.text.is_empty() {
            assert_eq!([&[1], &*ids, &[2]].concat(), case.ids);
        }
        assert_dense(&dense(&[&case.text], &MODELS).unwrap()[0], &case);
    }
}

#[test]
fn sparse_vectors_are_those_of_the_published_model() {
    for case in sparse_cases() {
        let ids = MODELS.sparse_tokenizer.encode(&case.text);
        assert_eq!([&[101], &*ids, &[102]].concat(), case.ids);
        assert_sparse(&sparse(&[&case.text], &MODELS).unwrap()[0], &case);
    }
}

#[test]
fn the_form_for_gpus_gives_the_same() {
    let device = processor();
    let open = |name: &str| Bundle::open(&folder().join(name)).unwrap();
    let universal: Universal<DeviceMap> = networks::load(&open("dense"), &device).unwrap();
    let cases = dense_cases();
    let ids: Vec<Vec<u32>> = cases.iter().map(|case| case.ids.clone()).collect();
    for (actual, case) in universal.forward(&ids, &device).unwrap().iter().zip(&cases) {
        assert_dense(actual, case);
    }
    let splade: Splade<DeviceMap> = networks::load(&open("sparse"), &device).unwrap();
    let case = &sparse_cases()[0];
    let terms = splade.forward(std::slice::from_ref(&case.ids), &device).unwrap();
    assert_sparse(&terms[0], case);
}

#[test]
fn a_vector_does_not_depend_on_its_neighbours() {
    let texts: Vec<String> = (0..40)
        .map(|number| ["word", "寺院", "བོད", "12.4%"][number % 4].repeat(1 + number * 7 % 90))
        .collect();
    let texts: Vec<&str> = texts.iter().map(String::as_str).collect();
    let (together, terms) = (dense(&texts, &MODELS).unwrap(), sparse(&texts, &MODELS).unwrap());
    for ((text, vector), terms) in texts.iter().zip(&together).zip(&terms) {
        assert_eq!(dense(&[text], &MODELS).unwrap()[0], *vector, "{text}");
        assert_eq!(sparse(&[text], &MODELS).unwrap()[0], *terms, "{text}");
    }
}

#[test]
fn a_long_text_has_the_terms_of_its_windows() {
    let case = &sparse_cases()[0];
    let long = format!("{} {}", case.text, "the ".repeat(600));
    let terms = &sparse(&[&long], &MODELS).unwrap()[0];
    assert!(terms.is_sorted_by(|one, other| one.0 < other.0));
    let has = |term: u32| {
        terms
            .iter()
            .any(|(known, weight)| *known == term && *weight > 0.5)
    };
    // "revenue" and "rose".
    assert!([6599, 3123].into_iter().all(has), "{terms:?}");
    assert_eq!(dense(&[&long], &MODELS).unwrap()[0].len(), 512);
}

#[test]
fn chinese_with_numbers_has_their_terms_and_no_english_ones() {
    let terms = &sparse(&["收入增加 12.4%，2023年"], &MODELS).unwrap()[0];
    let words: Vec<u32> = terms
        .iter()
        .map(|(term, _)| *term)
        .filter(|term| *term < 30_522)
        .collect();
    let numbers = MODELS.sparse_tokenizer.encode("12.4%, 2023");
    assert!(
        !words.is_empty() && words.iter().all(|term| numbers.contains(term)),
        "{words:?}"
    );
    // 收入, 入增, 增加, and 年 alone.
    assert_eq!(terms.len() - words.len(), 4);
    let [marks] = &sparse(&["。 — ?"], &MODELS).unwrap()[..] else {
        panic!("one text has one vector");
    };
    assert!(marks.is_empty(), "{marks:?}");
}

#[test]
fn what_a_network_does_not_take_is_refused() {
    for ids in [vec![], vec![128_000], vec![1; (1 << 14) + 1]] {
        assert!(MODELS.dense.vectors(&[ids]).is_err());
    }
    for ids in [vec![], vec![30_522], vec![1; 513]] {
        assert!(MODELS.sparse.vectors(&[ids]).is_err());
    }
}

#[test]
fn bundles_of_other_networks_are_refused() {
    let folder = tempfile::tempdir().unwrap();
    for (ours, theirs) in [("dense", "sparse"), ("sparse", "dense")] {
        let to = folder.path().join(ours);
        std::fs::create_dir(&to).unwrap();
        for entry in std::fs::read_dir(self::folder().join(theirs)).unwrap() {
            let entry = entry.unwrap();
            std::fs::copy(entry.path(), to.join(entry.file_name())).unwrap();
        }
    }
    let error = load(folder.path(), &processor()).unwrap_err().to_string();
    assert!(error.contains("use-multilingual-v3"), "{error}");
}
