//! Start of the interface from the configuration: address, tokens, TLS, limits.

use std::net::SocketAddr;
use std::path::Path;
use std::sync::Arc;

use anyhow::Result;

use super::desk::caller;
use super::router::router;
use crate::access::{Access, Caller, OWN_TOKEN, Tokens, own_token};
use crate::admin::Admin;
use crate::config::{ClusterConfig, Loaded};
use crate::http::{HttpListener, Shares, Site, acceptor};

/// Limits on connections. A proxy on this machine brings many users through one address, and a browser opens six connections.
const SHARES: Shares = Shares {
    all: 512,
    per_address: 256,
    strangers: 128,
    per_caller: 64,
};

/// Starts the interface at the address of the configuration; `None` if there is none.
///
/// # Errors
///
/// If a token file or certificate cannot be read, or the address cannot be listened at.
pub async fn serve(loaded: &Loaded, admin: Admin) -> Result<Option<HttpListener>> {
    let Some(address) = loaded.config.api.listen else {
        return Ok(None);
    };
    let tokens = match &loaded.config.api.tokens_file {
        Some(path) => Tokens::read(path)?,
        None => Tokens::default(),
    };
    let own = own_token(&loaded.state_dir()?)?;
    let owner = Caller {
        name: OWN_TOKEN.to_owned(),
        access: Access::Admin,
    };
    let tls = identity(&loaded.config, address)
        .map(|(certificate, key)| acceptor(certificate, key))
        .transpose()?;
    let tokens = Arc::new(tokens.with(owner, &own)?);
    let site = Site {
        router: router(admin, tokens.clone(), tls.is_some()),
        shares: SHARES,
        recognise: Arc::new(move |headers| caller(&tokens, headers).map(|caller| caller.name.clone())),
        tls,
    };
    HttpListener::serve_nearby(address, "api.listen", site)
        .await
        .map(Some)
}

/// Returns the certificate and key of the interface: its own if it has them, else the node's for an address beyond this machine,
/// unless `api.public` says that a proxy terminates TLS.
fn identity(config: &ClusterConfig, address: SocketAddr) -> Option<(&Path, &Path)> {
    let own = (&config.api.tls.certificate_file, &config.api.tls.key_file);
    let nodes = (&config.cluster.tls.certificate_file, &config.cluster.tls.key_file);
    let (certificate, key) = match own {
        (Some(certificate), Some(key)) => (certificate, key),
        _ if address.ip().is_loopback() || config.api.public => return None,
        _ => (nodes.0.as_ref()?, nodes.1.as_ref()?),
    };
    Some((certificate, key))
}
