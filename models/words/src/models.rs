//! The models that read print and those that see the layout of pages, out of the folders of their bundles.

use std::path::Path;
use std::sync::Arc;

use parkhang_kernels::device::ComputeDevice;
use parkhang_kernels::feature_map::HostMap;
use parkhang_models::checkpoint::WeightsError;
use parkhang_models::checkpoint::layers::LayerLoader;
use parkhang_models::weights::Bundle;
use sha2::{Digest, Sha256};

use crate::charset::Charset;
use crate::inference::{LayoutDetector, OrientationClassifier, TableReader, TextDetector, WordRecognizer};
use crate::networks::{
    Architecture, CLASSES, Classifier, Detector, LayoutNetwork, PlacedClassifier, PlacedDetector,
    PlacedLayout, PlacedRecognizer, PlacedTable, Recognizer, TableNetwork,
};

/// Names of the bundles' folders, in the order of the fields of [`PrintModels`].
pub const FOLDERS: [&str; 3] = ["orientation", "detector", "recognizer"];

/// The networks that read print, on one device. Actors may put handles on their own threads in place of the networks.
#[derive(Debug, Clone)]
pub struct PrintModels {
    pub orientation: Arc<dyn OrientationClassifier>,
    pub detector: Arc<dyn TextDetector>,
    pub recognizer: Arc<dyn WordRecognizer>,
    /// Symbols of the recogniser's classes.
    pub charset: Arc<Charset>,
    /// SHA-256 over those of the bundles, hexadecimal: it identifies all files that decide what is read.
    pub sha256: String,
}

/// Names of the bundles' folders, in the order of the fields of [`LayoutModels`].
pub const LAYOUT_FOLDERS: [&str; 2] = ["layout", "table"];

/// The networks that see the layout of pages, on one device. Actors may put handles on their own threads in place of the networks.
#[derive(Debug, Clone)]
pub struct LayoutModels {
    pub layout: Arc<dyn LayoutDetector>,
    pub table: Arc<dyn TableReader>,
    /// SHA-256 over those of the bundles, hexadecimal.
    pub sha256: String,
}

/// Reads the bundles in the folders [`LAYOUT_FOLDERS`] below `directory` and puts their networks on a device.
///
/// # Errors
/// [`WeightsError`] where a file is missing, damaged, or that of another network.
pub fn load_layout(directory: &Path, device: &ComputeDevice) -> Result<LayoutModels, WeightsError> {
    let [layout, table] = LAYOUT_FOLDERS.map(|folder| Bundle::open(&directory.join(folder)));
    let (layout, table) = (layout?, table?);
    layout.print(<LayoutNetwork<HostMap> as Architecture<HostMap>>::NAME)?;
    table.print(<TableNetwork<HostMap> as Architecture<HostMap>>::NAME)?;
    Ok(LayoutModels {
        layout: Arc::new(placed(&layout, device, PlacedLayout::load)?),
        table: Arc::new(placed(&table, device, PlacedTable::load)?),
        sha256: sha256_of(&[&layout, &table]),
    })
}

/// SHA-256 over those of bundles, hexadecimal.
fn sha256_of(bundles: &[&Bundle]) -> String {
    let mut hash = Sha256::new();
    for bundle in bundles {
        hash.update(bundle.sha256());
    }
    hex::encode(hash.finalize())
}

/// Returns whether the folder has the bundles that read print; reads nothing but names.
pub fn is_print_models(directory: &Path) -> bool {
    has_bundles(directory, &FOLDERS)
}

/// Returns whether the folder has the bundles that see layouts; reads nothing but names.
pub fn is_layout_models(directory: &Path) -> bool {
    has_bundles(directory, &LAYOUT_FOLDERS)
}

fn has_bundles(directory: &Path, folders: &[&str]) -> bool {
    let description = |folder: &&str| directory.join(folder).join(Bundle::DESCRIPTION);
    folders.iter().all(|folder| description(folder).is_file())
}

/// Reads the bundles in the folders [`FOLDERS`] below `directory` and puts their networks on a device.
///
/// # Errors
/// [`WeightsError`] where a file is missing, damaged, or that of another network.
pub fn load(directory: &Path, device: &ComputeDevice) -> Result<PrintModels, WeightsError> {
    let [orientation, detector, recognizer] = FOLDERS.map(|folder| Bundle::open(&directory.join(folder)));
    let (orientation, detector, recognizer) = (orientation?, detector?, recognizer?);
    orientation.print(<Classifier<HostMap> as Architecture<HostMap>>::NAME)?;
    detector.print(<Detector<HostMap> as Architecture<HostMap>>::NAME)?;
    recognizer.print(<Recognizer<HostMap> as Architecture<HostMap>>::NAME)?;
    Ok(PrintModels {
        orientation: Arc::new(placed(&orientation, device, PlacedClassifier::load)?),
        detector: Arc::new(placed(&detector, device, PlacedDetector::load)?),
        recognizer: Arc::new(placed(&recognizer, device, PlacedRecognizer::load)?),
        charset: Arc::new(charset(&recognizer)?),
        sha256: sha256_of(&[&orientation, &detector, &recognizer]),
    })
}

fn placed<T>(
    bundle: &Bundle,
    device: &ComputeDevice,
    load: impl FnOnce(&mut dyn crate::layers::LayerSource, &ComputeDevice) -> Result<T, WeightsError>,
) -> Result<T, WeightsError> {
    let mut loader = LayerLoader::new(bundle.tensors()?, device.burn());
    let network = load(&mut loader, device)?;
    // What no layer has taken belongs to another network.
    loader.tensors.finish()?;
    Ok(network)
}

fn charset(bundle: &Bundle) -> Result<Charset, WeightsError> {
    let symbols = bundle.print_symbols()?;
    let charset = Charset::new(symbols);
    if charset.classes() == CLASSES {
        return Ok(charset);
    }
    Err(bundle.invalid(
        "symbols",
        format!("make {} classes, the network has {CLASSES}", charset.classes()),
    ))
}
