//! Work that services have of others: of tasks at stages of pipelines, and of rows of tables. What a service may have at once counts both,
//! whoever gives it.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use anyhow::Result;
use async_trait::async_trait;
use parkhang_actors::services::WorkElsewhere;
use parkhang_core::domain::{EntityPipeline, StageName};
use parkhang_state::{EntityDatabase, EntityError, EntityTable, PostgresStore, StateError};
use secrecy::{ExposeSecret, SecretString};
use tokio::sync::OnceCell;
use tracing::debug;

use crate::config::Loaded;

/// Counter of what services have in hand, but for the rows of one table.
#[derive(Debug)]
pub struct ElsewhereCounter {
    store: PostgresStore,
    /// Services whose tasks are counted: those that do stages of pipelines.
    of_tasks: Vec<String>,
    tables: Vec<CountedTable>,
}

/// Table of an entity whose rows are counted.
#[derive(Debug)]
struct CountedTable {
    pipeline: Arc<EntityPipeline>,
    url: Option<SecretString>,
    stages_of: BTreeMap<String, Vec<StageName>>,
    opened: OnceCell<EntityTable>,
    /// Rows that were counted last.
    known: AtomicUsize,
}

impl ElsewhereCounter {
    /// Counter of the rows of all tables of the configuration, for the leader, who knows the tasks.
    ///
    /// # Errors
    ///
    /// If a section describes no pipeline of entities.
    pub fn of_rows(loaded: &Loaded, store: &PostgresStore) -> Result<Self> {
        Self::without(loaded, store, None, Vec::new())
    }

    /// Counter of the tasks, and of the rows of all tables but one.
    ///
    /// # Errors
    ///
    /// If a section describes no pipeline of entities.
    pub fn beside(loaded: &Loaded, store: &PostgresStore, entity: &str) -> Result<Self> {
        let stages = loaded.config.stage.values();
        let of_tasks = stages.map(|stage| stage.service.clone()).collect();
        Self::without(loaded, store, Some(entity), of_tasks)
    }

    fn without(
        loaded: &Loaded,
        store: &PostgresStore,
        entity: Option<&str>,
        of_tasks: Vec<String>,
    ) -> Result<Self> {
        let mut tables = Vec::new();
        for (name, configured) in &loaded.config.entity {
            if entity == Some(name.as_str()) {
                continue;
            }
            let mut stages_of: BTreeMap<String, Vec<StageName>> = BTreeMap::new();
            for stage in &configured.stages {
                if let Some(settings) = configured.stage.get(stage) {
                    let stages = stages_of.entry(settings.service.clone()).or_default();
                    stages.push(StageName::new(stage.as_str())?);
                }
            }
            let url = loaded.secrets.entity_databases.get(name);
            tables.push(CountedTable {
                pipeline: Arc::new(configured.pipeline(name)?),
                url: url.map(|url| url.text.clone()),
                stages_of,
                opened: OnceCell::new(),
                known: AtomicUsize::new(0),
            });
        }
        Ok(Self {
            store: store.clone(),
            of_tasks,
            tables,
        })
    }
}

impl CountedTable {
    async fn table(&self, store: &PostgresStore) -> Result<&EntityTable, EntityError> {
        let open = async || {
            let database = match &self.url {
                Some(url) => EntityDatabase::connect(url.expose_secret()).await?,
                None => store.entity_database(),
            };
            database.open(self.pipeline.clone()).await
        };
        self.opened.get_or_try_init(open).await
    }

    /// Counts the rows at a service. A table that cannot be read has as many as it had last, so that it keeps nobody else from work.
    async fn in_flight(&self, store: &PostgresStore, service: &str) -> usize {
        let Some(stages) = self.stages_of.get(service) else {
            return 0;
        };
        let counted = async { Ok::<_, EntityError>(self.table(store).await?.in_flight(stages).await?) };
        match counted.await {
            Ok(rows) => self.known.store(rows, Ordering::Relaxed),
            Err(error) => {
                debug!(entity = self.pipeline.name(), %error, "rows at a service cannot be counted now")
            }
        }
        self.known.load(Ordering::Relaxed)
    }
}

#[async_trait]
impl WorkElsewhere for ElsewhereCounter {
    async fn in_flight(&self, service: &str) -> Result<usize, StateError> {
        let mut number = 0;
        if self.of_tasks.iter().any(|of_tasks| of_tasks == service) {
            let leases = self.store.leases_of_service(service).await?;
            number += usize::try_from(leases).unwrap_or(usize::MAX);
        }
        for table in &self.tables {
            number += table.in_flight(&self.store, service).await;
        }
        Ok(number)
    }
}
