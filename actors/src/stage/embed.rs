//! The stage `embed`: vectors of the chunks of documents, dense ones of their meaning and sparse ones of their terms. Networks of the node make
//! both; a service that the job names makes the dense ones in their place.

use std::sync::{Arc, OnceLock};

use async_trait::async_trait;
use parkhang_embeddings::inference::Terms;
use parkhang_embeddings::{EmbeddingModels, InferenceError, dense, sparse};
use serde_json::{Map, Value, json};

use super::info::StageInfo;
use super::page_stage::{PageStage, PlannedPage, VolumeRun};
use super::registry::StageServices;
use super::service;
use super::table::{ModelKind, StageDefinition, StageModels};
use super::{DEVICE_INBOX, compute};
use crate::engines::{Embedder, Engine};
use crate::inference::{DeviceStatus, EmbeddingThreads};
use crate::runner::{CpuPool, off_the_clock};
use crate::telemetry::at_step;
use parkhang_core::domain::{ErrorCategory, Hardware, PageStep, StageError, StageName, Unfit, Usage};
use parkhang_store::artifact::{
    ArtifactRow, ChunkRow, Digest, ImageName, ModelRef, ServiceRef, TableSchema, VectorRow, read_table,
};

pub(super) const STAGE: StageDefinition = StageDefinition {
    name: "embed",
    hardware: Hardware::Gpu,
    models: StageModels::Choice(ModelKind::Embeddings),
    settings: |_| Map::new(),
    reads: &[&[ChunkRow::TABLE]],
    writes: &[TableSchema::of::<VectorRow>()],
    build: |services| Ok(services.paged(STAGE, Embed::new(services)?)),
};

/// Texts in one request to a service.
const TEXTS: usize = 64;

/// The stage that embeds chunks.
#[derive(Debug)]
pub(crate) struct Embed {
    cpu: CpuPool,
    threads: EmbeddingThreads,
    /// The networks, on their threads.
    networks: Arc<EmbeddingModels>,
    model: ModelRef,
    /// Services that embed texts.
    embedders: Vec<Embedder>,
}

/// The chunks that begin on a page, and who embeds them.
#[derive(Debug)]
pub(crate) struct PageOfChunks {
    embedder: Option<Embedder>,
    /// Dimension of the dense vectors of the volume, once there is one.
    dimension: Arc<OnceLock<usize>>,
    chunks: Vec<ChunkRow>,
}

impl Embed {
    fn new(services: &StageServices) -> std::io::Result<Self> {
        let embeddings = services.models.embeddings()?;
        let memory = services.device_memory(&embeddings.model);
        let threads = EmbeddingThreads::start(&embeddings.networks, &memory, DEVICE_INBOX)?;
        let engines = services.models.engines.iter();
        Ok(Self {
            cpu: services.cpu.clone(),
            networks: Arc::new(threads.networks(&embeddings.networks)),
            threads,
            model: embeddings.model.clone(),
            embedders: engines.filter_map(Engine::embedder).collect(),
        })
    }

    /// Vectors of texts by a service.
    async fn ask(
        &self,
        run: &VolumeRun,
        embedder: &Embedder,
        texts: &[String],
    ) -> Result<Vec<Vec<f32>>, StageError> {
        let engine = embedder.engine();
        let service = engine.model().name.as_str();
        let mut vectors = Vec::with_capacity(texts.len());
        for texts in texts.chunks(TEXTS) {
            let texts: Vec<&str> = texts.iter().map(String::as_str).collect();
            at_step(PageStep::Asking);
            off_the_clock(run.may_spend(service)).await?;
            let mut usage = Usage::default();
            let answer = off_the_clock(embedder.embed(&texts, &mut usage)).await;
            let account = &run.context.account;
            off_the_clock(account.charge(service, usage, engine.prices(), &run.halt)).await;
            vectors.extend(answer.map_err(|error| service::failed(run, error))?);
        }
        Ok(vectors)
    }

    /// Vectors of texts by the networks; dense ones where `wants_dense` is true.
    async fn compute(
        &self,
        run: &VolumeRun,
        texts: Vec<String>,
        wants_dense: bool,
    ) -> Result<(Vec<Vec<f32>>, Vec<Terms>), StageError> {
        let networks = self.networks.clone();
        let vectors = compute(&self.cpu, run, move |_| {
            let texts: Vec<&str> = texts.iter().map(String::as_str).collect();
            Ok(sparse(&texts, &networks).and_then(|terms| {
                let vectors = wants_dense.then(|| dense(&texts, &networks)).transpose()?;
                Ok((vectors.unwrap_or_default(), terms))
            }))
        })
        .await?;
        vectors.map_err(|error| match error {
            InferenceError::Device(_) => run.out_of_order(error),
            error => run.error(ErrorCategory::Runtime, error),
        })
    }
}

#[async_trait]
impl StageInfo for Embed {
    fn name(&self) -> StageName {
        STAGE.name()
    }

    fn hardware(&self) -> Hardware {
        STAGE.hardware
    }

    fn models(&self) -> Vec<ModelRef> {
        let services = self.embedders.iter().map(|embedder| embedder.engine().model());
        std::iter::once(&self.model).chain(services).cloned().collect()
    }

    fn device(&self) -> Option<DeviceStatus> {
        Some(self.threads.status())
    }

    fn renew(&self) -> std::io::Result<()> {
        self.threads.renew()
    }

    async fn check(&self) -> Result<(), Unfit> {
        super::check_threads(&self.cpu)?;
        let broken = |error: InferenceError| Unfit::Device(error.to_string());
        self.threads.check().await.map_err(broken)
    }
}

#[async_trait]
impl PageStage for Embed {
    type Input = PageOfChunks;
    type Fetched = ();
    type Row = VectorRow;

    const VERSION: u32 = 2;

    fn models_of(&self, planned: &[PlannedPage<PageOfChunks>]) -> Vec<ModelRef> {
        let embedder = planned.first().and_then(|page| page.input.embedder.as_ref());
        // The sparse vectors are ours in any case.
        let service = embedder.map(|embedder| embedder.engine().model());
        service.into_iter().chain([&self.model]).cloned().collect()
    }

    async fn service_of(&self, planned: &[PlannedPage<PageOfChunks>]) -> Option<ServiceRef> {
        let embedder = planned.first()?.input.embedder.as_ref()?;
        Some(embedder.engine().served().await)
    }

    fn image_name(row: &VectorRow) -> &str {
        &row.image_name
    }

    fn image_path(_: &VectorRow) -> Option<&str> {
        None
    }

    fn record(&self, _: &PlannedPage<PageOfChunks>, rows: &[VectorRow]) -> Map<String, Value> {
        let terms: usize = rows.iter().map(|row| row.indices.len()).sum();
        let dimension = rows.first().map(|row| row.dense.len());
        let mean = (!rows.is_empty()).then(|| terms as f64 / rows.len() as f64);
        Map::from_iter([
            ("vectors_dense".to_owned(), rows.len().into()),
            ("vectors_sparse".to_owned(), rows.len().into()),
            ("dim_dense".to_owned(), json!(dimension)),
            ("avg_nnz_sparse".to_owned(), json!(mean)),
        ])
    }

    async fn plan(&self, run: &VolumeRun) -> Result<Vec<PlannedPage<PageOfChunks>>, StageError> {
        let embedder = service::named(
            &self.embedders,
            Embedder::engine,
            &self.model,
            run.config(),
            &self.name(),
        )
        .map_err(|message| run.error(ErrorCategory::Config, message))?;
        let key = run.layout.chunks();
        let table = read_table::<ChunkRow>(run.store.as_ref(), &key)
            .await
            .map_err(|error| run.artifact_error(&error))?;
        let dimension: Arc<OnceLock<usize>> = Arc::default();
        let same_page = |one: &ChunkRow, other: &ChunkRow| one.image_name == other.image_name;
        let mut planned = Vec::new();
        for chunks in table.rows.chunk_by(same_page) {
            let page = &chunks[0];
            if !table.provenance.pages.contains_key(&page.image_name) {
                continue;
            }
            // What else of the chunks has changed makes no other vectors.
            let texts = chunks.iter().map(|chunk| &chunk.text);
            planned.push(PlannedPage {
                name: ImageName::new(page.image_name.as_str())
                    .map_err(|error| run.error(ErrorCategory::Input, error))?,
                index: u32::try_from(page.page_index).unwrap_or(0),
                input_path: key.to_string(),
                input_hash: Digest::of_parts(texts),
                cost: chunks.iter().map(|chunk| f64::from(chunk.tokens)).sum(),
                input: PageOfChunks {
                    embedder: embedder.cloned(),
                    dimension: dimension.clone(),
                    chunks: chunks.to_vec(),
                },
            });
        }
        Ok(planned)
    }

    async fn fetch(&self, _: &VolumeRun, _: &PlannedPage<PageOfChunks>) -> Result<(), StageError> {
        Ok(())
    }

    async fn process(
        &self,
        run: &VolumeRun,
        page: &PlannedPage<PageOfChunks>,
        (): (),
    ) -> Result<Vec<VectorRow>, StageError> {
        let PageOfChunks {
            embedder,
            dimension,
            chunks,
        } = &page.input;
        let texts: Vec<String> = chunks.iter().map(|chunk| chunk.text.clone()).collect();
        let (vectors, terms) = match embedder {
            None => self.compute(run, texts, true).await?,
            Some(embedder) => {
                let vectors = self.ask(run, embedder, &texts).await?;
                let (_, terms) = self.compute(run, texts, false).await?;
                (vectors, terms)
            }
        };
        for vector in &vectors {
            let (found, expected) = (vector.len(), *dimension.get_or_init(|| vector.len()));
            if found != expected {
                let message = format!("a vector has {found} numbers, and others of the volume {expected}");
                return Err(run.error(ErrorCategory::Runtime, message));
            }
        }
        let vectors = chunks.iter().zip(vectors).zip(terms);
        Ok(vectors
            .map(|((chunk, vector), terms)| row(chunk, vector, terms))
            .collect())
    }
}

fn row(chunk: &ChunkRow, dense: Vec<f32>, terms: Terms) -> VectorRow {
    let (indices, values) = terms.into_iter().unzip();
    VectorRow {
        image_name: chunk.image_name.clone(),
        page_index: chunk.page_index,
        page: chunk.page,
        chunk: chunk.chunk,
        dense,
        indices,
        values,
    }
}
