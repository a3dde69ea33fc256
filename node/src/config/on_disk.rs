//! Checks of the files and folders that a configuration names.

use std::path::Path;

use parkhang_core::domain::LineMode;
use parkhang_store::pages::{discover_volumes, read_intro_pages};
use rustls::pki_types::UnixTime;

use super::check::Finding;
use super::secrets::Secrets;
use super::sections::{ApiTls, ClusterConfig, PagesKind, Tls};
use super::values::Role;
use crate::access::Tokens;
use crate::file_access::{check_private, check_unchangeable};
use crate::http::Certificate;
use crate::networks;
use crate::tls::TlsError;
use crate::tls::identity::Identity;

/// First part of all keys in BDRC's archive.
const ARCHIVE: &str = "Works";

pub fn findings(config: &ClusterConfig, now: UnixTime) -> Vec<Finding> {
    let mut findings = folders(config);
    findings.extend(intro_pages(config));
    findings.extend(models(config));
    findings.extend(tls(config, now));
    findings.extend(api_tls(config));
    findings
}

/// Returns the faults of files that a node of these roles needs when it starts, and other commands do not.
pub fn needed(config: &ClusterConfig, secrets: &Secrets) -> Vec<Finding> {
    [cookie(config, secrets), scans(config), tokens(config)]
        .into_iter()
        .flatten()
        .collect()
}

fn cookie(config: &ClusterConfig, secrets: &Secrets) -> Option<Finding> {
    let roles = &config.node.roles;
    // A node that hands rows to services meets no other node.
    let is_apart = roles.contains(&Role::Entity);
    let is_assigned = config.source.kind.properties().is_assigned;
    let meets_others = roles.contains(&Role::Orchestrator) || is_assigned && !is_apart;
    // A file that cannot be read is reported where the secrets are read.
    let is_given = secrets.cookie.is_some() || config.cluster.cookie_file.is_some();
    (meets_others && !is_given).then(|| Finding {
        key: "cluster.cookie_file",
        because: &["node.roles"],
        message: "required: a secret that all nodes of the cluster share; `node tls init` creates one"
            .to_owned(),
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

/// Checks the file of tokens on an orchestrator; other processes may have no permission to read it.
fn tokens(config: &ClusterConfig) -> Option<Finding> {
    let path = config.api.tokens_file.as_deref()?;
    // Workers of the same configuration may run as a user who must not read the tokens.
    let reads_tokens = config.node.roles.contains(&Role::Orchestrator) && config.api.listen.is_some();
    if !reads_tokens {
        return None;
    }
    // Whoever may change it may make themselves an admin.
    let message = match (Tokens::read(path), check_unchangeable(path)) {
        (Err(error), _) => format!("{error:#}"),
        (_, Err(message)) => format!("{}: {message}", path.display()),
        _ => return None,
    };
    Some(Finding {
        key: "api.tokens_file",
        because: &[],
        message,
    })
}

/// Returns a finding if the folder of scans has no volume yet.
pub fn without_scans(config: &ClusterConfig) -> Option<Finding> {
    let folder = config.pages.folder.as_deref().filter(|folder| folder.is_dir())?;
    let message = match config.pages.kind {
        PagesKind::Folder => discover_volumes(&[folder.to_owned()], None, None)
            .err()?
            .to_string(),
        PagesKind::Bdrc if folder.join(ARCHIVE).is_dir() => return None,
        PagesKind::Bdrc => format!(
            "{} has no folder {ARCHIVE}, which contains the volumes of an archive",
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
        ("models.dir", &config.models.dir),
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

/// Checks a folder. One that does not exist is no problem, as the node creates it when it starts; only that of the scans must
/// exist, see [`needed`].
fn folder_problem(path: &Path) -> Option<String> {
    match std::fs::metadata(path) {
        Ok(found) if !found.is_dir() => Some(format!("{} is not a folder", path.display())),
        // A folder that may not be looked into fails here, with its path, instead of in the middle of the
        // start.
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

/// Checks the TLS files of the HTTP interface. Host names and the issuer are not checked: clients decide which they accept.
fn api_tls(config: &ClusterConfig) -> Option<Finding> {
    let ApiTls {
        certificate_file: Some(certificate),
        key_file: Some(key),
    } = &config.api.tls
    else {
        return None;
    };
    let (wrong, message) = match (check_private(key), Certificate::read(certificate, key)) {
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

/// Checks that the models can be read and support the default settings of jobs.
fn models(config: &ClusterConfig) -> Option<Finding> {
    let finding = |key, because, message| Finding {
        key,
        because,
        message,
    };
    let asks_for_layout = config.job.line_mode == LineMode::Layout;
    // Shipped models are known to be good, and reading them would slow every command of a cluster down.
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

/// Checks that the node's TLS files belong together, name the host that it is dialled by, and have not expired.
fn tls(config: &ClusterConfig, now: UnixTime) -> Option<Finding> {
    let Tls {
        certificate_file: Some(certificate),
        key_file: Some(key),
        ca_file: Some(ca),
        revoked_file: revoked,
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
    let dialled = cluster
        .advertise
        .as_ref()
        .map_or_else(|| cluster.listen.ip().to_string(), |address| address.host.clone());
    // Only an orchestrator is dialled, so only its certificate must name the host.
    let listens_as = config
        .node
        .roles
        .contains(&Role::Orchestrator)
        .then_some(dialled.as_str());
    let identity = Identity {
        certificate,
        key,
        ca,
        revoked: revoked.as_deref(),
    };
    let error = identity.verify(listens_as, now).err()?;
    // The error names a file, and the finding must name the key of that file.
    let wrong = match &error {
        TlsError::Io { path, .. } | TlsError::Pem { path, .. } | TlsError::Empty(path) if path == ca => {
            "cluster.tls.ca_file"
        }
        TlsError::Refused { path, .. } | TlsError::Pem { path, .. } if path == key => "cluster.tls.key_file",
        TlsError::Pem { path, .. } | TlsError::NoList(path) if Some(path) == revoked.as_ref() => {
            "cluster.tls.revoked_file"
        }
        _ => "cluster.tls.certificate_file",
    };
    finding(wrong, &["cluster.advertise", "cluster.listen"], error.to_string())
}
