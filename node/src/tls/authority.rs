//! Creation of the authority, and issue and revocation of certificates.

use std::collections::BTreeMap;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use rcgen::{
    BasicConstraints, CertificateParams, DnType, ExtendedKeyUsagePurpose, IsCa, Issuer, KeyPair,
    KeyUsagePurpose,
};
use rustls::pki_types::ServerName;

use super::folder::{Folder, refuse_existing, write_private, write_public};
use super::identity::read_details;
use super::{CertificateRole, TlsError, at, revocations};

const DAY: Duration = Duration::from_secs(24 * 60 * 60);
/// Time by which certificates are valid before they are created, since the clocks of nodes differ.
const CLOCK_SKEW: Duration = Duration::from_secs(60 * 60);

/// Creates an authority and a cookie for a new cluster.
///
/// # Errors
///
/// [`TlsError::Exists`] if one of the files exists, which is not overwritten.
pub fn init(folder: &Folder, days: u32, now: SystemTime) -> Result<(), TlsError> {
    refuse_existing(&[
        folder.ca_certificate(),
        folder.ca_key(),
        folder.cookie(),
        folder.revoked(),
    ])?;
    folder.create()?;
    let mut params = params(Vec::new(), days, now)?;
    let label = hex::encode(rand::random::<[u8; 4]>());
    params
        .distinguished_name
        .push(DnType::CommonName, format!("Parkhang cluster {label}"));
    // It signs certificates of nodes, and none of further authorities.
    params.is_ca = IsCa::Ca(BasicConstraints::Constrained(0));
    params.key_usages = vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::CrlSign];
    let key = KeyPair::generate()?;
    let certificate = params.self_signed(&key)?;
    write_private(&folder.ca_key(), &key.serialize_pem())?;
    write_public(&folder.ca_certificate(), &certificate.pem())?;
    write_private(
        &folder.cookie(),
        &format!("{}\n", hex::encode(rand::random::<[u8; 32]>())),
    )?;
    // Nodes are told of the list from the start, so that a revocation needs no change of their configuration.
    revocations::write(folder, BTreeMap::new(), now)
}

/// Issues a certificate and key to a node or for an interface, valid for its name and the given hosts, which are DNS names or IP addresses.
///
/// # Errors
///
/// If a name is not valid, a file exists, or the certificate would be valid for longer than the authority.
pub fn issue(
    folder: &Folder,
    (node, role): (&str, CertificateRole),
    hosts: &[String],
    days: u32,
    now: SystemTime,
) -> Result<(), TlsError> {
    check_name(node)?;
    if let Some(wrong) = hosts
        .iter()
        .find(|host| ServerName::try_from(host.as_str()).is_err())
    {
        return Err(TlsError::Host(wrong.clone()));
    }
    // Both are checked before either is written, so that a refusal leaves no pair that does not fit.
    refuse_existing(&[folder.certificate(node), folder.key(node)])?;
    let authority = read_details(&folder.ca_certificate())?;
    let seconds = now.duration_since(UNIX_EPOCH).unwrap_or_default().as_secs();
    // A certificate that outlasts its authority would stop working on a day that nothing announces.
    let left = (authority.not_after.timestamp() - i64::try_from(seconds).unwrap_or(i64::MAX))
        .div_euclid(i64::from(24 * 60 * 60));
    if left < i64::from(days) {
        return Err(TlsError::OutlastsAuthority { left, asked: days });
    }
    let issuer = issuer(folder)?;
    let mut names = vec![node.to_owned()];
    names.extend(hosts.iter().filter(|host| *host != node).cloned());
    let mut params = params(names, days, now)?;
    params.distinguished_name.push(DnType::CommonName, node);
    params.use_authority_key_identifier_extension = true;
    params.key_usages = vec![KeyUsagePurpose::DigitalSignature];
    params.extended_key_usages = match role {
        // The same certificate serves its node when it listens and when it dials.
        CertificateRole::Node => vec![
            ExtendedKeyUsagePurpose::ServerAuth,
            ExtendedKeyUsagePurpose::ClientAuth,
        ],
        // Nodes take nobody for one of them whose certificate cannot be used on both sides.
        CertificateRole::Interface => vec![ExtendedKeyUsagePurpose::ServerAuth],
    };
    let key = KeyPair::generate()?;
    let certificate = params.signed_by(&key, &issuer)?;
    write_private(&folder.key(node), &key.serialize_pem())?;
    write_public(&folder.certificate(node), &certificate.pem())
}

/// Checks a name, which becomes a file name and a DNS name; `ca` would overwrite the authority's own files.
fn check_name(name: &str) -> Result<(), TlsError> {
    let allowed = |byte: u8| byte.is_ascii_alphanumeric() || b".-".contains(&byte);
    if name == "ca" || name.is_empty() || name.starts_with(['.', '-']) || !name.bytes().all(allowed) {
        return Err(TlsError::NodeName(name.to_owned()));
    }
    Ok(())
}

/// Revokes the certificate of a name.
///
/// # Errors
///
/// If there is none, or a file of the authority cannot be read or written.
pub fn revoke(folder: &Folder, name: &str, now: SystemTime) -> Result<(), TlsError> {
    check_name(name)?;
    let serial = read_details(&folder.certificate(name))?.serial;
    let mut revoked = revocations::read(folder)?;
    revoked.entry(serial).or_insert(now);
    revocations::write(folder, revoked, now)
}

pub(super) fn issuer(folder: &Folder) -> Result<Issuer<'static, KeyPair>, TlsError> {
    let read = |path: std::path::PathBuf| std::fs::read_to_string(&path).map_err(at(path));
    let key = KeyPair::from_pem(&read(folder.ca_key())?)?;
    Ok(Issuer::from_ca_cert_pem(&read(folder.ca_certificate())?, key)?)
}

fn params(names: Vec<String>, days: u32, now: SystemTime) -> Result<CertificateParams, TlsError> {
    let mut params = CertificateParams::default();
    for host in names {
        let parsed = CertificateParams::new([host])?;
        params.subject_alt_names.extend(parsed.subject_alt_names);
    }
    // The default has the name of the library that makes the certificate.
    params.distinguished_name = rcgen::DistinguishedName::new();
    params.not_before = (now - CLOCK_SKEW).into();
    params.not_after = (now + DAY * days).into();
    Ok(params)
}
