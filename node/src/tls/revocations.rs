//! List of the certificates that an authority has revoked, which nodes read.

use std::collections::BTreeMap;
use std::io::ErrorKind;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use rcgen::{CertificateRevocationListParams, KeyIdMethod, RevokedCertParams, SerialNumber};
use rustls::pki_types::CertificateRevocationListDer;
use rustls::pki_types::pem::{self, PemObject};
use x509_parser::prelude::{CertificateRevocationList, FromDer};

use super::authority::issuer;
use super::folder::{Folder, replace_public};
use super::{TlsError, at};

/// Time for which a list is good. A node goes on using one that is older, as no list would be worse.
const GOOD_FOR: Duration = Duration::from_secs(100 * 365 * 24 * 60 * 60);

/// Serial numbers of the certificates that were revoked, with the times.
pub type Revoked = BTreeMap<Vec<u8>, SystemTime>;

/// Reads the list of an authority; it is empty where there is none yet.
///
/// # Errors
///
/// If the file cannot be read, or is no list.
pub fn read(folder: &Folder) -> Result<Revoked, TlsError> {
    let path = folder.revoked();
    let malformed = |reason: String| TlsError::Malformed {
        path: path.clone(),
        reason,
    };
    let text = match std::fs::read(&path) {
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(Revoked::new()),
        text => text.map_err(at(&path))?,
    };
    let lists = CertificateRevocationListDer::pem_slice_iter(&text).collect::<Result<Vec<_>, pem::Error>>();
    let mut revoked = Revoked::new();
    for list in lists.map_err(|error| malformed(error.to_string()))? {
        let parsed = CertificateRevocationList::from_der(&list);
        let (_, list) = parsed.map_err(|error| malformed(error.to_string()))?;
        let entries = list.iter_revoked_certificates();
        revoked.extend(entries.map(|entry| {
            let seconds = u64::try_from(entry.revocation_date.timestamp()).unwrap_or_default();
            (
                entry.serial().to_bytes_be(),
                UNIX_EPOCH + Duration::from_secs(seconds),
            )
        }));
    }
    Ok(revoked)
}

/// Writes the list of an authority, in place of an earlier one.
///
/// # Errors
///
/// If a file of the authority cannot be read, or the list cannot be written.
pub fn write(folder: &Folder, revoked: Revoked, now: SystemTime) -> Result<(), TlsError> {
    let since_1970 = now.duration_since(UNIX_EPOCH).unwrap_or_default();
    let entry = |(serial, at): (Vec<u8>, SystemTime)| RevokedCertParams {
        serial_number: SerialNumber::from(serial),
        revocation_time: at.into(),
        reason_code: None,
        invalidity_date: None,
    };
    let params = CertificateRevocationListParams {
        this_update: now.into(),
        next_update: (now + GOOD_FOR).into(),
        // A later list has a higher number.
        crl_number: SerialNumber::from(since_1970.as_secs()),
        issuing_distribution_point: None,
        revoked_certs: revoked.into_iter().map(entry).collect(),
        key_identifier_method: KeyIdMethod::Sha256,
    };
    let list = params.signed_by(&issuer(folder)?)?;
    replace_public(&folder.revoked(), &list.pem()?)
}
