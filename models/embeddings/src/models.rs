//! The models of embeddings, out of the folders of their bundles.

use std::path::Path;
use std::sync::Arc;

use parkhang_kernels::device::ComputeDevice;
use parkhang_kernels::feature_map::{DeviceMap, HostMap};
use parkhang_models::checkpoint::WeightsError;
use parkhang_models::weights::Bundle;
use sha2::{Digest, Sha256};

use crate::inference::{DenseEncoder, SparseEncoder};
use crate::networks::{Network, Placed, Splade, Universal};
use crate::sentence_piece::SentencePiece;
use crate::word_piece::WordPiece;

/// Names of the bundles' folders.
pub const FOLDERS: [&str; 2] = ["dense", "sparse"];

/// The networks of embeddings on one device, with what makes tokens for them. Actors may put handles on their own threads in place of the
/// networks.
#[derive(Debug, Clone)]
pub struct EmbeddingModels {
    pub dense: Arc<DenseEncoder>,
    pub dense_tokenizer: Arc<SentencePiece>,
    pub sparse: Arc<SparseEncoder>,
    pub sparse_tokenizer: Arc<WordPiece>,
    /// SHA-256 over those of the bundles, hexadecimal: it identifies all files that decide a vector.
    pub sha256: String,
}

/// Returns whether the folder has the bundles; reads nothing but names.
pub fn is_embedding_models(directory: &Path) -> bool {
    let description = |folder: &&str| directory.join(folder).join(Bundle::DESCRIPTION);
    FOLDERS.iter().all(|folder| description(folder).is_file())
}

/// Reads the bundles in the folders [`FOLDERS`] below `directory` and puts their networks on a device.
///
/// # Errors
/// [`WeightsError`] where a file is missing, damaged, or that of another network.
pub fn load(directory: &Path, device: &ComputeDevice) -> Result<EmbeddingModels, WeightsError> {
    let [dense, sparse] = FOLDERS.map(|folder| Bundle::open(&directory.join(folder)));
    let (dense, sparse) = (dense?, sparse?);
    let dense_network = Placed::<Universal<HostMap>, Universal<DeviceMap>>::load(&dense, device)?;
    let sparse_network = Placed::<Splade<HostMap>, Splade<DeviceMap>>::load(&sparse, device)?;
    let mut hash = Sha256::new();
    hash.update(dense.sha256());
    hash.update(sparse.sha256());
    Ok(EmbeddingModels {
        dense: Arc::new(dense_network),
        dense_tokenizer: Arc::new(sentence_piece(&dense)?),
        sparse: Arc::new(sparse_network),
        sparse_tokenizer: Arc::new(word_piece(&sparse)?),
        sha256: hex::encode(hash.finalize()),
    })
}

/// Reads what makes the tokens that the dense vectors are made of, and no network.
///
/// # Errors
/// As of [`load`].
pub fn load_tokenizer(directory: &Path) -> Result<SentencePiece, WeightsError> {
    let [dense, _] = FOLDERS;
    sentence_piece(&Bundle::open(&directory.join(dense))?)
}

fn sentence_piece(bundle: &Bundle) -> Result<SentencePiece, WeightsError> {
    let model = bundle.embedding(<Universal<HostMap> as Network<HostMap>>::NAME)?;
    SentencePiece::new(bundle.file(&model.tokenizer))
        .map_err(|error| bundle.invalid("tokenizer", error.to_string()))
}

fn word_piece(bundle: &Bundle) -> Result<WordPiece, WeightsError> {
    let model = bundle.embedding(<Splade<HostMap> as Network<HostMap>>::NAME)?;
    let invalid = |problem: String| bundle.invalid("tokenizer", problem);
    let lines =
        std::str::from_utf8(bundle.file(&model.tokenizer)).map_err(|error| invalid(error.to_string()))?;
    WordPiece::new(lines).map_err(|error| invalid(error.to_string()))
}
