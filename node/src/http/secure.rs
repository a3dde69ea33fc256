//! TLS of a listener.

use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

use anyhow::{Context, Result};
use parkhang_actors::cluster::ChangingFiles;
use rustls::ServerConfig;
use rustls::crypto::aws_lc_rs;
use rustls::pki_types::PrivateKeyDer;
use rustls::pki_types::pem::PemObject;
use tokio_rustls::TlsAcceptor;
use tracing::{info, warn};

use crate::tls::identity::read_chain;

/// Certificate and key of a listener. A renewed certificate needs no restart: the files are read anew when they have changed.
#[derive(Clone)]
pub struct Certificate(Arc<Files>);

struct Files {
    certificate: PathBuf,
    key: PathBuf,
    changing: ChangingFiles,
    acceptor: Mutex<TlsAcceptor>,
}

impl Certificate {
    /// Reads a certificate and its key, both in PEM. Clients need no certificate: tokens authenticate them.
    ///
    /// # Errors
    ///
    /// If a file cannot be read, or they do not belong together.
    pub fn read(certificate: &Path, key: &Path) -> Result<Self> {
        let changing = ChangingFiles::new(vec![certificate.to_owned(), key.to_owned()]);
        let acceptor = Mutex::new(acceptor(certificate, key)?);
        Ok(Self(Arc::new(Files {
            certificate: certificate.to_owned(),
            key: key.to_owned(),
            changing,
            acceptor,
        })))
    }

    /// Returns the acceptor of the files as they are now, or where they cannot be used, of those that were used before.
    pub fn acceptor(&self) -> TlsAcceptor {
        let Files {
            certificate,
            key,
            changing,
            acceptor: current,
        } = &*self.0;
        // It is replaced as a whole.
        let current = || current.lock().unwrap_or_else(PoisonError::into_inner);
        changing.if_changed(|| match acceptor(certificate, key) {
            Ok(anew) => {
                info!(certificate = %certificate.display(), "the certificate has changed and is used from now on");
                *current() = anew;
            }
            Err(error) => {
                let error = format!("{error:#}");
                warn!(
                    error,
                    "the certificate has changed and cannot be used; the one before stays in use"
                );
            }
        });
        current().clone()
    }
}

impl fmt::Debug for Certificate {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter
            .debug_tuple("Certificate")
            .field(&self.0.certificate)
            .finish()
    }
}

fn acceptor(certificate: &Path, key: &Path) -> Result<TlsAcceptor> {
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
