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
    services: BTreeMap<String, CountedService>,
    opened: OnceCell<EntityTable>,
}

/// Service that does stages of a table.
#[derive(Debug, Default)]
struct CountedService {
    stages: Vec<StageName>,
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
            let mut services: BTreeMap<String, CountedService> = BTreeMap::new();
            for stage in &configured.stages {
                if let Some(settings) = configured.stage.get(stage) {
                    let service = services.entry(settings.service.clone()).or_default();
                    service.stages.push(StageName::new(stage.as_str())?);
                }
            }
            let url = loaded.secrets.entity_databases.get(name);
            tables.push(CountedTable {
                pipeline: Arc::new(configured.pipeline(name)?),
                url: url.map(|url| url.text.clone()),
                services,
                opened: OnceCell::new(),
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
                Some(url) => EntityDatabase::connect(url.expose_secret(), 1).await?,
                None => store.entity_database(),
            };
            database.open(self.pipeline.clone()).await
        };
        self.opened.get_or_try_init(open).await
    }

    /// Counts the rows at a service. A table that cannot be read has as many as it had last, so that it keeps nobody else from work.
    async fn in_flight(&self, store: &PostgresStore, service: &str) -> usize {
        let Some(CountedService { stages, known }) = self.services.get(service) else {
            return 0;
        };
        let counted = async { Ok::<_, EntityError>(self.table(store).await?.in_flight(stages).await?) };
        match counted.await {
            Ok(rows) => known.store(rows, Ordering::Relaxed),
            Err(error) => {
                debug!(entity = self.pipeline.name(), %error, "rows at a service cannot be counted now")
            }
        }
        known.load(Ordering::Relaxed)
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

#[cfg(test)]
mod tests {
    use chrono::Utc;
    use parkhang_core::domain::WorkerId;
    use parkhang_core::domain::testing::{new_job, stage};
    use parkhang_core::policy::transition::Event;
    use parkhang_state::{Change, EmbeddedPostgres, Expected, StateStore};
    use sqlx::postgres::PgConnectOptions;
    use sqlx::{AssertSqlSafe, ConnectOptions};

    use super::*;
    use crate::config::BucketArgs;

    const ENTITIES: &str = r#"
        [leads]
        stages = ["scrape", "intel"]
        stage.scrape.service = "scraper"
        stage.intel.service = "llm"

        [orders]
        stages = ["fetch"]
        stage.fetch.service = "scraper"
    "#;
    const STAGES: &str = "proofread.service = \"scraper\"";

    async fn run(options: &PgConnectOptions, script: String) {
        let mut connection = options.connect().await.unwrap();
        sqlx::raw_sql(AssertSqlSafe(script))
            .execute(&mut connection)
            .await
            .unwrap();
    }

    /// A task that the service has at the stage of a pipeline.
    async fn give_a_task(store: &PostgresStore) {
        let now = Utc::now();
        let job = store.create_job(&new_job(&["proofread"], 2), now).await.unwrap();
        let task = store.tasks(job.id).await.unwrap().remove(0);
        let leased = Event::Leased {
            stage: stage("proofread"),
            worker: WorkerId::of_service("scraper", &stage("proofread")),
            until: now,
        };
        let change = Change::new(Expected::of(&task), leased);
        let leased = store.commit(&[change], now).await.unwrap().remove(0);
        assert!(leased.applied().is_some());
    }

    /// Rows: 84, 242.
    #[tokio::test]
    async fn what_a_service_has_of_others_is_counted_and_kept_in_mind_where_it_cannot_be() {
        let server = EmbeddedPostgres::temporary().unwrap_or_else(|error| panic!("{error}"));
        let options = server.create_database("press").await.unwrap();
        let store = PostgresStore::connect_with(options.clone()).await.unwrap();
        let mut loaded = Loaded::apart(&BucketArgs::default()).unwrap();
        loaded.config.entity = toml::from_str(ENTITIES).unwrap();
        loaded.config.stage = toml::from_str(STAGES).unwrap();
        let rows = ElsewhereCounter::of_rows(&loaded, &store).unwrap();
        let beside = ElsewhereCounter::beside(&loaded, &store, "leads").unwrap();
        let counts = async || {
            let mut counts = Vec::new();
            for (counter, service) in [(&rows, "scraper"), (&rows, "llm"), (&beside, "scraper")] {
                counts.push(counter.in_flight(service).await.unwrap());
            }
            counts
        };
        assert_eq!(counts().await, [0, 0, 0], "there are no tables yet");

        for (name, entity) in &loaded.config.entity {
            run(&options, EntityTable::schema(&entity.pipeline(name).unwrap())).await;
        }
        let started = "insert into leads (scrape_status) select 'started' from generate_series(1, 3);
            insert into leads (scrape_status) values ('queued');
            insert into leads (intel_status) values ('started');
            insert into orders (fetch_status) select 'started' from generate_series(1, 2);";
        run(&options, started.to_owned()).await;
        give_a_task(&store).await;
        assert_eq!(counts().await, [5, 1, 3]);

        run(&options, "alter table leads rename to away".to_owned()).await;
        run(
            &options,
            "update orders set fetch_status = 'completed'".to_owned(),
        )
        .await;
        assert_eq!(counts().await, [3, 1, 1], "those that were counted last");
    }
}
