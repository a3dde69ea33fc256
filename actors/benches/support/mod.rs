//! What the benches of the control plane share: a job of many volumes, and a private Postgres that flushes as a real one
//! does.

#![allow(dead_code, reason = "each bench uses a part of it")]

use std::sync::Arc;
use std::time::Duration;

use chrono::Utc;
use parkhang_actors::stage::ocr_pipeline;
use parkhang_core::domain::{Job, NewJob, testing};
use parkhang_state::{EmbeddedPostgres, PostgresStore, StateStore};
use sqlx::postgres::PgConnectOptions;

/// A server in a folder that goes with it.
pub(crate) struct Server {
    server: EmbeddedPostgres,
    _folder: tempfile::TempDir,
}

impl Server {
    pub(crate) fn start() -> Self {
        use std::os::unix::fs::PermissionsExt;
        let folder = tempfile::Builder::new().prefix("bench-").tempdir().unwrap();
        // The server runs under another account when this process is root's.
        let open = std::fs::Permissions::from_mode(0o755);
        std::fs::set_permissions(folder.path(), open).unwrap();
        let server =
            EmbeddedPostgres::open(Some(folder.path().join("pg"))).unwrap_or_else(|error| panic!("{error}"));
        Self {
            server,
            _folder: folder,
        }
    }

    /// Options of connections to a new database.
    pub(crate) async fn options(&self, database: &str) -> PgConnectOptions {
        self.server.create_database(database).await.unwrap()
    }

    /// A store in a database of its own. Commits wait for the disk, or with `flush` off only for the server.
    pub(crate) async fn store(&self, database: &str, flush: bool) -> Arc<dyn StateStore> {
        self.postgres(database, flush).await
    }

    /// The same, as the store that it is.
    pub(crate) async fn postgres(&self, database: &str, flush: bool) -> Arc<PostgresStore> {
        let options = self.options(database).await;
        let mode = if flush { "on" } else { "off" };
        let options = options.options([("synchronous_commit", mode)]);
        Arc::new(PostgresStore::connect_with(options).await.unwrap())
    }
}

/// Lets a time pass that is a part of what is measured, such as the work of a service.
pub(crate) async fn pass(time: Duration) {
    let mut times = tokio::time::interval(time);
    // The first tick is at once.
    times.tick().await;
    times.tick().await;
}

pub(crate) fn new_job(name: &str, volumes: usize) -> NewJob {
    NewJob {
        key: Some(name.to_owned().try_into().unwrap()),
        pipeline: ocr_pipeline(),
        ..testing::new_job(&["ocr"], volumes)
    }
}

pub(crate) async fn job_of(store: &Arc<dyn StateStore>, volumes: usize) -> Job {
    store
        .create_job(&new_job("bench", volumes), Utc::now())
        .await
        .unwrap()
}
