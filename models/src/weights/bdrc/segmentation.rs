//! `config.json`: a segmentation network.

use std::num::NonZeroU16;
use std::path::Path;

use serde::Deserialize;

use super::{Imported, Source, shape_of};
use crate::checkpoint::{Checkpoint, HostTensor, StateDict, WeightsError};
use crate::inference::Classes;
use crate::networks::deeplab::{self, ARCHITECTURE};
use crate::weights::description::{Architecture, Model, SegmentationModel};

/// Side of a tile where nothing says it.
const DEFAULT_TILE: u16 = 512;
/// Largest side of a tile in pixels: the features of one would fill the memory of a machine.
const MAX_TILE: u16 = 4096;
/// Probability from which BDRC's programs in production count a pixel of a line.
const LINE_THRESHOLD: f32 = 0.85;
/// The classes of a layout in the order of [`Classes::Layout`].
const LAYOUT: [&str; 5] = ["background", "image", "line", "margin", "caption"];
const HEAD: &str = "segmentation_head.0";

#[derive(Debug, Deserialize)]
struct Config {
    checkpoint: Option<String>,
    #[serde(rename = "onnx-model")]
    graph: Option<String>,
    architecture: Option<String>,
    patch_size: Option<u16>,
    #[serde(default)]
    classes: Vec<String>,
}

pub(super) fn read(mut source: Source) -> Result<Imported, WeightsError> {
    let config: Config = source.description()?;
    if let Some(name) = &config.architecture
        && !is_deeplab(name)
    {
        return Err(WeightsError::UnknownArchitecture {
            file: source.file.clone(),
            name: name.clone(),
            known: ARCHITECTURE,
        });
    }
    let weights = source.weights(config.graph.as_deref(), config.checkpoint.as_deref())?;
    let checkpoint = Checkpoint::open(&weights)?;
    let mut tensors = checkpoint.state_dict(&deeplab::slots())?;
    let classes = classes(&mut source, &config.classes, &weights, &mut tensors)?;
    let declared = match checkpoint.input_shape() {
        Some(&[_, _, Some(rows), Some(columns)]) if rows == columns => u16::try_from(rows).ok(),
        _ => None,
    };
    let tile_size = declared.or(config.patch_size).unwrap_or(DEFAULT_TILE);
    source.settle("patch_size", config.patch_size, tile_size);
    if tile_size > MAX_TILE || !usize::from(tile_size).is_multiple_of(deeplab::TILE_MULTIPLE) {
        let multiple = deeplab::TILE_MULTIPLE;
        let problem = format!("is {tile_size}, but must be a multiple of {multiple}, at most {MAX_TILE}");
        return Err(source.invalid("patch_size", problem));
    }
    let model = SegmentationModel {
        architecture: Architecture {
            name: ARCHITECTURE.to_owned(),
            dimensions: serde_json::Map::new(),
        },
        tile_size: NonZeroU16::new(tile_size).ok_or_else(|| source.invalid("patch_size", "is 0"))?,
        threshold: match classes {
            Classes::Line => LINE_THRESHOLD,
            Classes::Layout => SegmentationModel::usual_layout_threshold(),
        },
        classes,
        layout_threshold: SegmentationModel::usual_layout_threshold(),
    };
    source.imported(
        &weights,
        &checkpoint,
        Model::Segmentation(model),
        Vec::new(),
        tensors,
    )
}

/// `DeepLabV3+`, `deeplabv3plus` and the like.
fn is_deeplab(name: &str) -> bool {
    let plain: String = name
        .chars()
        .filter(|letter| letter.is_ascii_alphanumeric() || *letter == '+')
        .collect::<String>()
        .to_ascii_lowercase();
    matches!(
        plain.as_str(),
        "deeplab" | "deeplabv3" | "deeplabv3+" | "deeplabv3plus"
    )
}

/// Classes of the network. Those of a layout are put into their usual order.
fn classes(
    source: &mut Source,
    stated: &[String],
    file: &Path,
    tensors: &mut StateDict,
) -> Result<Classes, WeightsError> {
    let [count, _, _, _] = shape_of(file, tensors, &format!("{HEAD}.weight"))?;
    if count == 1 {
        return Ok(Classes::Line);
    }
    if count != LAYOUT.len() {
        let problem = format!(
            "are {count}; this program knows 1 (lines) and {} (a layout)",
            LAYOUT.len()
        );
        return Err(source.invalid("classes", problem));
    }
    let mut places = Vec::with_capacity(LAYOUT.len());
    for class in LAYOUT {
        places.extend(stated.iter().position(|name| name.eq_ignore_ascii_case(class)));
    }
    // A list that names other classes says nothing about the order of these; published networks share one.
    if stated.len() != count || places.len() != count {
        let stated = (!stated.is_empty()).then(|| stated.join(", "));
        source.correct("classes", stated, LAYOUT.join(", "));
        return Ok(Classes::Layout);
    }
    for name in ["weight", "bias"] {
        if let Some(tensor) = tensors.get_mut(&format!("{HEAD}.{name}")) {
            // In the weights once, so that nothing behind the network has to know of another order.
            reorder(tensor, &places);
        }
    }
    Ok(Classes::Layout)
}

/// Puts the parts of a tensor along its first dimension into another order.
fn reorder(tensor: &mut HostTensor, places: &[usize]) {
    let size = tensor.values.len() / places.len();
    tensor.values = places
        .iter()
        .flat_map(|&place| &tensor.values[place * size..(place + 1) * size])
        .copied()
        .collect();
}
