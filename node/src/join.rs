//! Joining of a process to the cluster, according to its configuration.

use std::io::ErrorKind;

use anyhow::{Context, Result};
use parkhang_actors::cluster::{
    Cluster, ClusterConfig, ClusterError, Cookie, NodeName, RedialPolicy, Security, Timings, TlsFiles,
    TlsIdentity,
};
use secrecy::ExposeSecret;

use crate::config::Loaded;
use crate::tls::warn_before_end;
use crate::whoami::host;

/// Name of the cluster among the endpoints of a process.
pub const SCOPE: &str = "parkhang";

/// Returns a unique name for this process, from the configuration or the host.
///
/// # Errors
///
/// If neither gives a valid name.
pub fn node_name(loaded: &Loaded) -> Result<NodeName> {
    let name = match &loaded.config.node.name {
        Some(name) => name.clone(),
        // The host's name says where to look when something is wrong with the node.
        None => host().context("the host has no name; set node.name")?,
    };
    NodeName::unique(&name).context("node.name")
}

/// Joins the cluster, as an orchestrator, which listens, or as a node that dials all orchestrators.
///
/// # Errors
///
/// If the cookie or a certificate is missing or not valid, or the address is in use.
pub async fn join(loaded: &Loaded, node: &NodeName, listens: bool) -> Result<Cluster> {
    let section = &loaded.config.cluster;
    let mut config = ClusterConfig::new(node.clone(), security(loaded)?);
    if listens {
        config.listen = Some(section.listen);
    } else {
        config.peers = section
            .orchestrators
            .iter()
            .map(|address| address.to_string().parse())
            .collect::<Result<_, _>>()?;
    }
    config.timings = Timings {
        dial: section.dial_timeout,
        handshake: section.handshake_timeout,
        idle: section.idle_timeout,
        unacknowledged: section.unacknowledged_timeout,
        redial: RedialPolicy {
            first: section.redial_first,
            longest: section.redial_max,
            ..RedialPolicy::default()
        },
    };
    config.max_frame = section.max_frame.as_u64();
    Cluster::start(config).await.map_err(not_joined)
}

fn not_joined(error: ClusterError) -> anyhow::Error {
    // The usual cause is a second orchestrator on one machine, for which the bare system error gives no hint.
    let taken = match &error {
        ClusterError::Listen { address, source } if source.kind() == ErrorKind::AddrInUse => Some(*address),
        _ => None,
    };
    let error = anyhow::Error::new(error);
    match taken {
        Some(address) => error.context(format!(
            "another process listens at {address}: set another address for this orchestrator in cluster.listen, and add it to \
            cluster.orchestrators"
        )),
        None => error.context("cannot join the cluster"),
    }
}

fn security(loaded: &Loaded) -> Result<Security> {
    let secret = loaded
        .secrets
        .cookie
        .as_ref()
        .context("a cluster needs a secret that its nodes share (cluster.cookie_file)")?;
    let cookie = Cookie::new(secret.text.expose_secret())?;
    let tls = &loaded.config.cluster.tls;
    let files = || {
        Some(TlsFiles {
            authority: tls.ca_file.clone()?,
            chain: tls.certificate_file.clone()?,
            key: tls.key_file.clone()?,
            revoked: tls.revoked_file.clone(),
        })
    };
    Ok(match files() {
        Some(files) => {
            warn_before_end("cluster.tls.certificate_file", &files.chain);
            Security::MutualTls {
                cookie,
                identity: TlsIdentity::load(files)?,
            }
        }
        // The check of the configuration has refused addresses beyond this machine without TLS, and the
        // transport does so again.
        None => Security::Loopback(cookie),
    })
}
