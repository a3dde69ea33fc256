//! Private certificate authority of a cluster: a folder with its certificate and key, the cookie that all nodes share, and the
//! certificates of the nodes.
//!
//! Nodes authenticate each other, so one certificate serves its node both when it listens and when it dials, and it must pass both checks
//! before a node starts: a fault that shows only when another node dials is found too late. A certificate of the HTTP interface passes one
//! of them only, so that one that lies on a web server opens no cluster. The authority is private to the cluster,
//! since nobody but its nodes needs to trust it, and its key need not be on any node. The room knows files and dates; it must not know
//! how connections are made.

mod authority;
pub mod command;
mod expiry;
mod folder;
pub mod identity;
mod revocations;

#[cfg(test)]
mod tests;

use std::io;
use std::path::PathBuf;

use clap::ValueEnum;
use rustls::pki_types::pem;

pub use self::expiry::warn_before_end;

/// Purpose of a certificate.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum CertificateRole {
    /// A node of the cluster.
    Node,
    /// The HTTP interface, for browsers and scripts; it takes no part in the cluster.
    Interface,
}

#[derive(Debug, thiserror::Error)]
pub enum TlsError {
    #[error("{}: {source}", .path.display())]
    Io { path: PathBuf, source: io::Error },
    #[error("{} exists already and is not overwritten", .0.display())]
    Exists(PathBuf),
    #[error(
        "{0:?} is not a valid name of a node: use letters, digits, dots and hyphens, and not the name ca"
    )]
    NodeName(String),
    #[error("{0:?} is neither a DNS name nor an IP address")]
    Host(String),
    #[error("the authority is valid for {left} more days, which is less than the {asked} asked for")]
    OutlastsAuthority { left: i64, asked: u32 },
    #[error("{}: {source}", .path.display())]
    Pem { path: PathBuf, source: pem::Error },
    #[error("{} has no certificate", .0.display())]
    Empty(PathBuf),
    #[error("{} has no list of revoked certificates, not even of none", .0.display())]
    NoList(PathBuf),
    #[error("{}: {reason}", .path.display())]
    Malformed { path: PathBuf, reason: String },
    #[error("{}: {source}", .path.display())]
    Refused { path: PathBuf, source: rustls::Error },
    #[error("cannot make a certificate: {0}")]
    Generate(#[from] rcgen::Error),
}

/// Attaches the path to an I/O error.
fn at(path: impl Into<PathBuf>) -> impl FnOnce(io::Error) -> TlsError {
    let path = path.into();
    move |source| TlsError::Io { path, source }
}
