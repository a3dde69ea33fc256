//! Which stages this program has, and what each needs.

use std::sync::{Arc, Mutex};

use image::{GrayImage, Luma};
use parkhang_models::inference::{LineBatch, Recognizer, Segmenter};
use parkhang_models::recognition::charset::Charset;
use parkhang_models::recognition::language::LanguageModel;
use parkhang_models::recognition::line_image::{BatchLimits, LineImage, PreparedLine, Preprocessing};
use serde_json::Value;

use super::line_detection::{self, LineDetection};
use super::line_extraction::{self, LineExtraction};
use super::manifests::ManifestFolder;
use super::ocr::{self, Ocr, Reader};
use super::page_stage::PageStage;
use super::paged::PagedStage;
use super::reduce::{self, Reduce};
use super::{StageLogic, names};
use crate::inference::{DeviceMemory, Inference, LineRecognition, PageSegmentation};
use crate::runner::CpuPool;
use parkhang_core::domain::{Hardware, JobConfig, StageName};
use parkhang_core::policy::batch_size::{BatchSizes, NetworkOnDevice};
use parkhang_store::artifact::ModelRef;
use parkhang_store::pages::PageSource;
use parkhang_store::storage::ArtifactStore;

/// Requests that wait for a device at most; further pages wait with their tiles not yet sent.
const DEVICE_INBOX: usize = 4;
/// Tiles in one forward pass: a row of a large page or some small pages.
const MAX_TILES: usize = 16;
/// Pixels of lines in one forward pass.
const MAX_LINE_PIXELS: usize = 64 * 16_384;

/// The networks of a node, loaded once per process.
#[derive(Debug, Clone)]
pub struct ModelSet {
    pub segmenter: Arc<dyn Segmenter>,
    /// Probability above which a pixel belongs to a line.
    pub line_threshold: f32,
    pub segmenter_ref: ModelRef,
    /// At least one. Of several, each volume is read by the one that is surest of its first pages.
    pub recognisers: Vec<Recogniser>,
    /// Where the networks are, as `--device` names it.
    pub device: String,
}

/// A network that reads lines, and what it takes to make text of its answers.
#[derive(Debug, Clone)]
pub struct Recogniser {
    pub network: Arc<dyn Recognizer>,
    pub charset: Arc<Charset>,
    /// Where it has one.
    pub language: Option<Arc<LanguageModel>>,
    pub preprocessing: Preprocessing,
    /// Name of the network's output that `charset` belongs to.
    pub head: String,
    pub model: ModelRef,
}

/// What stages are built from.
#[derive(Debug, Clone)]
pub struct StageServices {
    pub pages: Arc<dyn PageSource>,
    pub artifacts: Arc<dyn ArtifactStore>,
    pub cpu: CpuPool,
    pub models: ModelSet,
    /// Pages in work at once per stage, where the job does not say.
    pub workers: usize,
    /// For the manifests of stage runs, where they are wanted.
    pub manifests: Option<ManifestFolder>,
}

impl StageServices {
    fn paged(&self, stage: impl PageStage) -> Arc<dyn StageLogic> {
        Arc::new(PagedStage {
            stage: Arc::new(stage),
            store: self.artifacts.clone(),
            workers: self.workers,
            manifests: self.manifests.clone(),
        })
    }
}

/// The part of a job's configuration that decides the results of a stage.
type Deciding = fn(&JobConfig) -> Value;

/// The stages of this program in their order.
fn known() -> [(StageName, Hardware, Deciding); 4] {
    [
        (
            names::line_detection(),
            line_detection::HARDWARE,
            line_detection::deciding,
        ),
        (
            names::line_extraction(),
            line_extraction::HARDWARE,
            line_extraction::deciding,
        ),
        (names::ocr(), ocr::HARDWARE, ocr::deciding),
        (names::reduce(), reduce::HARDWARE, |_| Value::Null),
    ]
}

/// What a stage of this program runs on; `None` for a stage that it does not have.
pub fn hardware_of(stage: &StageName) -> Option<Hardware> {
    let found = known().into_iter().find(|(name, ..)| name == stage);
    found.map(|(_, hardware, _)| hardware)
}

/// The first stage of this program whose results no longer stand, nor those of the stages behind it, once a job's configuration is
/// `after` instead of `before`.
pub fn first_stale(before: &JobConfig, after: &JobConfig) -> Option<StageName> {
    let models = |config: &JobConfig, stage: &StageName| -> Vec<String> {
        config.models.of(stage).map(str::to_owned).collect()
    };
    let mut known = known().into_iter();
    let stale = known.find(|(stage, _, deciding)| {
        deciding(before) != deciding(after) || models(before, stage) != models(after, stage)
    });
    stale.map(|(stage, ..)| stage)
}

/// A line of ordinary length as the recogniser gets it: a bar of ink on paper.
fn ordinary_line(preprocessing: Preprocessing) -> LineBatch {
    const SIZE: (u32, u32) = (800, 64);
    let image = GrayImage::from_fn(SIZE.0, SIZE.1, |x, y| {
        let has_ink = (50..750).contains(&x) && (24..40).contains(&y);
        Luma([if has_ink { 0 } else { 255 }])
    });
    let line = LineImage {
        image: &image,
        bilevel: true,
    };
    let lines: Vec<PreparedLine> = preprocessing.prepare(&line).into_iter().collect();
    let batches = preprocessing.batch(&lines, BatchLimits::default());
    let empty = LineBatch {
        height: 0,
        width: 0,
        line_widths: Vec::new(),
        values: Vec::new(),
    };
    batches.into_iter().next().map_or(empty, |(batch, _)| batch)
}

/// The stages that pipelines can name.
#[derive(Debug, Clone)]
pub struct StageRegistry {
    stages: Vec<Arc<dyn StageLogic>>,
}

impl StageRegistry {
    /// Every stage of this program. A new stage is a file beside this one and an entry here.
    pub fn new(services: &StageServices) -> std::io::Result<Self> {
        let StageServices {
            pages,
            artifacts,
            cpu,
            models,
            ..
        } = services;
        let sizes: Arc<Mutex<BatchSizes>> = Arc::default();
        let memory = |model: &ModelRef| DeviceMemory {
            network: NetworkOnDevice {
                model: model.digest.to_string(),
                device: models.device.clone(),
            },
            sizes: sizes.clone(),
        };
        let segmentation = PageSegmentation {
            network: models.segmenter.clone(),
            max_tiles: MAX_TILES,
        };
        let line_detection = LineDetection {
            pages: pages.clone(),
            cpu: cpu.clone(),
            segmentation: Inference::start(
                "line-detection",
                segmentation,
                memory(&models.segmenter_ref),
                DEVICE_INBOX,
            )?,
            tile_size: models.segmenter.tile_size(),
            threshold: models.line_threshold,
            layout: models.segmenter.has_layout(),
            model: models.segmenter_ref.clone(),
        };
        let reader = |recogniser: &Recogniser| -> std::io::Result<Reader> {
            let recognition = LineRecognition {
                network: recogniser.network.clone(),
                max_pixels: MAX_LINE_PIXELS,
                probe: ordinary_line(recogniser.preprocessing),
            };
            let memory = memory(&recogniser.model);
            Ok(Reader {
                recognition: Inference::start("recognition", recognition, memory, DEVICE_INBOX)?,
                recogniser: recogniser.clone(),
            })
        };
        let ocr = Ocr {
            cpu: cpu.clone(),
            readers: models.recognisers.iter().map(reader).collect::<Result<_, _>>()?,
        };
        let line_extraction = LineExtraction { cpu: cpu.clone() };
        Ok(Self::of(vec![
            services.paged(line_detection),
            services.paged(line_extraction),
            services.paged(ocr),
            Arc::new(Reduce {
                store: artifacts.clone(),
            }),
        ]))
    }

    /// A registry of just these stages.
    pub fn of(stages: Vec<Arc<dyn StageLogic>>) -> Self {
        Self { stages }
    }

    pub fn stages(&self) -> &[Arc<dyn StageLogic>] {
        &self.stages
    }

    pub fn get(&self, name: &StageName) -> Option<&Arc<dyn StageLogic>> {
        self.stages.iter().find(|stage| stage.info().name() == *name)
    }
}
