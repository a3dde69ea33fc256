//! Which state store a run uses.

use std::path::Path;
use std::sync::Arc;

use anyhow::{Context, Result};
use parkhang_core::domain::JobKey;
use parkhang_state::{EmbeddedPostgres, PostgresStore, StateStore};
use parkhang_store::artifact::Digest;

/// An open store, and the private server that it may live in.
#[derive(Debug)]
pub struct State {
    pub store: Arc<dyn StateStore>,
    /// Kept until the run ends: the last user to leave takes the server along.
    pub _server: Option<EmbeddedPostgres>,
    /// Name of the job in this store.
    pub job: JobKey,
}

/// Opens the database at `url`, or else a database of its own for the output folder in the private server.
pub async fn open(url: Option<&str>, out: &Path, job: &str) -> Result<State> {
    let job = JobKey::new(job).context("--job")?;
    if let Some(url) = url {
        let store = PostgresStore::connect(url)
            .await
            .context("cannot use the database of DATABASE_URL")?;
        return Ok(State {
            store: Arc::new(store),
            _server: None,
            job,
        });
    }
    let server = tokio::task::spawn_blocking(|| EmbeddedPostgres::open(None))
        .await
        .context("starting the private PostgreSQL")?
        .context("cannot start a private PostgreSQL")?;
    let options = server.create_database(&database_name(out)).await?;
    let store = PostgresStore::connect_with(options).await?;
    Ok(State {
        store: Arc::new(store),
        _server: Some(server),
        job,
    })
}

/// One database per output folder: the folder's state goes with it, and two folders cannot mix.
fn database_name(out: &Path) -> String {
    let digest = Digest::of(out.as_os_str().as_encoded_bytes()).to_hex();
    format!("parkhang_{}", &digest[..16])
}
