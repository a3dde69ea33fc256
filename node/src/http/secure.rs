//! TLS of a listener.

use std::path::Path;
use std::sync::Arc;

use anyhow::{Context, Result};
use rustls::ServerConfig;
use rustls::crypto::aws_lc_rs;
use rustls::pki_types::PrivateKeyDer;
use rustls::pki_types::pem::PemObject;
use tokio_rustls::TlsAcceptor;

use crate::tls::identity::read_chain;

/// Returns the TLS acceptor for a certificate and its key, both in PEM. Clients need no certificate: tokens authenticate them.
///
/// # Errors
///
/// If a file cannot be read, or they do not belong together.
pub fn acceptor(certificate: &Path, key: &Path) -> Result<TlsAcceptor> {
    let chain = read_chain(certificate)?;
    let private =
        PrivateKeyDer::from_pem_file(key).with_context(|| format!("cannot read {}", key.display()))?;
    let mut config = ServerConfig::builder_with_provider(Arc::new(aws_lc_rs::default_provider()))
        .with_safe_default_protocol_versions()?
        .with_no_client_auth()
        .with_single_cert(chain, private)
        .with_context(|| format!("{} and {}", certificate.display(), key.display()))?;
    // HTTP/1.1 is all that `converse` speaks; a client that would prefer HTTP/2 learns it in the handshake.
    config.alpn_protocols = vec![b"http/1.1".to_vec()];
    Ok(Arc::new(config).into())
}
