//! Certificate of a node, and its demands on peers: TLS 1.3, and a node's certificate of the same authority, in both directions. The
//! certificate of a dialled peer must also bear the name by which the peer was dialled.
//!
//! A certificate is a node's if it may be used on both sides of a connection: one that was issued for a web server alone takes part in no
//! cluster. The files are read anew when they have changed, so that a renewed certificate needs no restart, and a peer whose
//! certificate has been revoked loses its session.

use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::watch;
use tokio_rustls::rustls::client::WebPkiServerVerifier;
use tokio_rustls::rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use tokio_rustls::rustls::crypto::{CryptoProvider, aws_lc_rs};
use tokio_rustls::rustls::pki_types::pem::{self, PemObject};
use tokio_rustls::rustls::pki_types::{
    CertificateDer, CertificateRevocationListDer, PrivateKeyDer, ServerName, UnixTime,
};
use tokio_rustls::rustls::server::danger::ClientCertVerifier;
use tokio_rustls::rustls::server::{VerifierBuilderError, WebPkiClientVerifier};
use tokio_rustls::rustls::version::TLS13;
use tokio_rustls::rustls::{
    ClientConfig, DigitallySignedStruct, RootCertStore, ServerConfig, SignatureScheme,
};
use tokio_rustls::{TlsAcceptor, TlsConnector, rustls};
use tracing::{info, warn};

use super::changing_files::ChangingFiles;

/// Between two looks whether the files have changed. Each connection looks as well.
pub(super) const LOOK: Duration = Duration::from_secs(10);

/// Reason why a node has no usable certificate.
#[derive(Debug, thiserror::Error)]
pub enum TlsError {
    /// A file cannot be read.
    #[error("cannot read {}", .path.display())]
    Read { path: PathBuf, source: std::io::Error },
    /// A file is not in PEM form.
    #[error("{what}: not PEM: {reason}")]
    Pem { what: &'static str, reason: String },
    /// A file holds no certificate, or no list of revoked ones.
    #[error("{what}: nothing in it")]
    Empty { what: &'static str },
    /// The authority cannot be used to check peers.
    #[error("certificate authority")]
    Authority(#[from] VerifierBuilderError),
    /// The certificate and the key do not fit, or cannot be used.
    #[error(transparent)]
    Rustls(#[from] rustls::Error),
}

/// Files of a node's identity, in PEM.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TlsFiles {
    /// Certificate of the authority.
    pub authority: PathBuf,
    /// The node's certificate, followed by the intermediate ones.
    pub chain: PathBuf,
    /// Key of the node's certificate.
    pub key: PathBuf,
    /// Lists of certificates that the authority has revoked.
    pub revoked: Option<PathBuf>,
}

/// A node's certificate and key, the authority that it trusts, and the certificates that this has revoked.
#[derive(Clone)]
pub struct TlsIdentity(Arc<Shared>);

struct Shared {
    files: TlsFiles,
    loaded: watch::Sender<Arc<Loaded>>,
    changing: ChangingFiles,
}

/// Both sides of a connection and the demands on a node's certificate, made of the files.
struct Loaded {
    acceptor: TlsAcceptor,
    connector: TlsConnector,
    nodes: Arc<dyn ClientCertVerifier>,
}

impl TlsIdentity {
    /// Reads the files.
    ///
    /// # Errors
    ///
    /// When one of them cannot be read or used.
    pub fn load(files: TlsFiles) -> Result<Self, TlsError> {
        let paths = [&files.authority, &files.chain, &files.key].into_iter();
        let changing = ChangingFiles::new(paths.chain(&files.revoked).cloned().collect());
        let loaded = watch::Sender::new(Arc::new(Loaded::read(&files)?));
        Ok(Self(Arc::new(Shared {
            files,
            loaded,
            changing,
        })))
    }

    pub(super) fn acceptor(&self) -> TlsAcceptor {
        self.current().acceptor.clone()
    }

    pub(super) fn connector(&self) -> TlsConnector {
        self.current().connector.clone()
    }

    fn current(&self) -> Arc<Loaded> {
        self.look();
        self.0.loaded.borrow().clone()
    }

    /// Reads the files anew if any of them has changed. Where they cannot be used, what was read before stays.
    pub(super) fn look(&self) {
        let Shared {
            files,
            loaded,
            changing,
        } = &*self.0;
        changing.if_changed(|| match Loaded::read(files) {
            Ok(anew) => {
                info!("certificates have changed and are used from now on");
                loaded.send_replace(Arc::new(anew));
            }
            Err(error) => {
                let error = &error as &dyn std::error::Error;
                warn!(
                    error,
                    "certificates have changed and cannot be used; those that were read before stay in use"
                );
            }
        });
    }

    /// Waits until the certificate of a peer is not accepted any more.
    pub(super) async fn refuses(&self, peer: &[CertificateDer<'static>]) {
        let mut loaded = self.0.loaded.subscribe();
        // The sender is this identity's own and outlives the wait.
        let _ = loaded.wait_for(|loaded| loaded.refuses(peer)).await;
    }
}

impl Loaded {
    fn read(files: &TlsFiles) -> Result<Self, TlsError> {
        let read = |path: &Path| {
            std::fs::read(path).map_err(|source| TlsError::Read {
                path: path.to_owned(),
                source,
            })
        };
        let revoked = files.revoked.as_deref().map(read).transpose()?;
        Self::of(
            &read(&files.authority)?,
            &read(&files.chain)?,
            &read(&files.key)?,
            revoked.as_deref(),
        )
    }

    fn of(authority: &[u8], chain: &[u8], key: &[u8], revoked: Option<&[u8]>) -> Result<Self, TlsError> {
        let mut roots = RootCertStore::empty();
        for certificate in certificates("certificate authority", authority)? {
            roots.add(certificate)?;
        }
        let roots = Arc::new(roots);
        let chain = certificates("node certificate", chain)?;
        let key = PrivateKeyDer::from_pem_slice(key).map_err(|error| not_pem("node key", &error))?;
        let revoked = revoked.map(lists).transpose()?.unwrap_or_default();
        let provider: Arc<CryptoProvider> = Arc::new(aws_lc_rs::default_provider());

        // An authority of an earlier version has no list, and one of several may have none.
        let nodes = WebPkiClientVerifier::builder_with_provider(roots.clone(), provider.clone())
            .with_crls(revoked)
            .only_check_end_entity_revocation()
            .allow_unknown_revocation_status()
            .build()?;
        let server = ServerConfig::builder_with_provider(provider.clone())
            .with_protocol_versions(&[&TLS13])?
            .with_client_cert_verifier(nodes.clone())
            .with_single_cert(chain.clone(), key.clone_key())?;
        let dialled = DialledNode {
            servers: WebPkiServerVerifier::builder_with_provider(roots, provider.clone()).build()?,
            nodes: nodes.clone(),
        };
        let client = ClientConfig::builder_with_provider(provider)
            .with_protocol_versions(&[&TLS13])?
            .dangerous()
            .with_custom_certificate_verifier(Arc::new(dialled))
            .with_client_auth_cert(chain, key)?;
        Ok(Self {
            acceptor: Arc::new(server).into(),
            connector: Arc::new(client).into(),
            nodes,
        })
    }

    fn refuses(&self, peer: &[CertificateDer<'static>]) -> bool {
        peer.split_first().is_none_or(|(certificate, others)| {
            let verified = self
                .nodes
                .verify_client_cert(certificate, others, UnixTime::now());
            verified.is_err()
        })
    }
}

/// Demands on the certificate of a peer that was dialled: those on any server's, and those on a node's.
#[derive(Debug)]
struct DialledNode {
    servers: Arc<WebPkiServerVerifier>,
    nodes: Arc<dyn ClientCertVerifier>,
}

impl ServerCertVerifier for DialledNode {
    fn verify_server_cert(
        &self,
        end_entity: &CertificateDer<'_>,
        intermediates: &[CertificateDer<'_>],
        server_name: &ServerName<'_>,
        ocsp_response: &[u8],
        now: UnixTime,
    ) -> Result<ServerCertVerified, rustls::Error> {
        self.nodes.verify_client_cert(end_entity, intermediates, now)?;
        self.servers
            .verify_server_cert(end_entity, intermediates, server_name, ocsp_response, now)
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        self.servers
            .verify_tls12_signature(message, certificate, signature)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        self.servers
            .verify_tls13_signature(message, certificate, signature)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.servers.supported_verify_schemes()
    }
}

impl fmt::Debug for TlsIdentity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("TlsIdentity").field(&self.0.files).finish()
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

/// Reads the lists of a file. One without any was cut off while it was copied: an authority that has revoked nothing has a list that says so.
fn lists(text: &[u8]) -> Result<Vec<CertificateRevocationListDer<'static>>, TlsError> {
    let what = "revoked certificates";
    let lists = CertificateRevocationListDer::pem_slice_iter(text)
        .collect::<Result<Vec<_>, _>>()
        .map_err(|error| not_pem(what, &error))?;
    if lists.is_empty() {
        return Err(TlsError::Empty { what });
    }
    Ok(lists)
}

fn not_pem(what: &'static str, error: &pem::Error) -> TlsError {
    TlsError::Pem {
        what,
        reason: error.to_string(),
    }
}
