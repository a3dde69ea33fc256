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

/// A proxy on this machine brings many people through one address; a browser opens six connections.
const SHARES: Shares = Shares {
    all: 512,
    per_address: 256,
    strangers: 128,
    per_caller: 64,
};

/// Takes commands where the configuration says; `None` if it says nowhere.
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
    let identity = identity(&loaded.config, address);
    let tls = identity
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

/// Certificate and key of the interface: its own, else beyond this machine the node's, but for a proxy that has TLS.
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
