//! The HTTP interface of an orchestrator over TLS.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::sync::Arc;
use std::time::Duration;

use rustls::crypto::aws_lc_rs;
use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject;
use rustls::{ClientConfig, ClientConnection, RootCertStore, StreamOwned};
use serde_json::json;

use crate::nodes::{Node, Site};
use crate::support::{finish, node};

/// A connection over TLS, to whoever has a certificate of the site's authority.
fn secured(site: &Site, address: &str) -> StreamOwned<ClientConnection, TcpStream> {
    let mut roots = RootCertStore::empty();
    let authority = CertificateDer::from_pem_file(site.path("tls/ca.pem")).unwrap();
    roots.add(authority).unwrap();
    let config = ClientConfig::builder_with_provider(Arc::new(aws_lc_rs::default_provider()))
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_root_certificates(roots)
        .with_no_client_auth();
    let connection = ClientConnection::new(Arc::new(config), "127.0.0.1".try_into().unwrap()).unwrap();
    StreamOwned::new(connection, TcpStream::connect(address).unwrap())
}

#[test]
fn with_a_certificate_nothing_but_tls_is_spoken() {
    let site = Site::with_volumes(1, 1);
    let orchestrator = Node::start_with(&site, "orchestrator", &["127.0.0.1:1"], |command| {
        for (key, file) in [("certificate_file", "all.pem"), ("key_file", "all.key")] {
            let file = site.path("tls").join(file);
            command.args(["--set", &format!("api.tls.{key}={}", file.display())]);
        }
    });
    let address = orchestrator.said("api=https://");
    let mut stream = secured(&site, address);
    let token = std::fs::read_to_string(site.path("state/api-token")).unwrap();
    let body = json!({ "token": token.trim() }).to_string();
    let head = format!(
        "POST /api/v1/session HTTP/1.1\r\nHost: x\r\nContent-Length: {}",
        body.len()
    );
    write!(stream, "{head}\r\nConnection: close\r\n\r\n{body}").unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    assert!(answer.starts_with("HTTP/1.1 204"), "{answer}");
    assert!(answer.to_lowercase().contains("; secure\r\n"), "{answer}");

    // One for the interface alone takes its place, without a restart.
    let folder = site.path("tls");
    let mut issue = node([
        "tls",
        "issue",
        folder.to_str().unwrap(),
        "api",
        "--for",
        "interface",
    ]);
    issue.args(["--host", "127.0.0.1"]);
    finish(issue).exits(0);
    for end in ["key", "pem"] {
        std::fs::rename(
            folder.join(format!("api.{end}")),
            folder.join(format!("all.{end}")),
        )
        .unwrap();
    }
    let mut stream = secured(&site, address);
    write!(stream, "GET / HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n").unwrap();
    stream.read_to_string(&mut answer).unwrap();
    let shown = stream.conn.peer_certificates().unwrap()[0].clone();
    assert_eq!(
        shown,
        CertificateDer::from_pem_file(folder.join("all.pem")).unwrap()
    );
    let mut joins = site.command(["config", "check"]);
    joins.args(["--set", "node.roles=orchestrator"]);
    let refused = finish(joins).exits(1).stderr;
    assert!(refused.contains("cluster.tls.certificate_file"), "{refused}");

    let mut plain = TcpStream::connect(address).unwrap();
    plain.set_read_timeout(Some(Duration::from_secs(60))).unwrap();
    plain.write_all(b"GET / HTTP/1.1\r\nHost: x\r\n\r\n").unwrap();
    let mut refused = Vec::new();
    // The connection is closed, or reset, after an alert of TLS.
    let _ = plain.read_to_end(&mut refused);
    assert!(
        !refused.starts_with(b"HTTP"),
        "{}",
        String::from_utf8_lossy(&refused)
    );
}
