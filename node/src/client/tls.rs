//! Whose certificates are believed: the authorities of this machine, and that of the cluster where the configuration names it.

use std::path::Path;
use std::sync::Arc;

use anyhow::{Context, Result};
use rustls::crypto::aws_lc_rs;
use rustls::{ClientConfig, RootCertStore};
use tokio_rustls::TlsConnector;

use crate::tls::identity::read_chain;

/// Connector that believes those certificates and shows none of its own.
///
/// # Errors
///
/// When the file of the cluster's authority cannot be read, or holds no certificate of one.
pub fn connector(ca: Option<&Path>) -> Result<TlsConnector> {
    let mut roots = RootCertStore::empty();
    let found = rustls_native_certs::load_native_certs();
    // Of those that a machine comes with, some may be unusual; and a machine without any still knows its cluster's.
    roots.add_parsable_certificates(found.certs);
    if let Some(path) = ca {
        for certificate in read_chain(path)? {
            roots
                .add(certificate)
                .with_context(|| format!("cluster.tls.ca_file: {}", path.display()))?;
        }
    }
    let mut config = ClientConfig::builder_with_provider(Arc::new(aws_lc_rs::default_provider()))
        .with_safe_default_protocol_versions()?
        .with_root_certificates(roots)
        .with_no_client_auth();
    // The client speaks HTTP/1.1 only, so it offers nothing else to a proxy in front of the orchestrator.
    config.alpn_protocols = vec![b"http/1.1".to_vec()];
    Ok(Arc::new(config).into())
}
