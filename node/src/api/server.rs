use std::fs::{OpenOptions, read_to_string};
use std::io::{ErrorKind, Write};
use std::net::SocketAddr;
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;

use anyhow::{Context, Result};

use super::router::router;
use super::tokens::{Caller, Tokens, token};
use crate::admin::{Access, Admin};
use crate::config::{ClusterConfig, Loaded};
use crate::http::{HttpListener, acceptor};

/// Name of the token's file in the state folder, and of whoever presents it.
const OWN_TOKEN: &str = "api-token";

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
    let router = router(admin, tokens.with(owner, &own), tls.is_some());
    HttpListener::serve_nearby(address, "api.listen", router, tls)
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

/// The token that whoever runs the node can read: made once, and readable by nobody else.
fn own_token(folder: &Path) -> Result<String> {
    let path = folder.join(OWN_TOKEN);
    std::fs::create_dir_all(folder).with_context(|| format!("cannot make {}", folder.display()))?;
    let file = OpenOptions::new()
        .write(true)
        .create_new(true)
        .mode(0o600)
        .open(&path);
    let written = match file {
        Ok(mut file) => file.write_all(format!("{}\n", token()).as_bytes()),
        Err(error) if error.kind() == ErrorKind::AlreadyExists => Ok(()),
        Err(error) => Err(error),
    };
    written.with_context(|| format!("cannot write {}", path.display()))?;
    let token = read_to_string(&path).with_context(|| format!("cannot read {}", path.display()))?;
    Ok(token.trim().to_owned())
}
