//! Reading certificates, and whether a node could use what it has been given.

use std::net::IpAddr;
use std::path::Path;
use std::sync::Arc;

use chrono::{DateTime, Utc};
use rustls::RootCertStore;
use rustls::client::WebPkiServerVerifier;
use rustls::client::danger::ServerCertVerifier;
use rustls::crypto::{CryptoProvider, aws_lc_rs};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName, UnixTime};
use rustls::server::WebPkiClientVerifier;
use rustls::sign::CertifiedKey;
use x509_parser::extensions::GeneralName;

use super::TlsError;

/// The files of a node, in PEM.
#[derive(Debug, Clone, Copy)]
pub struct Identity<'a> {
    /// The node's certificate first, then those between it and the authority.
    pub certificate: &'a Path,
    pub key: &'a Path,
    pub ca: &'a Path,
}

impl Identity<'_> {
    /// Whether peers that trust the authority would take the certificate from a node that dials them and, where it also
    /// listens under a name, from a node of that name; and whether the key belongs to it.
    pub fn verify(&self, listens_as: Option<&str>, now: UnixTime) -> Result<(), TlsError> {
        let refused = |path: &Path| {
            let path = path.to_owned();
            move |source| TlsError::Refused { path, source }
        };
        let provider = Arc::new(aws_lc_rs::default_provider());
        let chain = read_chain(self.certificate)?;
        verify_client(&chain, &read_chain(self.ca)?, &provider, now).map_err(refused(self.certificate))?;
        if let Some(name) = listens_as {
            verify_server(&chain, &read_chain(self.ca)?, &provider, name, now)
                .map_err(refused(self.certificate))?;
        }
        let key = PrivateKeyDer::from_pem_file(self.key).map_err(|source| TlsError::Pem {
            path: self.key.to_owned(),
            source,
        })?;
        CertifiedKey::from_der(chain, key, &provider)
            .map(drop)
            .map_err(refused(self.key))
    }
}

/// Whether the authority in one file would vouch for the certificate in another one.
pub fn is_signed_by(certificate: &Path, ca: &Path, now: UnixTime) -> Result<(), TlsError> {
    let provider = Arc::new(aws_lc_rs::default_provider());
    verify_client(&read_chain(certificate)?, &read_chain(ca)?, &provider, now).map_err(|source| {
        TlsError::Refused {
            path: certificate.to_owned(),
            source,
        }
    })
}

fn verify_client(
    chain: &[CertificateDer<'_>],
    ca: &[CertificateDer<'_>],
    provider: &Arc<CryptoProvider>,
    now: UnixTime,
) -> Result<(), rustls::Error> {
    let verifier = WebPkiClientVerifier::builder_with_provider(roots(ca)?, provider.clone())
        .build()
        .map_err(|error| rustls::Error::General(error.to_string()))?;
    verifier.verify_client_cert(&chain[0], &chain[1..], now).map(drop)
}

fn verify_server(
    chain: &[CertificateDer<'_>],
    ca: &[CertificateDer<'_>],
    provider: &Arc<CryptoProvider>,
    name: &str,
    now: UnixTime,
) -> Result<(), rustls::Error> {
    let verifier = WebPkiServerVerifier::builder_with_provider(roots(ca)?, provider.clone())
        .build()
        .map_err(|error| rustls::Error::General(error.to_string()))?;
    let name = ServerName::try_from(name)
        .map_err(|_| rustls::Error::General(format!("{name:?} cannot stand in a certificate")))?;
    verifier
        .verify_server_cert(&chain[0], &chain[1..], &name, &[], now)
        .map(drop)
}

fn roots(ca: &[CertificateDer<'_>]) -> Result<Arc<RootCertStore>, rustls::Error> {
    let mut roots = RootCertStore::empty();
    for certificate in ca {
        roots.add(certificate.clone().into_owned())?;
    }
    Ok(Arc::new(roots))
}

/// The certificates of a file, at least one.
pub fn read_chain(path: &Path) -> Result<Vec<CertificateDer<'static>>, TlsError> {
    let malformed = |source| TlsError::Pem {
        path: path.to_owned(),
        source,
    };
    let chain: Vec<_> = CertificateDer::pem_file_iter(path)
        .map_err(malformed)?
        .collect::<Result<_, _>>()
        .map_err(malformed)?;
    match chain.is_empty() {
        true => Err(TlsError::Empty(path.to_owned())),
        false => Ok(chain),
    }
}

/// What a certificate says of itself.
#[derive(Debug)]
pub struct Details {
    pub common_name: String,
    /// DNS names and IP addresses.
    pub hosts: Vec<String>,
    pub not_after: DateTime<Utc>,
    pub is_authority: bool,
}

/// Reads the first certificate of a file.
pub fn read_details(path: &Path) -> Result<Details, TlsError> {
    let malformed = |reason: String| TlsError::Malformed {
        path: path.to_owned(),
        reason,
    };
    let chain = read_chain(path)?;
    let (_, certificate) =
        x509_parser::parse_x509_certificate(&chain[0]).map_err(|error| malformed(error.to_string()))?;
    let names = certificate
        .subject_alternative_name()
        .map_err(|error| malformed(error.to_string()))?;
    let hosts = names.iter().flat_map(|names| &names.value.general_names);
    let common_name = certificate.subject().iter_common_name().next();
    let not_after = certificate.validity().not_after.timestamp();
    Ok(Details {
        common_name: common_name
            .and_then(|name| name.as_str().ok())
            .unwrap_or_default()
            .to_owned(),
        hosts: hosts.filter_map(host).collect(),
        not_after: DateTime::from_timestamp(not_after, 0)
            .ok_or_else(|| malformed("its validity ends at no date".to_owned()))?,
        is_authority: certificate.is_ca(),
    })
}

fn host(name: &GeneralName<'_>) -> Option<String> {
    match name {
        GeneralName::DNSName(name) => Some((*name).to_owned()),
        GeneralName::IPAddress(bytes) => {
            let v4 = <[u8; 4]>::try_from(*bytes).map(IpAddr::from);
            let v6 = <[u8; 16]>::try_from(*bytes).map(IpAddr::from);
            v4.or(v6).ok().map(|address| address.to_string())
        }
        _ => None,
    }
}
