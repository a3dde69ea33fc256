//! Import of the published ONNX files: their layers under the names of our networks, batch norms folded in. The example
//! `import_print` makes the bundles of `models/weights/print` with it.

use std::path::Path;

use parkhang_kernels::device::ComputeDevice;
use parkhang_kernels::feature_map::HostMap;
use parkhang_models::checkpoint::layers::LayerLoader;
use parkhang_models::checkpoint::tensors::WeightTensors;
use parkhang_models::checkpoint::{StateDict, WeightsError, import_onnx};

use crate::layers::{Folding, Recorder};
use crate::networks::{Architecture, Builder, Classifier, Detector, LayoutNetwork, Recognizer, TableNetwork};

/// The networks that read print and see layouts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PrintNetwork {
    Orientation,
    Detector,
    Recognizer,
    Layout,
    Table,
}

impl PrintNetwork {
    /// Name of the architecture in `model.json`.
    pub fn architecture(self) -> &'static str {
        match self {
            Self::Orientation => <Classifier<HostMap> as Architecture<HostMap>>::NAME,
            Self::Detector => <Detector<HostMap> as Architecture<HostMap>>::NAME,
            Self::Recognizer => <Recognizer<HostMap> as Architecture<HostMap>>::NAME,
            Self::Layout => <LayoutNetwork<HostMap> as Architecture<HostMap>>::NAME,
            Self::Table => <TableNetwork<HostMap> as Architecture<HostMap>>::NAME,
        }
    }

    /// The tensors of an ONNX file as a bundle has them. `device` is a processor.
    ///
    /// # Errors
    /// [`WeightsError`] for a file that is not of this network.
    pub fn import(self, file: &Path, device: &ComputeDevice) -> Result<StateDict, WeightsError> {
        match self {
            Self::Orientation => import::<Classifier<HostMap>>(file, device),
            Self::Detector => import::<Detector<HostMap>>(file, device),
            Self::Recognizer => import::<Recognizer<HostMap>>(file, device),
            Self::Layout => import::<LayoutNetwork<HostMap>>(file, device),
            Self::Table => import::<TableNetwork<HostMap>>(file, device),
        }
    }
}

fn import<N: Architecture<HostMap>>(file: &Path, device: &ComputeDevice) -> Result<StateDict, WeightsError> {
    let mut recorder = Recorder::default();
    N::load(&mut Builder {
        source: &mut recorder,
        device,
    })?;
    let tensors = import_onnx(file, &recorder.slots, &recorder.constants, N::OPERATORS)?;
    let label = file.display().to_string();
    let mut folding = Folding {
        source: LayerLoader::new(WeightTensors::imported(&label, tensors), device.burn()),
        tensors: StateDict::new(),
    };
    N::load(&mut Builder {
        source: &mut folding,
        device,
    })?;
    folding.source.tensors.finish()?;
    Ok(folding.tensors)
}
