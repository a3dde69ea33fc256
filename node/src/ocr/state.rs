//! Opening of the state store of a run.

use std::path::Path;
use std::sync::Arc;

use anyhow::{Context, Result};
use chrono::Utc;
use parkhang_core::domain::JobKey;
use parkhang_state::{EmbeddedPostgres, FolderDatabases, PostgresStore, StateStore};
use parkhang_store::artifact::Digest;
use tracing::{info, warn};

/// State store of a run, and the private server that it may be on.
#[derive(Debug)]
pub struct State {
    pub store: Arc<dyn StateStore>,
    /// Kept until the run ends: the server stops with its last user.
    pub _server: Option<EmbeddedPostgres>,
    /// Name of the job in this store.
    pub job: JobKey,
}

/// Opens the database at `url`, or else the output folder's own database on the private server.
///
/// # Errors
///
/// If the database cannot be reached, or the private server cannot be started.
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
    // Starting a server waits for its files and its first answer, which must not block a thread of the
    // runtime.
    let server = tokio::task::spawn_blocking(|| EmbeddedPostgres::open(None))
        .await
        .context("starting the private PostgreSQL")?
        .context("cannot start a private PostgreSQL")?;
    let databases = server.folder_databases();
    let options = databases.open(&database_name(out), out, Utc::now()).await?;
    // Beside the run, which it neither delays nor fails.
    tokio::spawn(remove_unowned(databases));
    let store = PostgresStore::connect_with(options).await?;
    Ok(State {
        store: Arc::new(store),
        _server: Some(server),
        job,
    })
}

/// Removes the databases of folders that are gone.
async fn remove_unowned(databases: FolderDatabases) {
    match databases.remove_unowned(Utc::now()).await {
        Ok(folders) if folders.is_empty() => {}
        Ok(folders) => info!(
            "removed the databases of {} output folders that are gone",
            folders.len()
        ),
        Err(error) => warn!("cannot remove the databases of output folders that are gone: {error}"),
    }
}

/// Returns the name of the output folder's database. Each folder has its own, so that the state of two folders cannot mix.
fn database_name(out: &Path) -> String {
    let digest = Digest::of(out.as_os_str().as_encoded_bytes()).to_hex();
    format!("parkhang_{}", &digest[..16])
}
