//! Whether the files and folders that a configuration names can be used.

use std::path::Path;

use parkhang_core::domain::LineMode;
use parkhang_store::pages::{discover_volumes, read_intro_pages};
use rustls::pki_types::UnixTime;

use super::check::Finding;
use super::secrets::{Secrets, check_private};
use super::sections::{ApiTls, ClusterConfig, PagesKind, SourceKind, Tls};
use super::values::Role;
use crate::access::Tokens;
use crate::http::acceptor;
use crate::networks;
use crate::tls::TlsError;
use crate::tls::identity::Identity;

/// What all keys of BDRC's archive begin with.
const ARCHIVE: &str = "Works";

pub fn findings(config: &ClusterConfig, now: UnixTime) -> Vec<Finding> {
    let mut findings = folders(config);
    findings.extend(intro_pages(config));
    findings.extend(models(config));
    findings.extend(tls(config, now));
    findings.extend(api_tls(config));
    findings
}

/// What a node of these roles must find where it starts, and other commands can do without.
pub fn needed(config: &ClusterConfig, secrets: &Secrets) -> Vec<Finding> {
    let found = [cookie(config, secrets), scans(config), tokens(config)];
    found.into_iter().flatten().collect()
}

fn cookie(config: &ClusterConfig, secrets: &Secrets) -> Option<Finding> {
    let meets_others =
        config.node.roles.contains(&Role::Orchestrator) || config.source.kind == SourceKind::Direct;
    // A file that cannot be read is told of already.
    let is_given = secrets.cookie.is_some() || config.cluster.cookie_file.is_some();
    (meets_others && !is_given).then(|| Finding {
        key: "cluster.cookie_file",
        because: &["node.roles"],
        message: "needed: a secret that all nodes of the cluster share; `node tls init` makes one".to_owned(),
    })
}

fn scans(config: &ClusterConfig) -> Option<Finding> {
    let roles = &config.node.roles;
    let folder = config.pages.folder.as_deref()?;
    let reads_scans = roles.contains(&Role::Cpu) || roles.contains(&Role::Gpu);
    (reads_scans && !folder.exists()).then(|| Finding {
        key: "pages.folder",
        because: &[],
        message: format!("{} does not exist", folder.display()),
    })
}

/// Others need not be able to read the file.
fn tokens(config: &ClusterConfig) -> Option<Finding> {
    let path = config.api.tokens_file.as_deref()?;
    let reads_tokens = config.node.roles.contains(&Role::Orchestrator) && config.api.listen.is_some();
    let error = reads_tokens.then(|| Tokens::read(path)).and_then(Result::err)?;
    Some(Finding {
        key: "api.tokens_file",
        because: &[],
        message: format!("{error:#}"),
    })
}

/// A folder of scans in which there is no volume yet.
pub fn without_scans(config: &ClusterConfig) -> Option<Finding> {
    let folder = config.pages.folder.as_deref().filter(|folder| folder.is_dir())?;
    let message = match config.pages.kind {
        PagesKind::Folder => discover_volumes(&[folder.to_owned()], None, None)
            .err()?
            .to_string(),
        PagesKind::Bdrc if folder.join(ARCHIVE).is_dir() => return None,
        PagesKind::Bdrc => format!(
            "{} holds no folder {ARCHIVE}, in which the volumes of an archive are",
            folder.display()
        ),
    };
    Some(Finding {
        key: "pages.folder",
        because: &["pages.kind"],
        message,
    })
}

fn folders(config: &ClusterConfig) -> Vec<Finding> {
    let folders = [
        ("node.state_dir", &config.node.state_dir),
        ("pages.folder", &config.pages.folder),
        ("storage.folder", &config.storage.folder),
        ("storage.cache.folder", &config.storage.cache.folder),
    ];
    folders
        .into_iter()
        .filter_map(|(key, path)| {
            let message = folder_problem(path.as_deref()?)?;
            Some(Finding {
                key,
                because: &[],
                message,
            })
        })
        .collect()
}

/// A folder that does not exist yet is made when the node starts, but for that of the scans: see [`needed`].
fn folder_problem(path: &Path) -> Option<String> {
    match std::fs::metadata(path) {
        Ok(found) if !found.is_dir() => Some(format!("{} is not a folder", path.display())),
        Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
            Some(format!("{}: {error}", path.display()))
        }
        _ => None,
    }
}

fn intro_pages(config: &ClusterConfig) -> Option<Finding> {
    let path = config.pages.intro_pages_file.as_deref()?;
    let problem = match std::fs::read_to_string(path) {
        Ok(text) => read_intro_pages(&text).err()?.to_string(),
        Err(error) => error.to_string(),
    };
    let (key, message) = ("pages.intro_pages_file", format!("{}: {problem}", path.display()));
    Some(Finding {
        key,
        because: &[],
        message,
    })
}

/// Who visits the interface knows by which name, and whom to trust: that is not checked.
fn api_tls(config: &ClusterConfig) -> Option<Finding> {
    let ApiTls {
        certificate_file: Some(certificate),
        key_file: Some(key),
    } = &config.api.tls
    else {
        return None;
    };
    let (wrong, message) = match (check_private(key), acceptor(certificate, key)) {
        (Err(message), _) => ("api.tls.key_file", format!("{}: {message}", key.display())),
        (_, Err(error)) => ("api.tls.certificate_file", format!("{error:#}")),
        _ => return None,
    };
    Some(Finding {
        key: wrong,
        because: &["api.tls.key_file"],
        message,
    })
}

/// Whether the models can be read, and know what jobs usually ask for.
fn models(config: &ClusterConfig) -> Option<Finding> {
    let finding = |key, because, message| Finding {
        key,
        because,
        message,
    };
    let asks_for_layout = config.job.line_mode == LineMode::Layout;
    // The shipped models need no look, and every command of a cluster comes by here.
    if config.node.models.is_empty() && !asks_for_layout {
        return None;
    }
    match networks::knows_layout(&config.node.models) {
        Err(error) => Some(finding("node.models", &[], format!("{error:#}"))),
        Ok(false) if asks_for_layout => Some(finding(
            "job.line_mode",
            &["node.models"],
            networks::NO_LAYOUT.to_owned(),
        )),
        Ok(_) => None,
    }
}

/// Whether the node's TLS files fit each other, the names it is dialled by, and the day.
fn tls(config: &ClusterConfig, now: UnixTime) -> Option<Finding> {
    let Tls {
        certificate_file: Some(certificate),
        key_file: Some(key),
        ca_file: Some(ca),
    } = &config.cluster.tls
    else {
        return None;
    };
    let finding = |key, because, message| {
        Some(Finding {
            key,
            because,
            message,
        })
    };
    if let Err(message) = check_private(key) {
        return finding(
            "cluster.tls.key_file",
            &[],
            format!("{}: {message}", key.display()),
        );
    }
    let cluster = &config.cluster;
    let dialled = cluster.advertise.as_ref().map(|address| address.host.clone());
    let dialled = dialled.unwrap_or_else(|| cluster.listen.ip().to_string());
    let listens_as = config
        .node
        .roles
        .contains(&Role::Orchestrator)
        .then_some(dialled.as_str());
    let identity = Identity { certificate, key, ca };
    let error = identity.verify(listens_as, now).err()?;
    let wrong = match &error {
        TlsError::Io { path, .. } | TlsError::Pem { path, .. } | TlsError::Empty(path) if path == ca => {
            "cluster.tls.ca_file"
        }
        TlsError::Refused { path, .. } | TlsError::Pem { path, .. } if path == key => "cluster.tls.key_file",
        _ => "cluster.tls.certificate_file",
    };
    finding(wrong, &["cluster.advertise", "cluster.listen"], error.to_string())
}
