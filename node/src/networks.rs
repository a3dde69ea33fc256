//! Opening of the device and the models that a command names.

mod folders;

use std::collections::BTreeSet;
use std::num::NonZeroUsize;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use anyhow::{Context, Result, bail};
use parkhang_actors::stage::{
    Embeddings, LayoutReader, LineSegmenter, ModelKind, ModelSet, PrintReader, Recogniser, StageTable,
    Tokenizer,
};
use parkhang_core::domain::{NamedModels, StageName};
use parkhang_embeddings::SentencePiece;
use parkhang_models::device::{ComputeDevice, DeviceKind, DeviceSpec, Precision};
use parkhang_models::inference::Classes;
use parkhang_models::weights::{Bundle, Model, load_recognizer, load_segmenter, shipped};
use parkhang_store::artifact::{Digest, ModelRef};

pub use folders::{
    EMBEDDINGS, PRINT, embeddings_folder, folder_beside_program, layout_folder, print_folder, tokenizer_file,
};
use folders::{LAYOUT, TOKENIZER};

/// Number of threads that this machine runs in parallel.
pub fn cores() -> NonZeroUsize {
    // The call knows limits of cgroups, unlike the number of processors; where it fails, one thread always
    // works.
    std::thread::available_parallelism().unwrap_or(NonZeroUsize::MIN)
}

/// Entry of a list of models for an automatic choice among recognisers.
const AUTOMATIC: &str = "auto";

/// Entry of a list of models.
enum Named<'a> {
    Bundle(&'a Path),
    /// The shipped recogniser and those in the folder; each volume is read by the one with the highest confidence.
    Automatic(Option<&'a Path>),
}

impl<'a> Named<'a> {
    fn of(path: &'a Path) -> Self {
        match path.to_str() {
            Some(AUTOMATIC) => Self::Automatic(None),
            Some(text) => match text
                .strip_prefix(AUTOMATIC)
                .and_then(|rest| rest.strip_prefix(':'))
            {
                Some(folder) => Self::Automatic(Some(Path::new(folder))),
                None => Self::Bundle(path),
            },
            None => Self::Bundle(path),
        }
    }
}

/// Models that a process needs, and where they are.
#[derive(Debug, Clone, Default)]
pub struct ModelChoice {
    /// Kinds of models to load, and no others: each takes memory, and its folder has to be there.
    pub kinds: BTreeSet<ModelKind>,
    /// Folders of bundles that take the place of shipped models.
    pub bundles: Vec<PathBuf>,
    /// Folder of the models that are not part of the program; `None` is the usual one.
    pub folder: Option<PathBuf>,
}

impl ModelChoice {
    /// The usual models of the kinds that these stages need.
    pub fn of_stages(stages: &[StageName]) -> Self {
        let table = StageTable::built_in();
        let kinds = stages
            .iter()
            .flat_map(|stage| table.models_of(stage).kinds().to_vec());
        Self {
            kinds: kinds.collect(),
            ..Self::default()
        }
    }
}

/// Loads the shipped models, or those of the named bundles instead; `model.json` says what each is for. `auto` stands for the
/// shipped recogniser, and `auto:FOLDER` for it and those in the folder.
///
/// # Errors
///
/// If the device cannot be used, a model cannot be read, or two are of the same kind.
pub fn load(choice: &ModelChoice, device: &str, threads: NonZeroUsize) -> Result<ModelSet> {
    let device_name = device.to_owned();
    // The device first: a machine without it should say so before any model is read.
    let device = ComputeDevice::open(&parse_device(device, threads)?).context("cannot use the device")?;
    let (mut segmenter, mut recognisers) = (None, None);
    for directory in &choice.bundles {
        let second = || {
            format!(
                "{} is the second model of its kind: give one --model of each",
                directory.display()
            )
        };
        let taken = match Named::of(directory) {
            Named::Automatic(folder) => recognisers.replace(candidates(folder)?).is_some(),
            Named::Bundle(directory) => {
                let bundle = open(directory)?;
                match bundle.description().model {
                    Model::Segmentation(_) => segmenter.replace(bundle).is_some(),
                    Model::Recognition(_) => recognisers.replace(vec![bundle]).is_some(),
                    Model::Print(_) | Model::Embedding(_) => bail!(
                        "{} is a model of another kind than the pipeline `ocr` uses",
                        directory.display()
                    ),
                }
            }
        };
        // A second one would silently replace the first.
        if taken {
            bail!(second());
        }
    }
    let wants = |kind| choice.kinds.contains(&kind);
    let mut models = ModelSet {
        segmenter: None,
        recognisers: Vec::new(),
        print: None,
        layout: None,
        tokenizer: None,
        embeddings: None,
        engines: Vec::new(),
        device: device_name,
    };
    if wants(ModelKind::Segmenter) {
        let bundle = segmenter.map_or_else(shipped::line_segmenter, Ok)?;
        let description = bundle.segmentation()?;
        models.segmenter = Some(LineSegmenter {
            network: load_segmenter(&bundle, &device)?,
            threshold: description.threshold,
            layout_threshold: description.layout_threshold,
            model: reference(&bundle)?,
        });
    }
    if wants(ModelKind::Recogniser) {
        let bundles = recognisers.map_or_else(|| candidates(None), Ok)?;
        let recognisers = bundles.iter().map(|bundle| load_recogniser(bundle, &device));
        models.recognisers = recognisers.collect::<Result<_>>()?;
    }
    if wants(ModelKind::Print) {
        let networks = parkhang_words::load(&print_folder(choice.folder.as_deref())?, &device)?;
        let digest: Digest = format!("sha256:{}", networks.sha256).parse()?;
        let name = PRINT.to_owned();
        models.print = Some(PrintReader {
            networks,
            model: ModelRef { name, digest },
        });
    }
    if wants(ModelKind::Layout) {
        let networks = parkhang_words::load_layout(&layout_folder(choice.folder.as_deref())?, &device)?;
        let digest: Digest = format!("sha256:{}", networks.sha256).parse()?;
        let name = LAYOUT.to_owned();
        models.layout = Some(LayoutReader {
            networks,
            model: ModelRef { name, digest },
        });
    }
    if wants(ModelKind::Tokenizer) {
        models.tokenizer = Some(tokenizer(choice.folder.as_deref())?);
    }
    if wants(ModelKind::Embeddings) {
        let folder = embeddings_folder(choice.folder.as_deref())?;
        let networks = parkhang_embeddings::load(&folder, &device)?;
        let digest: Digest = format!("sha256:{}", networks.sha256).parse()?;
        let name = EMBEDDINGS.to_owned();
        models.embeddings = Some(Embeddings {
            networks,
            model: ModelRef { name, digest },
        });
    }
    Ok(models)
}

fn tokenizer(folder: Option<&Path>) -> Result<Tokenizer> {
    let file = tokenizer_file(folder)?;
    let bytes = std::fs::read(&file).with_context(|| format!("cannot read {}", file.display()))?;
    let pieces = SentencePiece::new(&bytes).with_context(|| file.display().to_string())?;
    Ok(Tokenizer {
        pieces: Arc::new(pieces),
        model: ModelRef {
            name: TOKENIZER.to_owned(),
            digest: Digest::of(&bytes),
        },
    })
}

/// Returns the shipped recogniser, and those in the subfolders of `folder` in the order of their names. One that occurs twice is
/// taken once.
fn candidates(folder: Option<&Path>) -> Result<Vec<Bundle>> {
    let mut bundles = vec![shipped::recogniser()?];
    let Some(folder) = folder else { return Ok(bundles) };
    let entries = std::fs::read_dir(folder).with_context(|| format!("cannot list {}", folder.display()))?;
    let mut directories = entries
        .map(|entry| Ok(entry?.path()))
        .collect::<std::io::Result<Vec<PathBuf>>>()
        .with_context(|| format!("cannot list {}", folder.display()))?;
    // In the order of names, so that the choice among equal recognisers is the same on every node.
    directories.sort();
    for directory in directories.iter().filter(|path| Bundle::may_be_recogniser(path)) {
        let bundle = open(directory)?;
        // A copy of the shipped recogniser in the folder would only cost memory and time.
        let known = bundles.iter().any(|known| known.sha256() == bundle.sha256());
        if matches!(bundle.description().model, Model::Recognition(_)) && !known {
            bundles.push(bundle);
        }
    }
    Ok(bundles)
}

fn load_recogniser(bundle: &Bundle, device: &ComputeDevice) -> Result<Recogniser> {
    let description = bundle.recognition()?;
    let head = description
        .preferred_head()
        .with_context(|| format!("model {} has no output", bundle.name()))?;
    let charset = bundle.charset(head)?;
    Ok(Recogniser {
        network: load_recognizer(bundle, device, head)?,
        charset: Arc::new(charset),
        language: bundle.language_model(head)?.map(Arc::new),
        preprocessing: description.preprocessing,
        head: head.to_owned(),
        model: reference(bundle)?,
    })
}

/// Checks that all models that a job names are among these.
///
/// # Errors
///
/// With the first that is not.
pub fn are_loaded(named: &NamedModels, models: &ModelSet) -> Result<()> {
    let loaded: Vec<&str> = models.references().map(|model| model.name.as_str()).collect();
    match named.iter().find(|named| !loaded.contains(&named.model.as_str())) {
        Some(named) => bail!(
            "job.models: {named} is not loaded; loaded are {}; --model FOLDER loads another, --engine NAME a service",
            loaded.join(", ")
        ),
        None => Ok(()),
    }
}

/// Returns whether the segmentation model among these, or else the shipped one, has the classes of a layout.
///
/// # Errors
///
/// If a model cannot be read.
pub fn knows_layout(directories: &[PathBuf]) -> Result<bool> {
    let mut classes = shipped::line_segmenter()?.segmentation()?.classes;
    for directory in directories {
        match Named::of(directory) {
            // Read only to find out whether they can be read; recognisers know no layout.
            Named::Automatic(folder) => drop(candidates(folder)?),
            Named::Bundle(directory) => {
                if let Model::Segmentation(model) = &open(directory)?.description().model {
                    classes = model.classes;
                }
            }
        }
    }
    Ok(classes == Classes::Layout)
}

/// Message for a job that needs the classes of a layout if the model has none.
pub const NO_LAYOUT: &str = "line_mode=layout needs a segmentation model with the classes of a layout, and the one in use has lines only";

fn open(directory: &Path) -> Result<Bundle> {
    Ok(Bundle::open(directory)?)
}

fn reference(bundle: &Bundle) -> Result<ModelRef> {
    let digest: Digest = format!("sha256:{}", bundle.sha256()).parse()?;
    Ok(ModelRef {
        name: bundle.name().to_owned(),
        digest,
    })
}

/// Suffix of `wgpu` that allows a software renderer.
const SOFTWARE: &str = "-software";

/// Suffix of `cpu` for full precision.
const FULL: &str = "-f32";

/// Returns the default precision of devices of a kind.
pub fn default_precision(kind: DeviceKind) -> Precision {
    match kind {
        DeviceKind::Cpu => Precision::Int8,
        DeviceKind::Wgpu | DeviceKind::Cuda => Precision::Full,
    }
}

/// Parses the name of a device: `cpu`, `cpu-f32`, `wgpu:0`, `cuda:1`, `wgpu-software`.
///
/// # Errors
///
/// If the text is not such a name.
pub fn parse_device(text: &str, threads: NonZeroUsize) -> Result<DeviceSpec> {
    // A name without a number means the first device, as most machines have one.
    let (name, index) = text.split_once(':').unwrap_or((text, "0"));
    let before = |suffix, of: DeviceKind| name.strip_suffix(suffix).filter(|kind| *kind == of.to_string());
    let imitated = before(SOFTWARE, DeviceKind::Wgpu);
    let in_full = before(FULL, DeviceKind::Cpu);
    let kind: DeviceKind = imitated.or(in_full).unwrap_or(name).parse()?;
    let index = index
        .parse()
        .with_context(|| format!("{text:?}: the part after the colon must be a device number"))?;
    Ok(DeviceSpec {
        kind,
        index,
        threads,
        software_renderer: imitated.is_some(),
        precision: in_full.map_or_else(|| default_precision(kind), |_| Precision::Full),
    })
}

/// Returns the name of a device for [`parse_device`].
pub fn device_name(spec: &DeviceSpec) -> String {
    let software = if spec.software_renderer { SOFTWARE } else { "" };
    match spec.kind {
        DeviceKind::Cpu => {
            let full = if spec.precision == Precision::Full {
                FULL
            } else {
                ""
            };
            format!("{}{full}", DeviceKind::Cpu)
        }
        kind => format!("{kind}{software}:{}", spec.index),
    }
}

#[cfg(test)]
mod tests {
    use parkhang_models::recognition::charset::Encoding;
    use parkhang_models::recognition::line_image::Preprocessing;

    use super::*;

    fn shipped_folder(name: &str) -> PathBuf {
        Path::new(env!("CARGO_MANIFEST_DIR"))
            .join("../models/weights")
            .join(name)
    }

    /// The models of Tibetan among these bundles.
    fn choice(bundles: impl IntoIterator<Item = PathBuf>) -> ModelChoice {
        ModelChoice {
            kinds: BTreeSet::from([ModelKind::Segmenter, ModelKind::Recogniser]),
            bundles: bundles.into_iter().collect(),
            folder: None,
        }
    }

    fn names(models: &[&str]) -> Result<Vec<String>> {
        let models = models.iter().map(PathBuf::from);
        let loaded = load(&choice(models), "cpu", NonZeroUsize::MIN)?;
        Ok(loaded
            .recognisers
            .into_iter()
            .map(|recogniser| recogniser.model.name)
            .collect())
    }

    #[test]
    fn a_choice_is_among_the_shipped_recogniser_and_those_of_a_folder() {
        let folder = tempfile::tempdir().unwrap();
        let copy = |name: &str, bundle: &str, rename: Option<(&str, &str)>| {
            let to = folder.path().join(name);
            std::fs::create_dir(&to).unwrap();
            for entry in std::fs::read_dir(shipped_folder(bundle)).unwrap() {
                let entry = entry.unwrap();
                std::fs::copy(entry.path(), to.join(entry.file_name())).unwrap();
            }
            if let Some((from, new)) = rename {
                let json = std::fs::read_to_string(to.join(Bundle::DESCRIPTION)).unwrap();
                std::fs::write(to.join(Bundle::DESCRIPTION), json.replace(from, new)).unwrap();
            }
        };
        let shipped = shipped::recogniser().unwrap().name().to_owned();
        copy("b-same", "recogniser", None);
        copy("c-segmenter", "line-segmenter", None);
        copy("a-other", "recogniser", Some((&shipped, "another-recogniser")));
        copy("bdrc", "../tests/fixtures/bdrc/easter2", None);
        std::fs::create_dir(folder.path().join("no-model")).unwrap();

        assert_eq!(names(&["auto"]).unwrap(), [shipped.as_str()]);
        let automatic = format!("auto:{}", folder.path().display());
        assert_eq!(
            names(&[&automatic]).unwrap(),
            [shipped.as_str(), "another-recogniser", "bdrc"]
        );
        let one = folder.path().join("a-other").display().to_string();
        assert_eq!(names(&[&one]).unwrap(), ["another-recogniser"]);
        let both = names(&["auto", &one]).unwrap_err().to_string();
        assert!(both.contains("second model of its kind"), "{both}");
        let nowhere = format!("{:#}", names(&["auto:/nowhere/at/all"]).unwrap_err());
        assert!(nowhere.contains("/nowhere/at/all"), "{nowhere}");
    }

    #[test]
    fn only_the_models_that_are_needed_are_loaded() {
        let load = |kinds: &[ModelKind], folder: Option<PathBuf>| {
            let choice = ModelChoice {
                kinds: kinds.iter().copied().collect(),
                bundles: Vec::new(),
                folder,
            };
            load(&choice, "cpu", NonZeroUsize::MIN)
        };
        let nowhere = || Some(PathBuf::from("/nowhere/at/all"));
        let none = load(&[], nowhere()).unwrap();
        assert_eq!(none.references().count(), 0);
        let lines = load(&[ModelKind::Segmenter], nowhere()).unwrap();
        assert!(lines.segmenter.is_some() && lines.recognisers.is_empty() && lines.print.is_none());
        let refused = load(&[ModelKind::Print], nowhere()).unwrap_err().to_string();
        assert!(refused.contains("/nowhere/at/all"), "{refused}");
        let print = load(&[ModelKind::Print], None).unwrap();
        assert!(print.segmenter.is_none() && print.print.is_some());
    }

    #[test]
    fn devices_are_told_by_name_and_number() {
        for (text, reported) in [
            ("cpu", "cpu"),
            ("cpu-f32", "cpu-f32"),
            ("wgpu", "wgpu:0"),
            ("cuda:1", "cuda:1"),
            ("wgpu-software", "wgpu-software:0"),
            ("wgpu-software:0", "wgpu-software:0"),
        ] {
            let spec = parse_device(text, NonZeroUsize::MIN).unwrap();
            assert_eq!(device_name(&spec), reported);
            assert_eq!(spec.software_renderer, reported.contains("software"));
            assert_eq!(spec.precision == Precision::Int8, reported == "cpu");
        }
        for text in [
            "",
            "wgpu:",
            "wgpu:one",
            "wgpu:-1",
            "cuda-software",
            "cpu-software",
            "wgpu-f32",
            "-software",
        ] {
            assert!(parse_device(text, NonZeroUsize::MIN).is_err(), "{text}");
        }
    }

    #[test]
    fn folders_of_bdrc_take_the_place_of_the_shipped_models() {
        let fixtures = Path::new(env!("CARGO_MANIFEST_DIR")).join("../models/tests/fixtures/bdrc");
        let folders = ["easter2", "deeplab"].map(|name| fixtures.join(name));
        let models = load(&choice(folders), "cpu", NonZeroUsize::MIN).unwrap();
        let segmenter = models.segmenter().unwrap();
        assert_eq!(segmenter.network.tile_size(), 640);
        assert_eq!(segmenter.model.name, "deeplab");
        let recogniser = &models.recognisers[0];
        assert_eq!(recogniser.model.name, "easter2");
        assert_eq!(
            (recogniser.head.as_str(), recogniser.charset.classes()),
            ("wylie", 13)
        );
        assert_eq!(recogniser.charset.encoding(), Encoding::Wylie);
        let expected = Preprocessing::BdrcGen2 {
            width: 256,
            height: 16,
            pre_pad: true,
        };
        assert_eq!(recogniser.preprocessing, expected);
    }
}
