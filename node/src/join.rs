//! Place of a process in the cluster, made from its configuration.

use std::io::ErrorKind;
use std::path::PathBuf;

use anyhow::{Context, Result};
use parkhang_actors::cluster::{
    Cluster, ClusterConfig, ClusterError, Cookie, NodeName, RedialPolicy, Security, Timings, TlsIdentity,
};
use secrecy::ExposeSecret;

use crate::config::Loaded;
use crate::whoami::host;

/// Name of the cluster among the gates of a process.
pub const SCOPE: &str = "parkhang";

/// A name for this process.
pub fn node_name(loaded: &Loaded) -> Result<NodeName> {
    let name = match &loaded.config.node.name {
        Some(name) => name.clone(),
        None => host().context("the host has no name; set node.name")?,
    };
    NodeName::unique(&name).context("node.name")
}

/// Joins as an orchestrator, which listens, or as a node that dials all orchestrators.
pub async fn join(loaded: &Loaded, node: &NodeName, listens: bool) -> Result<Cluster> {
    let section = &loaded.config.cluster;
    let mut config = ClusterConfig::new(node.clone(), security(loaded)?);
    if listens {
        config.listen = Some(section.listen);
    } else {
        let addresses = section.orchestrators.iter();
        config.peers = addresses
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
    let taken = match &error {
        ClusterError::Listen { address, source } if source.kind() == ErrorKind::AddrInUse => Some(*address),
        _ => None,
    };
    let error = anyhow::Error::new(error);
    match taken {
        Some(address) => error.context(format!(
            "another process listens at {address}: give this orchestrator an address of its own in cluster.listen, and name it in \
             cluster.orchestrators beside the other"
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
    let files = |ca: &Option<PathBuf>, certificate: &Option<PathBuf>, key: &Option<PathBuf>| {
        Some((ca.clone()?, certificate.clone()?, key.clone()?))
    };
    Ok(match files(&tls.ca_file, &tls.certificate_file, &tls.key_file) {
        Some((ca, certificate, key)) => Security::MutualTls {
            cookie,
            identity: TlsIdentity::load(&ca, &certificate, &key)?,
        },
        None => Security::Loopback(cookie),
    })
}
