use std::fs;

use rcgen::{
    BasicConstraints, CertificateParams, CertificateRevocationListParams, CertifiedIssuer,
    ExtendedKeyUsagePurpose, IsCa, KeyIdMethod, KeyPair, KeyUsagePurpose, RevokedCertParams, SerialNumber,
    date_time_ymd,
};
use tempfile::TempDir;

use crate::cluster::{TlsFiles, TlsIdentity};

/// A certificate authority that lives as long as a test.
pub(super) struct Authority {
    issuer: CertifiedIssuer<'static, KeyPair>,
    folder: TempDir,
}

/// A certificate and its key, in PEM.
pub(super) struct Leaf {
    serial: SerialNumber,
    chain: String,
    key: String,
}

impl Authority {
    pub(super) fn new() -> Self {
        let mut params = CertificateParams::default();
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        params.key_usages = vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::CrlSign];
        let issuer = CertifiedIssuer::self_signed(params, KeyPair::generate().unwrap()).unwrap();
        let folder = tempfile::tempdir().unwrap();
        Self { issuer, folder }
    }

    /// Issues a certificate to a node.
    pub(super) fn issue(&self, name: &str) -> Leaf {
        let node = [
            ExtendedKeyUsagePurpose::ServerAuth,
            ExtendedKeyUsagePurpose::ClientAuth,
        ];
        self.issue_for(name, &node)
    }

    pub(super) fn issue_for(&self, name: &str, purposes: &[ExtendedKeyUsagePurpose]) -> Leaf {
        let serial = SerialNumber::from(rand::random::<u64>() >> 1);
        let mut params = CertificateParams::new([name.to_owned()]).unwrap();
        params.serial_number = Some(serial.clone());
        params.extended_key_usages = purposes.to_vec();
        let key = KeyPair::generate().unwrap();
        Leaf {
            serial,
            chain: params.signed_by(&key, &self.issuer).unwrap().pem(),
            key: key.serialize_pem(),
        }
    }

    /// Identity of a node that shows `leaf` and trusts this authority. Its certificates can be replaced, see [`Self::renew`].
    pub(super) fn trusted_by(&self, leaf: &Leaf) -> TlsIdentity {
        TlsIdentity::load(self.files(leaf, &[])).unwrap()
    }

    /// Files of a node that shows `leaf`, trusts this authority and knows what this has revoked.
    pub(super) fn files(&self, leaf: &Leaf, revoked: &[&Leaf]) -> TlsFiles {
        let folder = self.folder.path().join(hex::encode(leaf.serial.to_bytes()));
        fs::create_dir_all(&folder).unwrap();
        let file = |name: &str, text: String| {
            let path = folder.join(name);
            // Renamed, as whoever reads it meanwhile is to see one or the other.
            fs::write(path.with_extension("new"), text).unwrap();
            fs::rename(path.with_extension("new"), &path).unwrap();
            path
        };
        TlsFiles {
            authority: file("ca.pem", self.issuer.pem()),
            chain: file("node.pem", leaf.chain.clone()),
            key: file("node.key", leaf.key.clone()),
            revoked: Some(file("revoked.crl", self.list(revoked))),
        }
    }

    fn list(&self, revoked: &[&Leaf]) -> String {
        let time = date_time_ymd(2025, 1, 1);
        let entry = |leaf: &&Leaf| RevokedCertParams {
            serial_number: leaf.serial.clone(),
            revocation_time: time,
            reason_code: None,
            invalidity_date: None,
        };
        let params = CertificateRevocationListParams {
            this_update: time,
            next_update: date_time_ymd(2125, 1, 1),
            crl_number: SerialNumber::from(1),
            issuing_distribution_point: None,
            revoked_certs: revoked.iter().map(entry).collect(),
            key_identifier_method: KeyIdMethod::Sha256,
        };
        params.signed_by(&self.issuer).unwrap().pem().unwrap()
    }
}
