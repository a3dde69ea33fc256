//! Reading and verification of certificates.

use std::net::IpAddr;
use std::path::Path;
use std::sync::Arc;

use chrono::{DateTime, Utc};
use rustls::RootCertStore;
use rustls::client::WebPkiServerVerifier;
use rustls::client::danger::ServerCertVerifier;
use rustls::crypto::{CryptoProvider, aws_lc_rs};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, CertificateRevocationListDer, PrivateKeyDer, ServerName, UnixTime};
use rustls::server::WebPkiClientVerifier;
use rustls::sign::CertifiedKey;
use x509_parser::extensions::GeneralName;

use super::{CertificateRole, TlsError};

/// Files of a node, in PEM.
#[derive(Debug, Clone, Copy)]
pub struct Identity<'a> {
    /// Certificate of the node, followed by the intermediate ones.
    pub certificate: &'a Path,
    pub key: &'a Path,
    pub ca: &'a Path,
    /// List of the certificates that the authority has revoked.
    pub revoked: Option<&'a Path>,
}

impl Identity<'_> {
    /// Checks that peers which trust the authority accept the certificate of a node that dials them and, if `listens_as` is a name, of
    /// a node that listens under it; and that the key belongs to the certificate.
    ///
    /// # Errors
    ///
    /// With the file that is not valid or not accepted.
    pub fn verify(&self, listens_as: Option<&str>, now: UnixTime) -> Result<(), TlsError> {
        let refused = |path: &Path| {
            let path = path.to_owned();
            move |source| TlsError::Refused { path, source }
        };
        let provider = Arc::new(aws_lc_rs::default_provider());
        let chain = read_chain(self.certificate)?;
        // The verifiers are those that peers use, so that what passes here passes there.
        let revoked = self.revoked.map(read_revoked).transpose()?.unwrap_or_default();
        verify_client(&chain, (&read_chain(self.ca)?, revoked), &provider, now)
            .map_err(refused(self.certificate))?;
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

/// Checks that the authority in `ca` has signed the certificate in `certificate`, for its role.
///
/// # Errors
///
/// [`TlsError::Refused`] with the reason, or if a file cannot be read.
pub fn is_signed_by(certificate: &Path, ca: &Path, now: UnixTime) -> Result<(), TlsError> {
    let provider = Arc::new(aws_lc_rs::default_provider());
    let (chain, ca) = (read_chain(certificate)?, read_chain(ca)?);
    let Details { role, hosts, .. } = read_details(certificate)?;
    let verified = match role {
        CertificateRole::Node => verify_client(&chain, (&ca, Vec::new()), &provider, now),
        CertificateRole::Interface => {
            let host = hosts.first().map_or("", String::as_str);
            verify_server(&chain, &ca, &provider, host, now)
        }
    };
    verified.map_err(|source| TlsError::Refused {
        path: certificate.to_owned(),
        source,
    })
}

type Revoked = Vec<CertificateRevocationListDer<'static>>;

fn read_revoked(path: &Path) -> Result<Revoked, TlsError> {
    let read = CertificateRevocationListDer::pem_file_iter(path).and_then(Iterator::collect);
    let lists: Revoked = read.map_err(|source| TlsError::Pem {
        path: path.to_owned(),
        source,
    })?;
    if lists.is_empty() {
        return Err(TlsError::NoList(path.to_owned()));
    }
    Ok(lists)
}

fn verify_client(
    chain: &[CertificateDer<'_>],
    (ca, revoked): (&[CertificateDer<'_>], Revoked),
    provider: &Arc<CryptoProvider>,
    now: UnixTime,
) -> Result<(), rustls::Error> {
    let verifier = WebPkiClientVerifier::builder_with_provider(roots(ca)?, provider.clone())
        .with_crls(revoked)
        .only_check_end_entity_revocation()
        .allow_unknown_revocation_status()
        .build()
        .map_err(|error| rustls::Error::General(error.to_string()))?;
    // `read_chain` returns at least one certificate, so the first one is there.
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
        .map_err(|_| rustls::Error::General(format!("{name:?} is not a valid name for a certificate")))?;
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

/// Reads the certificates of a file, at least one.
///
/// # Errors
///
/// If the file cannot be read, is not valid PEM, or has no certificate.
pub fn read_chain(path: &Path) -> Result<Vec<CertificateDer<'static>>, TlsError> {
    let malformed = |source| TlsError::Pem {
        path: path.to_owned(),
        source,
    };
    let chain: Vec<_> = CertificateDer::pem_file_iter(path)
        .map_err(malformed)?
        .collect::<Result<_, _>>()
        .map_err(malformed)?;
    if chain.is_empty() {
        return Err(TlsError::Empty(path.to_owned()));
    }
    Ok(chain)
}

/// Content of a certificate.
#[derive(Debug)]
pub struct Details {
    pub common_name: String,
    /// DNS names and IP addresses that it is valid for.
    pub hosts: Vec<String>,
    pub not_after: DateTime<Utc>,
    pub is_authority: bool,
    /// Purpose, of one that is no authority's.
    pub role: CertificateRole,
    /// Serial number, the most significant byte first.
    pub serial: Vec<u8>,
}

/// Reads the first certificate of a file.
///
/// # Errors
///
/// If the file has no valid certificate.
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
    let purposes = certificate
        .extended_key_usage()
        .map_err(|error| malformed(error.to_string()))?;
    // Without any a certificate may be used for all.
    let is_node = purposes.is_none_or(|purposes| purposes.value.any || purposes.value.client_auth);
    let not_after = certificate.validity().not_after.timestamp();
    Ok(Details {
        common_name: common_name
            .and_then(|name| name.as_str().ok())
            .unwrap_or_default()
            .to_owned(),
        hosts: hosts.filter_map(host).collect(),
        not_after: DateTime::from_timestamp(not_after, 0)
            .ok_or_else(|| malformed("its expiry is not a valid date".to_owned()))?,
        is_authority: certificate.is_ca(),
        role: if is_node {
            CertificateRole::Node
        } else {
            CertificateRole::Interface
        },
        serial: certificate.serial.to_bytes_be(),
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
        // Other kinds of names, such as mail addresses, cannot be dialled.
        _ => None,
    }
}
