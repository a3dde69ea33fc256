//! Certificates as peers see them, which is through rustls.

use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use rustls::crypto::aws_lc_rs::default_provider;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName, UnixTime};
use rustls::server::WebPkiClientVerifier;
use rustls::{ClientConfig, ClientConnection, RootCertStore, ServerConfig, ServerConnection};

use super::folder::Folder;
use super::identity::{Identity, is_signed_by, read_details};
use super::{CertificateRole, TlsError, authority, revocations};

const YEAR: Duration = Duration::from_secs(365 * 24 * 60 * 60);

/// An authority that has issued a certificate to `orch-1`, which is dialled as 127.0.0.1 and orch.example.
struct Pki {
    _parent: tempfile::TempDir,
    folder: Folder,
}

impl Pki {
    fn new() -> Self {
        let parent = tempfile::tempdir().unwrap();
        let folder = Folder::new(&parent.path().join("pki"));
        authority::init(&folder, 3650, SystemTime::now()).unwrap();
        let pki = Self {
            _parent: parent,
            folder,
        };
        pki.issue("orch-1", &["127.0.0.1", "orch.example"]).unwrap();
        pki
    }

    fn issue(&self, node: &str, hosts: &[&str]) -> Result<(), TlsError> {
        let hosts: Vec<String> = hosts.iter().map(|host| (*host).to_owned()).collect();
        self.issue_for(node, CertificateRole::Node, &hosts)
    }

    fn issue_for(&self, name: &str, role: CertificateRole, hosts: &[String]) -> Result<(), TlsError> {
        authority::issue(&self.folder, (name, role), hosts, 365, SystemTime::now())
    }

    fn ca(&self) -> PathBuf {
        self.folder.ca_certificate()
    }

    fn verify(&self, ca: &Path, listens_as: Option<&str>, now: UnixTime) -> Result<(), TlsError> {
        let identity = Identity {
            certificate: &self.folder.certificate("orch-1"),
            key: &self.folder.key("orch-1"),
            ca,
            revoked: Some(&self.folder.revoked()),
        };
        identity.verify(listens_as, now)
    }

    fn roots(&self) -> Arc<RootCertStore> {
        let mut roots = RootCertStore::empty();
        roots
            .add(CertificateDer::from_pem_file(self.ca()).unwrap())
            .unwrap();
        Arc::new(roots)
    }

    fn identity(&self, node: &str) -> (Vec<CertificateDer<'static>>, PrivateKeyDer<'static>) {
        (
            vec![CertificateDer::from_pem_file(self.folder.certificate(node)).unwrap()],
            PrivateKeyDer::from_pem_file(self.folder.key(node)).unwrap(),
        )
    }
}

/// Lets `client` dial `server` under a name, each trusting its own authority only.
fn shake_hands(client: (&Pki, &str), server: (&Pki, &str), name: &'static str) -> Result<(), rustls::Error> {
    let provider = Arc::new(default_provider());
    let (chain, key) = server.0.identity(server.1);
    let verifier = WebPkiClientVerifier::builder_with_provider(server.0.roots(), provider.clone())
        .build()
        .unwrap();
    let accepts = ServerConfig::builder_with_provider(provider.clone())
        .with_safe_default_protocol_versions()?
        .with_client_cert_verifier(verifier)
        .with_single_cert(chain, key)?;
    let (chain, key) = client.0.identity(client.1);
    let dials = ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()?
        .with_root_certificates(client.0.roots())
        .with_client_auth_cert(chain, key)?;
    let mut server = ServerConnection::new(Arc::new(accepts))?;
    let mut client = ClientConnection::new(Arc::new(dials), ServerName::try_from(name).unwrap())?;
    while client.is_handshaking() || server.is_handshaking() {
        let mut bytes = Vec::new();
        client.write_tls(&mut bytes).unwrap();
        server.read_tls(&mut bytes.as_slice()).unwrap();
        server.process_new_packets()?;
        bytes.clear();
        server.write_tls(&mut bytes).unwrap();
        client.read_tls(&mut bytes.as_slice()).unwrap();
        client.process_new_packets()?;
    }
    Ok(())
}

#[test]
fn nodes_of_one_authority_shake_hands() {
    let pki = Pki::new();
    pki.issue("gpu-1", &[]).unwrap();
    for name in ["orch-1", "127.0.0.1", "orch.example"] {
        shake_hands((&pki, "gpu-1"), (&pki, "orch-1"), name).unwrap();
    }
    shake_hands((&pki, "gpu-1"), (&pki, "orch-1"), "other.example").unwrap_err();
}

#[test]
fn a_node_of_a_foreign_authority_is_refused_on_either_side() {
    let (pki, foreign) = (Pki::new(), Pki::new());
    shake_hands((&pki, "orch-1"), (&foreign, "orch-1"), "orch-1").unwrap_err();
    // A foreigner that trusts the cluster's authority still has nothing to show.
    std::fs::copy(pki.ca(), foreign.ca()).unwrap();
    shake_hands((&foreign, "orch-1"), (&pki, "orch-1"), "orch-1").unwrap_err();
}

#[test]
fn an_identity_is_good_in_its_time_under_its_names_and_with_its_key() {
    let (pki, foreign) = (Pki::new(), Pki::new());
    let now = UnixTime::now();
    pki.verify(&pki.ca(), None, now).unwrap();
    pki.verify(&pki.ca(), Some("127.0.0.1"), now).unwrap();
    let refused = |result: Result<(), TlsError>, reason: &str| {
        let reported = result.unwrap_err().to_string();
        assert!(
            reported.contains("orch-1.") && reported.contains(reason),
            "{reported}"
        );
    };
    refused(pki.verify(&pki.ca(), Some("10.0.0.1"), now), "not valid for name");
    refused(pki.verify(&foreign.ca(), None, now), "UnknownIssuer");
    let later = UnixTime::since_unix_epoch(Duration::from_secs(now.as_secs()) + YEAR * 2);
    refused(pki.verify(&pki.ca(), None, later), "expired");
    std::fs::copy(foreign.folder.key("orch-1"), pki.folder.key("orch-1")).unwrap();
    refused(pki.verify(&pki.ca(), None, now), "orch-1.key");
}

#[test]
fn a_certificate_of_the_interface_is_no_nodes() {
    let pki = Pki::new();
    let hosts = ["127.0.0.1".to_owned()];
    pki.issue_for("api", CertificateRole::Interface, &hosts).unwrap();
    // It serves, and dials nobody.
    shake_hands((&pki, "orch-1"), (&pki, "api"), "127.0.0.1").unwrap();
    shake_hands((&pki, "api"), (&pki, "orch-1"), "orch-1").unwrap_err();
    let (certificate, key) = (pki.folder.certificate("api"), pki.folder.key("api"));
    let identity = Identity {
        certificate: &certificate,
        key: &key,
        ca: &pki.ca(),
        revoked: None,
    };
    let refused = identity.verify(None, UnixTime::now()).unwrap_err();
    assert!(matches!(refused, TlsError::Refused { .. }), "{refused}");
    is_signed_by(&certificate, &pki.ca(), UnixTime::now()).unwrap();
    let details = read_details(&certificate).unwrap();
    assert_eq!(details.role, CertificateRole::Interface);
    let node = read_details(&pki.folder.certificate("orch-1")).unwrap();
    assert_eq!(node.role, CertificateRole::Node);
}

#[test]
fn a_revoked_certificate_is_refused_and_stays_so() {
    let pki = Pki::new();
    let now = UnixTime::now();
    pki.issue("gpu-1", &[]).unwrap();
    assert!(revocations::read(&pki.folder).unwrap().is_empty());
    authority::revoke(&pki.folder, "orch-1", SystemTime::now()).unwrap();
    let first = revocations::read(&pki.folder).unwrap();
    authority::revoke(&pki.folder, "gpu-1", SystemTime::now()).unwrap();
    authority::revoke(&pki.folder, "orch-1", SystemTime::now() + YEAR).unwrap();
    let both = revocations::read(&pki.folder).unwrap();
    assert_eq!((first.len(), both.len()), (1, 2));
    assert!(
        first.iter().all(|(serial, at)| both.get(serial) == Some(at)),
        "{both:?}"
    );
    let refused = pki.verify(&pki.ca(), None, now).unwrap_err().to_string();
    assert!(refused.contains("Revoked"), "{refused}");
    let unknown = authority::revoke(&pki.folder, "nobody", SystemTime::now());
    assert!(matches!(unknown, Err(TlsError::Pem { .. })), "{unknown:?}");
    let beyond = authority::revoke(&pki.folder, "../x", SystemTime::now());
    assert!(matches!(beyond, Err(TlsError::NodeName(_))), "{beyond:?}");
    // An authority of an earlier version has no list.
    std::fs::remove_file(pki.folder.revoked()).unwrap();
    authority::revoke(&pki.folder, "gpu-1", SystemTime::now()).unwrap();
    assert_eq!(revocations::read(&pki.folder).unwrap().len(), 1);
}

#[test]
fn a_list_of_revocations_that_was_cut_off_is_none() {
    let pki = Pki::new();
    pki.verify(&pki.ca(), None, UnixTime::now()).unwrap();
    std::fs::write(pki.folder.revoked(), "").unwrap();
    let cut = pki.verify(&pki.ca(), None, UnixTime::now()).unwrap_err();
    assert!(
        matches!(&cut, TlsError::NoList(path) if *path == pki.folder.revoked()),
        "{cut}"
    );
}

#[test]
fn keys_and_the_cookie_are_for_their_owner_only() {
    let pki = Pki::new();
    let mode = |path: PathBuf| path.metadata().unwrap().permissions().mode() & 0o777;
    let private = [pki.folder.ca_key(), pki.folder.cookie(), pki.folder.key("orch-1")];
    for path in private {
        assert_eq!(mode(path.clone()), 0o600, "{}", path.display());
    }
    assert_eq!(mode(pki.folder.path().to_owned()), 0o700);
    let cookie = std::fs::read_to_string(pki.folder.cookie()).unwrap();
    assert_eq!(cookie.trim().len(), 64);
}

#[test]
fn git_does_not_see_a_folder_of_keys_and_sees_what_was_there() {
    let pki = Pki::new();
    let ignored = std::fs::read_to_string(pki.folder.path().join(".gitignore"));
    assert_eq!(ignored.unwrap(), "*\n");
    let project = tempfile::tempdir().unwrap();
    std::fs::write(project.path().join("cluster.toml"), "").unwrap();
    authority::init(&Folder::new(project.path()), 3650, SystemTime::now()).unwrap();
    assert!(!project.path().join(".gitignore").exists());
}

#[test]
fn nothing_is_overwritten() {
    let pki = Pki::new();
    let before = std::fs::read(pki.folder.ca_key()).unwrap();
    let again = authority::init(&pki.folder, 3650, SystemTime::now());
    assert!(matches!(again, Err(TlsError::Exists(_))), "{again:?}");
    assert_eq!(std::fs::read(pki.folder.ca_key()).unwrap(), before);
    // One file of an authority is enough to keep the hands off.
    std::fs::remove_file(pki.folder.ca_certificate()).unwrap();
    let again = authority::init(&pki.folder, 3650, SystemTime::now());
    assert!(matches!(again, Err(TlsError::Exists(_))), "{again:?}");
    assert!(!pki.ca().exists());

    let pki = Pki::new();
    let again = pki.issue("orch-1", &[]);
    assert!(matches!(again, Err(TlsError::Exists(_))), "{again:?}");
}

#[test]
fn what_cannot_be_issued_is_refused() {
    let pki = Pki::new();
    for name in ["", "ca", "../orch", ".", "a b", "-x"] {
        assert!(
            matches!(pki.issue(name, &[]), Err(TlsError::NodeName(_))),
            "{name}"
        );
    }
    let host = pki.issue("cpu-1", &["བོད"]);
    assert!(matches!(host, Err(TlsError::Host(_))), "{host:?}");
    let days = authority::issue(
        &pki.folder,
        ("cpu-1", CertificateRole::Node),
        &[],
        3651,
        SystemTime::now(),
    );
    assert!(
        matches!(days, Err(TlsError::OutlastsAuthority { asked: 3651, .. })),
        "{days:?}"
    );
    assert!(!pki.folder.certificate("cpu-1").exists());
}

#[test]
fn a_certificate_tells_what_it_is_for() {
    let pki = Pki::new();
    let details = read_details(&pki.folder.certificate("orch-1")).unwrap();
    assert_eq!(details.common_name, "orch-1");
    assert_eq!(details.hosts, ["orch-1", "127.0.0.1", "orch.example"]);
    assert!(!details.is_authority && read_details(&pki.ca()).unwrap().is_authority);
    is_signed_by(&pki.folder.certificate("orch-1"), &pki.ca(), UnixTime::now()).unwrap();
    let nonsense = pki.folder.path().join("nonsense.pem");
    std::fs::write(&nonsense, "nonsense").unwrap();
    assert!(matches!(read_details(&nonsense), Err(TlsError::Empty(_))));
}
