//! `model_config.json`: a recogniser.

use serde::Deserialize;
use sha2::{Digest, Sha256};

use super::{Imported, RECOGNITION, Source, shape_of};
use crate::checkpoint::{Checkpoint, StateDict, WeightsError};
use crate::networks::crnn;
use crate::networks::fixed_size::Architecture;
use crate::recognition::charset::Encoding;
use crate::recognition::line_image::Preprocessing;
use crate::weights::description::{
    Architecture as ArchitectureDescription, FileReference, Head, Model, RecognitionModel,
};

/// Size of the images that the published models were trained on, where nothing says it.
const DEFAULT_WIDTH: usize = 3200;
const DEFAULT_HEIGHT: usize = 100;
/// Largest side of an image in pixels; larger ones are none of lines, and the network would be at one for minutes.
const MAX_SIDE: u32 = 32 << 10;
/// Name that models of Unicode give their charset.
const STACKS: &str = "stack";

#[derive(Debug, Deserialize)]
struct Config {
    checkpoint: Option<String>,
    #[serde(rename = "onnx-model")]
    graph: Option<String>,
    architecture: Option<String>,
    input_width: Option<usize>,
    input_height: Option<usize>,
    squeeze_channel_dim: Option<Flag>,
    swap_hw: Option<Flag>,
    encoder: Option<String>,
    charset: Symbols,
    add_blank: Option<Flag>,
}

#[derive(Debug, Clone, Copy, Deserialize)]
#[serde(
    untagged,
    expecting = "`squeeze_channel_dim`, `swap_hw` and `add_blank` are `yes` or `no`"
)]
enum Flag {
    Switch(bool),
    Word(YesNo),
}

#[derive(Debug, Clone, Copy, Deserialize)]
enum YesNo {
    #[serde(alias = "Yes", alias = "true", rename = "yes")]
    Yes,
    #[serde(alias = "No", alias = "false", rename = "no")]
    No,
}

impl Flag {
    fn word(self) -> &'static str {
        match self {
            Self::Switch(true) | Self::Word(YesNo::Yes) => "yes",
            Self::Switch(false) | Self::Word(YesNo::No) => "no",
        }
    }
}

fn yes_no(value: bool) -> &'static str {
    if value { "yes" } else { "no" }
}

/// One letter for each class, or a list of stacks.
#[derive(Debug, Deserialize)]
#[serde(
    untagged,
    expecting = "`charset` is a string with a letter for each class, or a list of stacks"
)]
enum Symbols {
    Letters(String),
    List(Vec<String>),
}

impl Symbols {
    fn list(self) -> Vec<String> {
        match self {
            Self::Letters(letters) => letters.chars().map(String::from).collect(),
            Self::List(list) => list,
        }
    }
}

/// Facts about images and classes that follow from the weights.
struct Known {
    classes: usize,
    heights: std::ops::RangeInclusive<usize>,
}

pub(super) fn read(mut source: Source) -> Result<Imported, WeightsError> {
    let config: Config = source.description()?;
    let stated = config
        .architecture
        .as_deref()
        .map(|name| {
            name.parse::<Architecture>()
                .map_err(|_| WeightsError::UnknownArchitecture {
                    file: source.file.clone(),
                    name: name.to_owned(),
                    known: Architecture::NAMES,
                })
        })
        .transpose()?;
    let weights = source.weights(config.graph.as_deref(), config.checkpoint.as_deref())?;
    let checkpoint = Checkpoint::open(&weights)?;
    let recurrent = checkpoint.is_recurrent();
    let architecture = if recurrent {
        Architecture::Crnn
    } else {
        Architecture::Easter2
    };
    if stated.is_none() {
        source.correct("architecture", None::<String>, architecture);
    }
    let architecture = source.settle("architecture", stated, architecture);
    if let Checkpoint::Onnx(graph) = &checkpoint
        && architecture == Architecture::Easter2
        // Networks can agree in all weights and still weigh their channels in different ways; Easter2 takes
        // means of windows.
        && !(graph.uses("AveragePool") && graph.uses("ReduceMean"))
    {
        return Err(WeightsError::Graph {
            file: weights.display().to_string(),
            problem: "weighs its channels in another way than Easter2".to_owned(),
        });
    }
    let tensors = checkpoint.state_dict(&architecture.slots())?;
    let known = known(&weights, &tensors, architecture)?;

    let (width, height) = image_size(&mut source, &config, &checkpoint, architecture, &known)?;
    let has_channel = architecture == Architecture::Crnn;
    let squeezed = checkpoint
        .input_shape()
        .map_or(!has_channel, |shape| shape.len() == 3);
    let swapped = checkpoint
        .input_shape()
        .is_some_and(|shape| is_swapped(shape, &known));
    let flag = |flag: Option<Flag>| flag.map(Flag::word);
    source.settle(
        "squeeze_channel_dim",
        flag(config.squeeze_channel_dim),
        yes_no(squeezed),
    );
    source.settle("swap_hw", flag(config.swap_hw), yes_no(swapped));

    let symbols = symbols(&mut source, config.charset, config.add_blank, known.classes)?;
    let encoding = encoding(&mut source, config.encoder.as_deref(), &symbols);
    let head = match encoding {
        Encoding::Unicode => "stacks",
        Encoding::Wylie => "wylie",
    };
    let charset = serde_json::json!({ head: symbols }).to_string().into_bytes();
    let side = |length: usize, key| {
        u32::try_from(length)
            .ok()
            .filter(|side| (1..=MAX_SIDE).contains(side))
            .ok_or_else(|| source.invalid(key, format!("is {length}; this program takes 1 to {MAX_SIDE}")))
    };
    let model = RecognitionModel {
        architecture: ArchitectureDescription {
            name: architecture.to_string(),
            dimensions: serde_json::Map::new(),
        },
        preprocessing: Preprocessing::BdrcGen2 {
            width: side(width, "input_width")?,
            height: side(height, "input_height")?,
            pre_pad: true,
        },
        charset: FileReference {
            file: RECOGNITION.to_owned(),
            sha256: hex::encode(Sha256::digest(&source.bytes)),
        },
        heads: vec![Head {
            name: head.to_owned(),
            layer: "output".to_owned(),
            encoding,
        }],
        language_model: None,
        second_reading: None,
    };
    source.imported(&weights, &checkpoint, Model::Recognition(model), charset, tensors)
}

fn known(
    file: &std::path::Path,
    tensors: &StateDict,
    architecture: Architecture,
) -> Result<Known, WeightsError> {
    Ok(match architecture {
        Architecture::Easter2 => {
            let [_, height, _] = shape_of(file, tensors, "conv1d_1.weight")?;
            let [classes, _, _] = shape_of(file, tensors, "conv1d_5.weight")?;
            Known {
                classes,
                heights: height..=height,
            }
        }
        Architecture::Crnn => {
            let [_, flat] = shape_of(file, tensors, "linear.weight")?;
            let [channels, _, _, _] = shape_of(file, tensors, "conv_block_6.conv2d.weight")?;
            let [classes, _] = shape_of(file, tensors, "dense.weight")?;
            Known {
                classes,
                heights: crnn::heights(flat / channels.max(1)),
            }
        }
    })
}

/// Returns whether the graph takes its images turned, columns first.
fn is_swapped(shape: &[Option<usize>], known: &Known) -> bool {
    match *shape {
        [.., Some(rows), Some(columns)] => !known.heights.contains(&rows) && known.heights.contains(&columns),
        _ => false,
    }
}

/// Width and height of the images: as the graph declares them, else as the description says, if the weights allow it.
fn image_size(
    source: &mut Source,
    config: &Config,
    checkpoint: &Checkpoint,
    architecture: Architecture,
    known: &Known,
) -> Result<(usize, usize), WeightsError> {
    let (mut declared_width, mut declared_height) = (None, None);
    if let Some(shape) = checkpoint.input_shape() {
        if !(3..=4).contains(&shape.len()) {
            let problem = format!("takes an input of the shape {shape:?}, no images as {architecture} reads");
            return Err(WeightsError::Graph {
                file: source.file.clone(),
                problem,
            });
        }
        let (rows, columns) = (shape[shape.len() - 2], shape[shape.len() - 1]);
        (declared_height, declared_width) = if is_swapped(shape, known) {
            (columns, rows)
        } else {
            (rows, columns)
        };
    }
    let fits = |height: &usize| known.heights.contains(height);
    let height = declared_height
        .filter(fits)
        .or(config.input_height.filter(fits))
        // A CRNN takes sixteen heights alike, of which the published models use this one where they can.
        .or_else(|| fits(&DEFAULT_HEIGHT).then_some(DEFAULT_HEIGHT))
        .unwrap_or(*known.heights.start());
    if config.input_height.is_none() {
        source.correct("input_height", None::<usize>, height);
    }
    source.settle("input_height", config.input_height, height);
    let width = declared_width.or(config.input_width).unwrap_or(DEFAULT_WIDTH);
    if config.input_width.is_none() {
        source.correct("input_width", None::<usize>, width);
    }
    source.settle("input_width", config.input_width, width);
    Ok((width, height))
}

/// The symbols of the classes behind the blank. Where the blank is in the list already, it is taken off.
fn symbols(
    source: &mut Source,
    charset: Symbols,
    add_blank: Option<Flag>,
    classes: usize,
) -> Result<Vec<String>, WeightsError> {
    let mut symbols = charset.list();
    // The numbers decide and not `add_blank`, which is added to descriptions by hand.
    let holds_blank = if symbols.len() + 1 == classes {
        false
    } else if symbols.len() == classes && classes > 0 {
        true
    } else {
        let problem = format!(
            "has {} symbols, the network {classes} classes with the blank",
            symbols.len()
        );
        return Err(source.invalid("charset", problem));
    };
    source.settle("add_blank", add_blank.map(Flag::word), yes_no(!holds_blank));
    if holds_blank {
        symbols.remove(0);
    }
    Ok(symbols)
}

/// The spelling of the symbols, which Tibetan letters betray.
fn encoding(source: &mut Source, stated: Option<&str>, symbols: &[String]) -> Encoding {
    let is_tibetan = |letter: char| ('\u{f00}'..='\u{fff}').contains(&letter);
    let tibetan = symbols
        .iter()
        .filter(|symbol| symbol.chars().any(is_tibetan))
        .count();
    // More than half, as a charset of stacks may hold other signs too.
    let (encoding, name) = if 2 * tibetan > symbols.len() {
        (Encoding::Unicode, STACKS)
    } else {
        (Encoding::Wylie, "wylie")
    };
    match stated {
        Some(stated) if stated.eq_ignore_ascii_case(name) => {}
        Some(stated) if encoding == Encoding::Unicode && !stated.eq_ignore_ascii_case("wylie") => {}
        _ => source.correct("encoder", stated, name),
    }
    encoding
}
