//! Certificate of a node, and its demands on peers: TLS 1.3, and a certificate of the same authority, in both directions. The
//! certificate of a dialled peer must also bear the name by which the peer was dialled.

use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use tokio_rustls::rustls::client::WebPkiServerVerifier;
use tokio_rustls::rustls::crypto::{CryptoProvider, aws_lc_rs};
use tokio_rustls::rustls::pki_types::pem::{self, PemObject};
use tokio_rustls::rustls::pki_types::{CertificateDer, PrivateKeyDer};
use tokio_rustls::rustls::server::{VerifierBuilderError, WebPkiClientVerifier};
use tokio_rustls::rustls::version::TLS13;
use tokio_rustls::rustls::{ClientConfig, RootCertStore, ServerConfig};
use tokio_rustls::{TlsAcceptor, TlsConnector, rustls};

/// Reason why a node has no usable certificate.
#[derive(Debug, thiserror::Error)]
pub enum TlsError {
    /// A file cannot be read.
    #[error("cannot read {}", .path.display())]
    Read { path: PathBuf, source: std::io::Error },
    /// A file is not in PEM form.
    #[error("{what}: not PEM: {reason}")]
    Pem { what: &'static str, reason: String },
    /// A file holds no certificate.
    #[error("{what}: no certificate in it")]
    Empty { what: &'static str },
    /// The authority cannot be used to check peers.
    #[error("certificate authority")]
    Authority(#[from] VerifierBuilderError),
    /// The certificate and the key do not fit, or cannot be used.
    #[error(transparent)]
    Rustls(#[from] rustls::Error),
}

/// A node's certificate and key, and the authority that it trusts.
#[derive(Clone)]
pub struct TlsIdentity {
    pub(super) acceptor: TlsAcceptor,
    pub(super) connector: TlsConnector,
}

impl TlsIdentity {
    /// Reads the PEM files of the authority, of the node's certificate chain, and of its key.
    ///
    /// # Errors
    ///
    /// When a file cannot be read or used.
    pub fn load(authority: &Path, chain: &Path, key: &Path) -> Result<Self, TlsError> {
        let read = |path: &Path| {
            std::fs::read(path).map_err(|source| TlsError::Read {
                path: path.to_owned(),
                source,
            })
        };
        Self::from_pem(&read(authority)?, &read(chain)?, &read(key)?)
    }

    /// Makes an identity of the contents of these files.
    ///
    /// # Errors
    ///
    /// When one of them cannot be used.
    pub fn from_pem(authority: &[u8], chain: &[u8], key: &[u8]) -> Result<Self, TlsError> {
        let mut roots = RootCertStore::empty();
        for certificate in certificates("certificate authority", authority)? {
            roots.add(certificate)?;
        }
        let roots = Arc::new(roots);
        let chain = certificates("node certificate", chain)?;
        let key = PrivateKeyDer::from_pem_slice(key).map_err(|error| not_pem("node key", &error))?;
        let provider: Arc<CryptoProvider> = Arc::new(aws_lc_rs::default_provider());

        let clients = WebPkiClientVerifier::builder_with_provider(roots.clone(), provider.clone()).build()?;
        let server = ServerConfig::builder_with_provider(provider.clone())
            .with_protocol_versions(&[&TLS13])?
            .with_client_cert_verifier(clients)
            .with_single_cert(chain.clone(), key.clone_key())?;
        let servers = WebPkiServerVerifier::builder_with_provider(roots, provider.clone()).build()?;
        let client = ClientConfig::builder_with_provider(provider)
            .with_protocol_versions(&[&TLS13])?
            .with_webpki_verifier(servers)
            .with_client_auth_cert(chain, key)?;
        Ok(Self {
            acceptor: Arc::new(server).into(),
            connector: Arc::new(client).into(),
        })
    }
}

impl fmt::Debug for TlsIdentity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("TlsIdentity").finish_non_exhaustive()
    }
}

fn certificates(what: &'static str, text: &[u8]) -> Result<Vec<CertificateDer<'static>>, TlsError> {
    let certificates = CertificateDer::pem_slice_iter(text)
        .collect::<Result<Vec<_>, _>>()
        .map_err(|error| not_pem(what, &error))?;
    if certificates.is_empty() {
        return Err(TlsError::Empty { what });
    }
    Ok(certificates)
}

fn not_pem(what: &'static str, error: &pem::Error) -> TlsError {
    TlsError::Pem {
        what,
        reason: error.to_string(),
    }
}
