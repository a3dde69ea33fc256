//! The networks that see the layout of pages as batch models.

use std::sync::Arc;

use parkhang_models::inference::InferenceError;
use parkhang_words::LayoutModels;
use parkhang_words::inference::{ImageBatch, LayoutDetector, LayoutMaps, TableReader, TableStep};

use super::print::{OnThread, PictureNetwork, Pictures};
use super::{DeviceMemory, DeviceStatus, Inference};

/// The network that finds regions.
#[derive(Debug, Clone)]
struct Regions(Arc<dyn LayoutDetector>);

/// The network that reads the structure of tables.
#[derive(Debug, Clone)]
struct Tables(Arc<dyn TableReader>);

impl PictureNetwork for Regions {
    type Answer = LayoutMaps;

    const PROBE: (usize, usize) = (800, 608);

    fn answers(&self, pictures: &ImageBatch) -> Result<Vec<LayoutMaps>, InferenceError> {
        self.0.maps(pictures)
    }

    fn is_sound(answer: &LayoutMaps) -> bool {
        let mut values = answer.levels.iter().flat_map(|level| &level.values);
        !answer.levels.is_empty() && values.all(|value| value.is_finite())
    }
}

impl PictureNetwork for Tables {
    type Answer = Vec<TableStep>;

    const PROBE: (usize, usize) = (488, 488);

    fn answers(&self, pictures: &ImageBatch) -> Result<Vec<Vec<TableStep>>, InferenceError> {
        self.0.steps(pictures)
    }

    fn is_sound(answer: &Vec<TableStep>) -> bool {
        let finite =
            |step: &TableStep| step.probability.is_finite() && step.corners.iter().all(|at| at.is_finite());
        answer.iter().all(finite)
    }
}

/// The threads of the networks that see the layout of pages.
#[derive(Debug)]
pub struct LayoutThreads {
    regions: Inference<Pictures<Regions>>,
    tables: Inference<Pictures<Tables>>,
}

impl LayoutThreads {
    /// Starts the threads. `inbox` bounds the requests that wait for each.
    ///
    /// # Errors
    ///
    /// When the system gives no thread.
    pub fn start(networks: &LayoutModels, memory: &DeviceMemory, inbox: usize) -> std::io::Result<Self> {
        Ok(Self {
            regions: Inference::start(
                "layout-regions",
                Pictures(Regions(networks.layout.clone())),
                memory.part("regions"),
                inbox,
            )?,
            tables: Inference::start(
                "layout-tables",
                Pictures(Tables(networks.table.clone())),
                memory.part("tables"),
                inbox,
            )?,
        })
    }

    /// The same networks, asked through their threads by callers that may block.
    pub fn networks(&self, networks: &LayoutModels) -> LayoutModels {
        LayoutModels {
            layout: Arc::new(OnThread(self.regions.clone())),
            table: Arc::new(OnThread(self.tables.clone())),
            ..networks.clone()
        }
    }

    /// State of the thread that every page asks.
    pub fn status(&self) -> DeviceStatus {
        self.regions.status()
    }

    /// Leaves the threads behind and goes on with new ones.
    ///
    /// # Errors
    ///
    /// When the system gives no thread.
    pub fn renew(&self) -> std::io::Result<()> {
        self.regions.renew()?;
        self.tables.renew()
    }

    /// Checks that the networks answer what they are known to answer.
    ///
    /// # Errors
    ///
    /// [`InferenceError`] of the first that does not.
    pub async fn check(&self) -> Result<(), InferenceError> {
        self.regions.check().await?;
        self.tables.check().await
    }
}

impl LayoutDetector for OnThread<Regions> {
    fn maps(&self, pages: &ImageBatch) -> Result<Vec<LayoutMaps>, InferenceError> {
        self.0.infer_blocking(pages.clone())
    }
}

impl TableReader for OnThread<Tables> {
    fn steps(&self, tables: &ImageBatch) -> Result<Vec<Vec<TableStep>>, InferenceError> {
        self.0.infer_blocking(tables.clone())
    }
}
