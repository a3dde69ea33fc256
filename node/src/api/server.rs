use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::path::Path;
use std::sync::Arc;

use anyhow::{Context, Result};
use axum::Router;
use chrono::Utc;
use secrecy::ExposeSecret;

use super::files::FILES;
use super::per_caller::PerCaller;
use super::pictures::Pictures;
use super::router::router;
use super::state::{ApiState, Callers};
use crate::access::{Access, Caller, OWN_TOKEN, Sessions, Tokens, own_token};
use crate::admin::Admin;
use crate::client::Registration;
use crate::config::{ClusterConfig, Loaded};
use crate::http::{Certificate, HttpListener, Shares, Site};
use crate::tls::identity::read_details;
use crate::tls::warn_before_end;

/// Limits on connections. A proxy on this machine brings many users through one address, and a browser opens six connections.
const SHARES: Shares = Shares {
    all: 512,
    per_address: 256,
    unauthenticated: 128,
    per_caller: 64,
};

/// The interface of an orchestrator, until it is dropped.
#[derive(Debug)]
pub struct Served {
    /// Gone before nobody answers any more.
    _registration: Registration,
    listener: HttpListener,
}

impl Served {
    /// URL for browsers.
    pub fn url(&self) -> String {
        self.listener.url()
    }
}

/// Takes commands where the configuration says, in the name of `node`; `None` if it says nowhere.
///
/// `beside` has further routes, which need no token.
pub async fn serve(
    loaded: &Loaded,
    admin: Admin,
    node: &str,
    beside: Option<Router>,
) -> Result<Option<Served>> {
    let Some(address) = loaded.config.api.listen else {
        return Ok(None);
    };
    let tokens = match &loaded.config.api.tokens_file {
        Some(path) => Tokens::read(path)?,
        None => Tokens::default(),
    };
    let state = loaded.state_dir()?;
    // The token exists before the registration is written, so whoever finds the registration finds the token
    // too.
    let own = own_token(&state)?;
    let owner = Caller {
        name: OWN_TOKEN.to_owned(),
        access: Access::Admin,
    };
    let identity = identity(&loaded.config, address);
    let tls = identity
        .map(|(certificate, key)| Certificate::read(certificate, key))
        .transpose()?;
    // Orchestrators of a cluster know each other's sessions; one that is alone may have no secret but its token.
    let secret = loaded.secrets.cookie.as_ref();
    let secret = secret.map_or(own.as_str(), |secret| secret.text.expose_secret());
    let callers = Callers {
        sessions: Arc::new(Sessions::open(secret, &state, Utc::now())?),
        tokens: Arc::new(tokens.with(owner, &own)?),
    };
    let api = ApiState {
        admin,
        callers: callers.clone(),
        pictures: Pictures::new().context("cannot start the threads that draw pictures")?,
        files: PerCaller::new(FILES),
        secure: tls.is_some(),
    };
    let site = Site {
        router: router(api, node).merge(beside.unwrap_or_default()),
        shares: SHARES,
        recognise: Arc::new(move |headers| callers.caller(headers).map(|caller| caller.name.clone())),
        tls,
    };
    if let Some((certificate, _)) = identity.filter(|_| loaded.config.api.tls.certificate_file.is_some()) {
        warn_before_end("api.tls.certificate_file", certificate);
    }
    // A file that is missing or wrong has ended the start above, before the port is taken.
    let listener = HttpListener::serve(address, "api.listen", site).await?;
    let near = from_here(listener.address());
    let url = match identity {
        // Its name is in the certificate, which seldom holds addresses of loopback.
        Some((certificate, _)) => match read_details(certificate)?.hosts.first() {
            // A wildcard is no name that could be dialled.
            Some(host) if !host.contains('*') => format!("https://{}:{}", bracketed(host), near.port()),
            _ => format!("https://{near}"),
        },
        None => format!("http://{near}"),
    };
    Ok(Some(Served {
        _registration: Registration::write(&state, node, &url, near)?,
        listener,
    }))
}

/// The address by which this machine reaches one that it listens on.
fn from_here(listens: SocketAddr) -> SocketAddr {
    let ip = match listens.ip() {
        // The unspecified address means "any" to a listener; as the target of a connection it is not
        // portable.
        IpAddr::V4(ip) if ip.is_unspecified() => Ipv4Addr::LOCALHOST.into(),
        IpAddr::V6(ip) if ip.is_unspecified() => Ipv6Addr::LOCALHOST.into(),
        ip => ip,
    };
    SocketAddr::new(ip, listens.port())
}

/// A host as a URL writes it.
fn bracketed(host: &str) -> String {
    if host.contains(':') {
        format!("[{host}]")
    } else {
        host.to_owned()
    }
}

/// Returns the certificate and key of the interface: its own if it has them, else the node's for an address beyond this machine,
/// unless `api.public` says that a proxy terminates TLS.
fn identity(config: &ClusterConfig, address: SocketAddr) -> Option<(&Path, &Path)> {
    let own = (&config.api.tls.certificate_file, &config.api.tls.key_file);
    let nodes = (&config.cluster.tls.certificate_file, &config.cluster.tls.key_file);
    let (certificate, key) = match own {
        (Some(certificate), Some(key)) => (certificate, key),
        // The certificate of the node is issued for its address among the nodes, so on loopback it would only
        // fail to verify.
        _ if address.ip().is_loopback() || config.api.public => return None,
        _ => (nodes.0.as_ref()?, nodes.1.as_ref()?),
    };
    Some((certificate, key))
}
