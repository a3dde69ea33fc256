//! The stage `line_detection`: turns the scans of a volume into straightened pages with the contours of their lines.

use std::sync::Arc;

use async_trait::async_trait;
use image::{ExtendedColorType, GrayImage, ImageEncoder};
use parkhang_models::algorithms::Algorithms;
use parkhang_models::inference::{Classes, TileBatch};
use parkhang_models::line_detection::{
    DetectionConfig, PageGeometry, PageLines, Pass1, finish, prepare, straighten_onto,
};
use parkhang_models::page::decode::{DecodeLimits, DecodedPage};
use parkhang_models::page::turn::Turn;
use serde_json::{Map, Value, json};
use tracing::warn;

use super::info::StageInfo;
use super::page_stage::{PageStage, PlannedPage, VolumeRun, some_path};
use super::registry::StageServices;
use super::scans::{plan_scans, read_scan, version_of_scans};
use super::table::{ModelKind, SCANS, StageDefinition, StageModels};
use super::{DEVICE_INBOX, image_quality};
use crate::inference::{DeviceStatus, Inference, PageSegmentation, PageTiles};
use crate::jpeg::encode_jpeg;
use crate::runner::{CpuPool, off_the_clock};
use crate::telemetry::at_step;
use parkhang_core::domain::{
    Artifacts, ErrorCategory, Hardware, JobConfig, LineMode, PageStep, StageError, StageName, Unfit,
};
use parkhang_store::artifact::{LineDetectionRow, ModelRef, PageRegion, TableSchema};
use parkhang_store::pages::{PageRef, PageSource, Scan};

pub(super) const STAGE: StageDefinition = StageDefinition {
    name: "line_detection",
    hardware: Hardware::Gpu,
    models: StageModels::All(&[ModelKind::Segmenter]),
    settings,
    reads: &[&[SCANS]],
    writes: &[TableSchema::of::<LineDetectionRow>()],
    build: |services| Ok(services.paged(STAGE, LineDetection::new(services)?)),
};

/// Tiles in one forward pass: a row of a large page or some small pages.
const MAX_TILES: usize = 16;

/// The stage that finds lines on scans.
#[derive(Debug)]
pub(crate) struct LineDetection {
    pub pages: Arc<dyn PageSource>,
    pub cpu: CpuPool,
    pub segmentation: Inference<PageSegmentation>,
    /// Side of a tile, in pixels.
    pub tile_size: usize,
    /// Probability above which a pixel belongs to a line; the model's own.
    pub threshold: f32,
    /// Probability above which it belongs to a region beside the lines; the model's own.
    pub layout_threshold: f32,
    /// True if the model knows the classes of a layout.
    pub layout: bool,
    pub model: ModelRef,
}

/// A page whose lines have been found and which has been straightened, ready to be written.
struct Straightened {
    lines: PageLines,
    /// `None` in a job that keeps no pictures.
    jpeg: Option<Vec<u8>>,
    mask: Vec<u8>,
    /// Width and height of the straightened page, in pixels.
    size: (u32, u32),
}

impl LineDetection {
    pub(super) fn new(services: &StageServices) -> std::io::Result<Self> {
        let segmenter = services.models.segmenter()?;
        let segmentation = PageSegmentation {
            network: segmenter.network.clone(),
            max_tiles: MAX_TILES,
        };
        let memory = services.device_memory(&segmenter.model);
        Ok(Self {
            pages: services.pages.clone(),
            cpu: services.cpu.clone(),
            segmentation: Inference::start("line-detection", segmentation, memory, DEVICE_INBOX)?,
            tile_size: segmenter.network.tile_size(),
            threshold: segmenter.threshold,
            layout_threshold: segmenter.layout_threshold,
            layout: segmenter.network.has_layout(),
            model: segmenter.model.clone(),
        })
    }

    pub(super) fn detection_config(&self, config: &JobConfig) -> DetectionConfig {
        let defaults = match config.generation {
            Algorithms::Gen1 => DetectionConfig::gen1(),
            Algorithms::Gen2 => DetectionConfig {
                threshold: self.threshold,
                ..DetectionConfig::default()
            },
        };
        let defaults = match config.line_mode {
            LineMode::Line => defaults,
            LineMode::Layout => DetectionConfig {
                classes: Classes::Layout,
                threshold: self.threshold,
                layout_threshold: self.layout_threshold,
                ..defaults
            },
        };
        DetectionConfig {
            use_tps: config.use_tps,
            ..defaults
        }
    }

    /// Finds the lines of a scan, which may be light on dark and lie on its side or upside down. With them comes what they were found on: the
    /// scan or its negative.
    async fn find_lines_of_scan(
        &self,
        run: &VolumeRun,
        scan: Arc<DecodedPage>,
    ) -> Result<(PageLines, Arc<DecodedPage>), StageError> {
        let config = self.detection_config(run.config());
        let as_scanned = self.find_lines(run, scan.clone(), &config).await?;
        let (lines, page) = self.or_of_negative(run, as_scanned, scan, &config).await?;
        if !lines.may_be_turned(&config) {
            return Ok((lines, page));
        }
        let config = config.for_turned_page();
        let mut turned = Vec::new();
        for turn in Turn::ALL.into_iter().filter(|turn| *turn != Turn::Upright) {
            let page = page.clone();
            let upright = super::compute(&self.cpu, run, move |_| Ok(Arc::new(page.upright(turn)))).await?;
            turned.push((turn, self.find_lines(run, upright, &config).await?));
        }
        Ok((lines.or_of_turned(turned), page))
    }

    /// These lines of a scan, or those of its negative.
    async fn or_of_negative(
        &self,
        run: &VolumeRun,
        lines: PageLines,
        scan: Arc<DecodedPage>,
        config: &DetectionConfig,
    ) -> Result<(PageLines, Arc<DecodedPage>), StageError> {
        let (page, settings) = (scan.clone(), config.clone());
        let looked_at = super::compute(&self.cpu, run, move |_| {
            let is_dark = lines
                .may_be_negative(&page.gray, &settings)
                .map_err(|error| (ErrorCategory::Runtime, error.to_string()))?;
            Ok((lines, is_dark.then(|| Arc::new(page.negative()))))
        });
        let (lines, negative) = looked_at.await?;
        let Some(negative) = negative else {
            return Ok((lines, scan));
        };
        let found = self.find_lines(run, negative.clone(), config).await?;
        let lines = lines.or_of_negative(found);
        let page = if lines.is_negative { negative } else { scan };
        Ok((lines, page))
    }

    /// Finds the lines of a page that lies as it is to be read.
    pub(super) async fn find_lines(
        &self,
        run: &VolumeRun,
        page: Arc<DecodedPage>,
        config: &DetectionConfig,
    ) -> Result<PageLines, StageError> {
        let tile_size = self.tile_size;
        let mut frame = {
            let config = config.clone();
            super::compute(&self.cpu, run, move |_| {
                Ok(prepare(&page.gray, page.bilevel, tile_size, &config))
            })
            .await?
        };
        loop {
            // The tiles are most of a frame's memory, and nothing needs them once the network has them.
            let tiles = std::mem::replace(
                &mut frame.tiles,
                TileBatch {
                    size: tile_size,
                    count: 0,
                    values: Vec::new(),
                },
            );
            let tiles = PageTiles {
                tiles,
                classes: config.classes,
            };
            let probabilities = run.infer(&self.segmentation, tiles).await?;
            let config = config.clone();
            let pass = super::compute(&self.cpu, run, move |_| {
                finish(frame, &probabilities, &config)
                    .map_err(|error| (ErrorCategory::Runtime, error.to_string()))
            })
            .await?;
            // A page that is skewed or bent too much is straightened first, and the network asked about it again.
            match pass {
                Pass1::Done(lines) => return Ok(lines),
                Pass1::NeedsSecondPass(second) => frame = second,
            }
        }
    }
}

#[async_trait]
impl StageInfo for LineDetection {
    fn name(&self) -> StageName {
        STAGE.name()
    }

    fn hardware(&self) -> Hardware {
        STAGE.hardware
    }

    fn models(&self) -> Vec<ModelRef> {
        vec![self.model.clone()]
    }

    fn device(&self) -> Option<DeviceStatus> {
        Some(self.segmentation.status())
    }

    fn renew(&self) -> std::io::Result<()> {
        self.segmentation.renew()
    }

    async fn check(&self) -> Result<(), Unfit> {
        super::check_threads(&self.cpu)?;
        super::check_device(&self.segmentation).await
    }
}

#[async_trait]
impl PageStage for LineDetection {
    type Input = PageRef;
    type Fetched = Scan;
    type Row = LineDetectionRow;

    const VERSION: u32 = 6;

    fn model_settings(&self, _: &JobConfig) -> Map<String, Value> {
        Map::from_iter([("threshold".to_owned(), json!(self.threshold))])
    }

    fn image_name(row: &LineDetectionRow) -> &str {
        &row.image_name
    }

    fn image_path(row: &LineDetectionRow) -> Option<&str> {
        some_path(&row.rotated_image_path)
    }

    async fn plan(&self, run: &VolumeRun) -> Result<Vec<PlannedPage<PageRef>>, StageError> {
        if run.config().line_mode == LineMode::Layout && !self.layout {
            let message = format!(
                "line_mode=layout needs a model that knows the classes of a layout, and {} knows lines alone",
                self.model.name
            );
            return Err(run.error(ErrorCategory::Config, message));
        }
        // Settings come first: the job fails here, before any scan is read.
        plan_scans(&self.pages, &self.cpu, run).await
    }

    fn volume_version(&self, pages: &[PlannedPage<PageRef>]) -> Option<String> {
        version_of_scans(pages)
    }

    fn blank(&self, page: &PlannedPage<PageRef>) -> Vec<LineDetectionRow> {
        vec![LineDetectionRow {
            image_name: page.name.as_str().to_owned(),
            rotated_image_path: String::new(),
            rot_mask: Vec::new(),
            page_angle: 0.0,
            dewarping_applied: false,
            tps_ratio: None,
            filtered_contours: Vec::new(),
            page_index: as_i32(page.index),
            source_name: page.input.name.clone(),
            image_width: 0,
            image_height: 0,
            rotated_width: 0,
            rotated_height: 0,
            tps_points: None,
            tps_alpha: None,
            input_sha256: page.input_hash.to_string(),
            is_binary: false,
            regions: None,
            is_negative: None,
        }]
    }

    async fn fetch(&self, run: &VolumeRun, page: &PlannedPage<PageRef>) -> Result<Scan, StageError> {
        read_scan(&self.pages, run, page).await
    }

    async fn process(
        &self,
        run: &VolumeRun,
        page: &PlannedPage<PageRef>,
        scan: Scan,
    ) -> Result<Vec<LineDetectionRow>, StageError> {
        // The hash in the plan may stand for a version of the page; the table names the hash of its bytes.
        let (decoded, scan_hash) = super::compute(&self.cpu, run, move |cancelled| {
            scan.pixels(&DecodeLimits::default(), &|| cancelled.is_cancelled())
                .map(|pixels| (Arc::new(pixels.page), scan.digest()))
                .map_err(|error| (error.category(), error.to_string()))
        })
        .await?;
        for warning in &decoded.warnings {
            warn!(volume = %run.volume(), page = page.input.name, %warning, "the scan was decoded with a warning");
        }
        let (lines, page_of_lines) = self.find_lines_of_scan(run, decoded.clone()).await?;
        let background = self.detection_config(run.config()).background();
        let keep = run.config().artifacts;
        let straightened = super::compute(&self.cpu, run, move |_| {
            straighten_page(&page_of_lines, lines, background, keep)
        })
        .await?;

        at_step(PageStep::Storing);
        let mut path = String::new();
        if let Some(jpeg) = straightened.jpeg {
            let key = run.layout.rotated_image(&page.name);
            // Not flushed here: a flush for each image would cost more than the recognition, so all are flushed together before the
            // table that names them.
            off_the_clock(run.store.put_unsynced(&key, jpeg.into()))
                .await
                .map_err(|error| run.storage_error(&error))?;
            path = key.to_string();
        }
        let lines = straightened.lines;
        Ok(vec![LineDetectionRow {
            image_name: page.name.as_str().to_owned(),
            rotated_image_path: path,
            rot_mask: straightened.mask,
            page_angle: lines.page_angle,
            dewarping_applied: lines.dewarp.is_some(),
            tps_ratio: lines.tps_ratio,
            filtered_contours: lines
                .contours
                .iter()
                .map(|contour| contour.iter().map(|point| [point.x, point.y]).collect())
                .collect(),
            page_index: as_i32(page.index),
            source_name: page.input.name.clone(),
            image_width: as_i32(decoded.gray.width()),
            image_height: as_i32(decoded.gray.height()),
            rotated_width: as_i32(straightened.size.0),
            rotated_height: as_i32(straightened.size.1),
            tps_points: lines.dewarp.as_ref().map(|dewarp| {
                dewarp
                    .control_points
                    .iter()
                    .map(|pair| {
                        [pair.source[0], pair.source[1], pair.target[0], pair.target[1]]
                            .map(|value| value as f32)
                    })
                    .collect()
            }),
            tps_alpha: lines.dewarp.as_ref().map(|dewarp| dewarp.alpha),
            input_sha256: scan_hash.to_string(),
            is_binary: decoded.bilevel,
            regions: (run.config().line_mode == LineMode::Layout).then(|| {
                lines
                    .regions
                    .into_iter()
                    .map(|region| PageRegion {
                        kind: region.kind.as_str().to_owned(),
                        contour: region.contour.iter().map(|point| [point.x, point.y]).collect(),
                    })
                    .collect()
            }),
            is_negative: Some(lines.is_negative),
        }])
    }
}

/// Encodes the mask, and the page straightened at full resolution, on a background of this grey level, where the job keeps pictures.
fn straighten_page(
    page: &DecodedPage,
    lines: PageLines,
    background: u8,
    keep: Artifacts,
) -> Result<Straightened, (ErrorCategory, String)> {
    let runtime = |error: &dyn std::fmt::Display| (ErrorCategory::Runtime, error.to_string());
    let geometry: PageGeometry = lines.geometry().map_err(|error| runtime(&error))?;
    let quality = image_quality(page.bilevel);
    let jpeg = match keep {
        Artifacts::Tables => None,
        // Resampling a page that lies straight already would only blur it.
        Artifacts::Pictures if geometry.is_identity() => Some(encode_jpeg(&page.gray, quality)),
        Artifacts::Pictures => {
            let straight = straighten_onto(&page.gray, &geometry, background);
            Some(encode_jpeg(&straight, quality))
        }
    };
    let jpeg = jpeg.transpose().map_err(|error| runtime(&error))?;
    let mask = encode_mask(&lines.mask).map_err(|error| runtime(&error))?;
    let size = geometry.straightened_size();
    Ok(Straightened {
        lines,
        jpeg,
        mask,
        size,
    })
}

fn encode_mask(mask: &GrayImage) -> image::ImageResult<Vec<u8>> {
    use image::codecs::png::{CompressionType, FilterType, PngEncoder};
    let mut png = Vec::new();
    PngEncoder::new_with_quality(&mut png, CompressionType::Default, FilterType::NoFilter).write_image(
        mask.as_raw(),
        mask.width(),
        mask.height(),
        ExtendedColorType::L8,
    )?;
    Ok(png)
}

fn as_i32(value: u32) -> i32 {
    i32::try_from(value).unwrap_or(i32::MAX)
}

/// The keys of a job's configuration that decide its lines.
pub(super) fn settings(config: &JobConfig) -> Map<String, Value> {
    let keys = [
        ("use_tps", json!(config.use_tps)),
        ("line_mode", json!(config.line_mode)),
    ];
    // Left out where pictures are kept, as they always were: results of earlier builds go on to stand.
    let artifacts =
        (config.artifacts != Artifacts::default()).then(|| ("artifacts", json!(config.artifacts)));
    super::of_generation(config, keys.into_iter().chain(artifacts))
}
