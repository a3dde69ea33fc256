//! The stage `line_extraction`: turns straightened pages and contours into ordered line images.

use async_trait::async_trait;
use bytes::Bytes;
use futures::{StreamExt, TryStreamExt, stream};
use image::GrayImage;
use parkhang_models::algorithms::Algorithms;
use parkhang_models::line_extraction::{
    ExtractionConfig, LineImage, LinePlace, Rows, TextLine, build_lines, cut_line, place_line,
};
use parkhang_models::page::decode::{DecodeLimits, decode_page};
use parkhang_models::page::geometry::Point;
use parkhang_models::page::illumination::even_light;
use parkhang_models::page::resize::resize_nearest;
use serde_json::{Map, Value, json};
use uuid::Uuid;

use super::image_quality;
use super::info::StageInfo;
use super::page_stage::{PageStage, PlannedPage, VolumeRun, some_path};
use super::table::{StageDefinition, StageModels};
use crate::jpeg::encode_jpeg;
use crate::runner::{CpuPool, off_the_clock};
use crate::telemetry::at_step;
use parkhang_core::domain::{
    Artifacts, ErrorCategory, Hardware, JobConfig, PageStep, StageError, StageName, Unfit,
};
use parkhang_store::artifact::{
    ArtifactRow, Digest, ImageName, LineDetectionRow, LineImageRow, TableSchema, read_table,
};
use parkhang_store::storage::ArtifactKey;

pub(super) const STAGE: StageDefinition = StageDefinition {
    name: "line_extraction",
    hardware: Hardware::Cpu,
    models: StageModels::None,
    settings,
    reads: &[&[LineDetectionRow::TABLE]],
    writes: &[TableSchema::of::<LineImageRow>()],
    build: |services| {
        let cpu = services.cpu.clone();
        Ok(services.paged(STAGE, LineExtraction { cpu }))
    },
};

/// Namespace of line guids, which are derived from the line, so that it gets the same one in every run.
pub(super) const LINE_NAMESPACE: Uuid = Uuid::from_u128(0x6e5d_32c8_8a9c_4d6a_9d5c_50a1_7e1b_6f0e);

/// Images of a page that are written at once.
const WRITES: usize = 16;

/// The stage that cuts lines out of pages.
#[derive(Debug)]
pub(crate) struct LineExtraction {
    pub cpu: CpuPool,
}

/// A line as it will be written.
pub(super) struct Cut {
    line: TextLine,
    origin: parkhang_models::page::geometry::Rect,
    pub(super) size: (u32, u32),
    is_levelled: bool,
    /// `None` in a job that keeps no pictures.
    jpeg: Option<Vec<u8>>,
}

impl LineExtraction {
    pub(super) fn extraction_config(config: &JobConfig) -> ExtractionConfig {
        let defaults = match config.generation {
            Algorithms::Gen1 => ExtractionConfig::gen1(),
            Algorithms::Gen2 => ExtractionConfig::default(),
        };
        ExtractionConfig {
            k_factor: f64::from(config.k_factor),
            bbox_tolerance: f64::from(config.bbox_tolerance),
            merge_lines: config.merge_lines,
            split_columns: config.split_columns,
            ..defaults
        }
    }
}

#[async_trait]
impl StageInfo for LineExtraction {
    fn name(&self) -> StageName {
        STAGE.name()
    }

    fn hardware(&self) -> Hardware {
        STAGE.hardware
    }

    async fn check(&self) -> Result<(), Unfit> {
        super::check_threads(&self.cpu)
    }
}

#[async_trait]
impl PageStage for LineExtraction {
    type Input = LineDetectionRow;
    /// The straightened page; `None` where it has no lines, and where it is not kept.
    type Fetched = Option<Bytes>;
    type Row = LineImageRow;

    const VERSION: u32 = 6;

    fn image_name(row: &LineImageRow) -> &str {
        &row.image_name
    }

    fn image_path(row: &LineImageRow) -> Option<&str> {
        some_path(&row.line_image_path)
    }

    async fn plan(&self, run: &VolumeRun) -> Result<Vec<PlannedPage<LineDetectionRow>>, StageError> {
        let table = read_table::<LineDetectionRow>(run.store.as_ref(), &run.layout.line_detection())
            .await
            .map_err(|error| run.artifact_error(&error))?;
        table
            .rows
            .into_iter()
            .map(|row| {
                let name = ImageName::new(row.image_name.as_str())
                    .map_err(|error| run.error(ErrorCategory::Input, error))?;
                // The fingerprint of the stage before, which says what the page was made from: the image itself need not be read
                // to find out whether it has changed.
                let input_hash = table
                    .provenance
                    .pages
                    .get(&row.image_name)
                    // A page that failed there and stands blank has a row and no fingerprint.
                    .map_or_else(|| Digest::of(b""), |made_of| made_of.digest());
                Ok(PlannedPage {
                    index: u32::try_from(row.page_index).unwrap_or(0),
                    input_path: row.rotated_image_path.clone(),
                    cost: f64::from(row.rotated_width) * f64::from(row.rotated_height),
                    name,
                    input_hash,
                    input: row,
                })
            })
            .collect()
    }

    async fn fetch(
        &self,
        run: &VolumeRun,
        page: &PlannedPage<LineDetectionRow>,
    ) -> Result<Option<Bytes>, StageError> {
        // A page without lines costs no read. Where the job keeps no pictures there is none to read.
        if page.input.filtered_contours.is_empty() || run.config().artifacts == Artifacts::Tables {
            return Ok(None);
        }
        let key = ArtifactKey::new(page.input.rotated_image_path.as_str())
            .map_err(|error| run.error(ErrorCategory::Input, error))?;
        let read = run.store.get(&key).await;
        read.map(Some).map_err(|error| run.storage_error(&error))
    }

    async fn process(
        &self,
        run: &VolumeRun,
        page: &PlannedPage<LineDetectionRow>,
        jpeg: Option<Bytes>,
    ) -> Result<Vec<LineImageRow>, StageError> {
        let row = &page.input;
        if row.filtered_contours.is_empty() {
            return Ok(Vec::new());
        }
        let contours = contours_of(row);
        let config = Self::extraction_config(run.config());
        let bilevel = row.is_binary;
        let mask = has_rows_by_mask(run.config().generation).then(|| row.rot_mask.clone());
        let size = [row.rotated_width, row.rotated_height].map(|side| u32::try_from(side).unwrap_or(0));
        let cuts = super::compute(&self.cpu, run, move |_| match jpeg {
            Some(jpeg) => cut_page(&jpeg, bilevel, mask.as_deref(), contours, &config),
            None => Ok(place_page(size.into(), contours, &config)),
        })
        .await?;

        let mut rows = Vec::with_capacity(cuts.len());
        let mut images = Vec::with_capacity(cuts.len());
        for cut in cuts {
            let index = rows.len();
            let number = u32::try_from(index).unwrap_or(u32::MAX);
            let image = cut
                .jpeg
                .map(|jpeg| (run.layout.line_image(&page.name, number), jpeg));
            // With the hash of the scan: a line of a new scan is another line.
            let identity = format!("{}/{}/{}/{index}", run.volume(), page.name, row.input_sha256);
            let bounds = cut.line.bounding_box;
            rows.push(LineImageRow {
                image_name: row.image_name.clone(),
                line_index: i32::try_from(index).unwrap_or(i32::MAX),
                line_image_path: image
                    .as_ref()
                    .map_or_else(String::new, |(key, _)| key.to_string()),
                line_guid: Uuid::new_v5(&LINE_NAMESPACE, identity.as_bytes()).to_string(),
                bbox_x: bounds.x,
                bbox_y: bounds.y,
                bbox_w: bounds.width,
                bbox_h: bounds.height,
                center_x: cut.line.center.x,
                center_y: cut.line.center.y,
                contour: cut.line.contour.iter().map(|point| [point.x, point.y]).collect(),
                page_index: row.page_index,
                crop_x: cut.origin.x,
                crop_y: cut.origin.y,
                crop_w: cut.origin.width,
                crop_h: cut.origin.height,
                image_width: i32::try_from(cut.size.0).unwrap_or(i32::MAX),
                image_height: i32::try_from(cut.size.1).unwrap_or(i32::MAX),
                is_binary: row.is_binary,
                is_levelled: Some(cut.is_levelled),
            });
            images.extend(image.map(|(key, jpeg)| (key, Bytes::from(jpeg))));
        }
        at_step(PageStep::Storing);
        let writes = stream::iter(images)
            .map(Ok)
            .try_for_each_concurrent(WRITES, |(key, jpeg)| async move {
                run.store.put_unsynced(&key, jpeg).await
            });
        off_the_clock(writes)
            .await
            .map_err(|error| run.storage_error(&error))?;
        Ok(rows)
    }
}

/// Builds and cuts the lines of a page, whose rows are found by its mask if one is given; lines without a pixel on the page are
/// left out.
fn cut_page(
    jpeg: &Bytes,
    bilevel: bool,
    mask: Option<&[u8]>,
    contours: Vec<Vec<Point>>,
    config: &ExtractionConfig,
) -> Result<Vec<Cut>, (ErrorCategory, String)> {
    let decode = |image: &[u8]| {
        decode_page(image, &DecodeLimits::default())
            .map_err(|error| (ErrorCategory::Input, error.to_string()))
    };
    let page = decode(jpeg)?;
    let mask = mask.map(decode).transpose()?;
    cut_lines(
        page.gray,
        bilevel,
        mask.map(|mask| mask.gray).as_ref(),
        contours,
        config,
    )
    .into_iter()
    .map(|(line, cut)| {
        let jpeg = encode_jpeg(&cut.image, image_quality(bilevel))
            .map_err(|error| (ErrorCategory::Runtime, error.to_string()))?;
        Ok(Cut {
            line,
            origin: cut.origin,
            size: cut.image.dimensions(),
            is_levelled: cut.levelling.is_some(),
            jpeg: Some(jpeg),
        })
    })
    .collect()
}

/// Builds the lines of a page that is not at hand.
pub(super) fn place_page(size: (u32, u32), contours: Vec<Vec<Point>>, config: &ExtractionConfig) -> Vec<Cut> {
    place_lines(size, contours, config)
        .into_iter()
        .map(|(line, place)| {
            let origin = place.bounds(config);
            Cut {
                line,
                origin,
                size: (origin.width.unsigned_abs(), origin.height.unsigned_abs()),
                is_levelled: place.is_levelled(),
                jpeg: None,
            }
        })
        .collect()
}

/// The lines of a straightened page of this width and height with their places on it, in reading order, as the second generation finds them,
/// which reads no mask; those beside the page are left out.
pub(super) fn place_lines(
    size: (u32, u32),
    contours: Vec<Vec<Point>>,
    config: &ExtractionConfig,
) -> Vec<(TextLine, LinePlace)> {
    // Shared by the lines of the page, as in `cut_lines`.
    let mut k = config.k_factor;
    build_lines(contours, Rows::ByHeight, config)
        .into_iter()
        .map(|line| {
            let place = place_line(size, &line, &mut k, config);
            (line, place)
        })
        .filter(|(_, place)| {
            let bounds = place.bounds(config);
            bounds.width > 0 && bounds.height > 0
        })
        .collect()
}

/// Returns whether the rows of text are found on the mask, as in the first generation; the second finds them by the heights of the contours.
pub(super) fn has_rows_by_mask(generation: Algorithms) -> bool {
    match generation {
        Algorithms::Gen1 => true,
        Algorithms::Gen2 => false,
    }
}

/// Brightens what lies in shadow on a straightened page, before lines are cut out of it.
pub(super) fn light(page: &mut GrayImage, bilevel: bool, config: &ExtractionConfig) {
    if config.even_light && !bilevel {
        even_light(page, 0);
    }
}

/// Contours of the lines of a page.
pub(super) fn contours_of(row: &LineDetectionRow) -> Vec<Vec<Point>> {
    let contours = row.filtered_contours.iter();
    contours
        .map(|contour| contour.iter().map(|[x, y]| Point::new(*x, *y)).collect())
        .collect()
}

/// The lines of a straightened page with their images, in reading order. The mask may have another size than the page.
pub(super) fn cut_lines(
    mut page: GrayImage,
    bilevel: bool,
    mask: Option<&GrayImage>,
    contours: Vec<Vec<Point>>,
    config: &ExtractionConfig,
) -> Vec<(TextLine, LineImage)> {
    light(&mut page, bilevel, config);
    let mask = mask.map(|mask| resize_nearest(mask, page.width(), page.height()));
    let rows = mask.as_ref().map_or(Rows::ByHeight, Rows::ByMask);
    // Shared by the lines of the page: a margin that was too wide for one is too wide for those below it.
    let mut k = config.k_factor;
    build_lines(contours, rows, config)
        .into_iter()
        .map(|line| {
            let image = cut_line(&page, &line, &mut k, config);
            (line, image)
        })
        .filter(|(_, cut)| cut.image.width() > 0 && cut.image.height() > 0)
        .collect()
}

/// The keys of a job's configuration that decide its line images.
pub(super) fn settings(config: &JobConfig) -> Map<String, Value> {
    let keys = [
        ("k_factor", json!(config.k_factor)),
        ("bbox_tolerance", json!(config.bbox_tolerance)),
        ("merge_lines", json!(config.merge_lines)),
        ("split_columns", json!(config.split_columns)),
    ];
    super::of_generation(config, keys)
}
