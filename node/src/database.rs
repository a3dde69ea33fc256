//! Database of a cluster, according to its configuration: on the operator's own server, or private on this machine.
//!
//! A node creates a private database if there is none. A command of an operator does so with care: a database that no orchestrator
//! reads would look like an empty cluster, or keep a job that nobody runs.

use std::path::Path;
use std::time::Duration;

use anyhow::{Context, Result, bail};
use futures::future::join_all;
use parkhang_state::{EmbeddedPostgres, EntityDatabase, PostgresStore, StateError};
use secrecy::ExposeSecret;
use tokio::net::TcpStream;
use tokio::time::timeout;
use tracing::warn;

use crate::config::{Cluster, HostPort, Loaded};

/// Name of a cluster's database in the private server.
const DATABASE: &str = "parkhang";
/// Timeout for finding out whether an orchestrator listens at an address.
const PROBE: Duration = Duration::from_secs(1);

/// Opener of the database, which decides whether a private one may be created if there is none.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Opener {
    Node,
    /// A command that may be the first of a cluster, such as one that creates a job.
    FirstCommand,
    /// A command about something that exists already.
    Command,
}

/// State of the cluster, and the private server that it may be on. The server stops with the last process that uses it.
#[derive(Debug)]
pub struct Database {
    pub store: PostgresStore,
    /// Description of the database for messages, without secrets.
    pub place: String,
    _server: Option<EmbeddedPostgres>,
}

/// Opens the database for a node, and creates a private one if there is none.
///
/// # Errors
///
/// If it cannot be reached, or its schema is of a newer version.
pub async fn database(loaded: &Loaded) -> Result<Database> {
    open(loaded, Opener::Node).await
}

/// Opens the database for a command of an operator. If there is none, a command that `may_be_first` creates a private one.
///
/// # Errors
///
/// If it cannot be reached, if there is none and the command may not be the first, or if the orchestrators of the configuration would
/// not read a database created here.
pub async fn database_for_command(loaded: &Loaded, may_be_first: bool) -> Result<Database> {
    let opener = if may_be_first {
        Opener::FirstCommand
    } else {
        Opener::Command
    };
    let database = open(loaded, opener).await?;
    // Only a private database can be the wrong one by accident, and one with a leader is right.
    if database._server.is_some() && database.store.leader().await?.is_none() {
        warn_of_others(loaded, &database.place).await;
    }
    Ok(database)
}

/// Opens the database that the table of an entity is in: its own, with so many connections at most, or that of the cluster.
///
/// # Errors
///
/// If its own cannot be reached.
pub async fn entity_database(
    loaded: &Loaded,
    store: &PostgresStore,
    name: &str,
    connections: u32,
) -> Result<EntityDatabase, StateError> {
    match loaded.secrets.entity_databases.get(name) {
        Some(url) => EntityDatabase::connect(url.text.expose_secret(), connections).await,
        None => Ok(store.entity_database()),
    }
}

async fn open(loaded: &Loaded, opener: Opener) -> Result<Database> {
    let idle = loaded.config.orchestrator.leadership.idle_in_transaction;
    // A named database always wins: a private one beside it would split the state of the cluster.
    if let Some(url) = &loaded.secrets.database_url {
        let options = PostgresStore::options_of(url.text.expose_secret())?;
        let store = PostgresStore::connect_within(options, idle)
            .await
            .context("cannot use the database")?;
        return Ok(Database {
            place: format!("the database {}", store.place()),
            store,
            _server: None,
        });
    }
    if !loaded.config.state.embedded {
        bail!(
            "there is no database: set DATABASE_URL or state.database_url_file, or allow a private one by state.embedded"
        );
    }
    let folder = loaded.state_dir()?.join("pg");
    let has_server = EmbeddedPostgres::is_made(&folder);
    if !has_server {
        // Before the server is made, so that a refused command leaves nothing behind.
        permit(loaded, opener, &folder).await?;
    }
    let path = folder.clone();
    // Making and starting a server takes seconds and blocks.
    let server = tokio::task::spawn_blocking(move || EmbeddedPostgres::open(Some(path)))
        .await
        .context("starting the private PostgreSQL")?
        .context("cannot start a private PostgreSQL; with a server of your own, name it in state.database_url_file")?;
    let shown = server.folder().display();
    // The server may exist without the cluster's database: `node ocr` keeps its state on it too.
    let has_database = has_server && server.has_database(DATABASE).await?;
    if has_server && !has_database {
        permit(loaded, opener, &folder).await?;
    }
    let options = if has_database {
        server.options(DATABASE)
    } else {
        let source = loaded.source();
        warn!("{source}; new private database in {shown}");
        server.create_database(DATABASE).await?
    };
    let place = format!("the private database in {shown}");
    Ok(Database {
        store: PostgresStore::connect_within(options, idle).await?,
        place,
        _server: Some(server),
    })
}

/// Checks that a private database may be created in the folder.
///
/// # Errors
///
/// With where to give the command instead.
async fn permit(loaded: &Loaded, opener: Opener, folder: &Path) -> Result<()> {
    if opener == Opener::Node {
        return Ok(());
    }
    let (source, folder) = (loaded.source(), folder.display());
    if let Some(others) = others(&loaded.config.cluster).await {
        bail!(
            "no database in {folder} ({source}), and one that was begun here would not be that of the orchestrator at {others}: \
             give the command to itself with --server URL, or on its machine with its configuration (--config-file FILE or \
             PARKHANG_CONFIG); or name its database in DATABASE_URL"
        );
    }
    if opener == Opener::Command {
        bail!(
            "no database here yet: none in {folder} ({source}); node --role orchestrator begins one, and another configuration is \
             named by --config-file FILE or PARKHANG_CONFIG, an orchestrator elsewhere by --server URL"
        );
    }
    Ok(())
}

/// Returns the orchestrators that are certainly on other machines, or that answer although this machine has no database: they use
/// another one.
async fn others(cluster: &Cluster) -> Option<String> {
    let named = &cluster.orchestrators;
    // Other machines are certain by their addresses alone, so nobody has to answer.
    if !named.is_empty() && named.iter().all(|address| is_another_machine(cluster, address)) {
        return Some(in_words(named.iter()));
    }
    let answering = answering(named).await;
    (!answering.is_empty()).then(|| in_words(answering.into_iter()))
}

/// Warns if no orchestrator leads in the database but one answers: it uses another database.
async fn warn_of_others(loaded: &Loaded, place: &str) {
    let answering = answering(&loaded.config.cluster.orchestrators).await;
    if !answering.is_empty() {
        let others = in_words(answering.into_iter());
        warn!(
            "nobody leads in {place}, and the orchestrator at {others} may have another one: --server URL asks that"
        );
    }
}

fn is_another_machine(cluster: &Cluster, address: &HostPort) -> bool {
    let is_own =
        cluster.advertise.as_ref() == Some(address) || address.to_string() == cluster.listen.to_string();
    !is_own && !address.is_loopback()
}

/// Returns the addresses at which something accepts connections.
async fn answering(addresses: &[HostPort]) -> Vec<&HostPort> {
    let answers = join_all(addresses.iter().map(async |address| {
        let dialled = TcpStream::connect((address.host.as_str(), address.port));
        // That something listens is enough: this only decides about a warning or a refusal, and needs no
        // token.
        matches!(timeout(PROBE, dialled).await, Ok(Ok(_))).then_some(address)
    }));
    answers.await.into_iter().flatten().collect()
}

fn in_words<'a>(addresses: impl Iterator<Item = &'a HostPort>) -> String {
    let addresses: Vec<String> = addresses.map(ToString::to_string).collect();
    addresses.join(" or ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn orchestrators_are_elsewhere_by_their_address_or_because_they_run() {
        let mut cluster = Loaded::apart(&crate::config::BucketArgs::default())
            .unwrap()
            .config
            .cluster;
        let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let here = listener.local_addr().unwrap();
        let named = |addresses: &[&str]| -> Vec<HostPort> {
            addresses.iter().map(|address| address.parse().unwrap()).collect()
        };
        cluster.orchestrators = named(&["orch.invalid:7400"]);
        assert_eq!(others(&cluster).await.unwrap(), "orch.invalid:7400");
        cluster.advertise = Some("orch.invalid:7400".parse().unwrap());
        assert_eq!(others(&cluster).await, None, "this very node");
        cluster.orchestrators = named(&["127.0.0.1:1"]);
        assert_eq!(others(&cluster).await, None, "nobody is there");
        cluster.orchestrators = named(&["127.0.0.1:1", &here.to_string()]);
        assert_eq!(others(&cluster).await.unwrap(), here.to_string());
    }
}
