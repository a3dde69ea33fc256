//! `node tls`.

use std::path::{Path, PathBuf};
use std::time::SystemTime;

use anyhow::Result;
use clap::{Args, Subcommand};
use comfy_table::{Table, presets};
use rustls::pki_types::UnixTime;

use super::folder::Folder;
use super::identity::{is_signed_by, read_details};
use super::{CertificateRole, TlsError, authority, revocations};

#[derive(Debug, Subcommand)]
pub enum TlsCommand {
    /// Create a private certificate authority and a cookie for a cluster, in a folder.
    ///
    /// Keep ca.key off the nodes: it allows joining the cluster. Existing files are not overwritten.
    Init(InitArgs),
    /// Issue a certificate and key to a node, or for the HTTP interface, and print the settings that use them.
    ///
    /// A node uses its certificate for listening and for dialling. One for the interface does not allow joining the cluster.
    /// Example: `tls issue ca gpu-1 --host gpu-1.example`.
    Issue(IssueArgs),
    /// Revoke a certificate, so that its node cannot take part in the cluster any more.
    ///
    /// Copy revoked.crl, which is printed, to the nodes that have cluster.tls.revoked_file; they read it again within seconds and end the
    /// sessions of the node. Example: `tls revoke ca gpu-1`.
    Revoke {
        /// Folder of the authority.
        #[arg(value_name = "DIR")]
        folder: PathBuf,
        /// Name of the certificate, DIR/NAME.pem.
        #[arg(value_name = "NAME")]
        name: String,
    },
    /// List the certificates in a folder with their names, expiry, and whether its authority has signed them.
    Show {
        /// Folder of the authority.
        #[arg(value_name = "DIR")]
        folder: PathBuf,
    },
}

#[derive(Debug, Args)]
pub struct InitArgs {
    /// Folder of the authority; created if it does not exist.
    #[arg(value_name = "DIR")]
    pub folder: PathBuf,
    /// Validity of the authority, in days.
    #[arg(long, default_value_t = 3650, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=36500))]
    pub days: u32,
}

#[derive(Debug, Args)]
pub struct IssueArgs {
    /// Folder of the authority.
    #[arg(value_name = "DIR")]
    pub folder: PathBuf,
    /// Name of the node; its certificate is DIR/NAME.pem and its key DIR/NAME.key.
    #[arg(value_name = "NAME")]
    pub name: String,
    /// Purpose of the certificate.
    #[arg(long = "for", value_enum, value_name = "ROLE", default_value_t = CertificateRole::Node)]
    pub role: CertificateRole,
    /// DNS name or IP address at which others dial the node; may be repeated. Only orchestrators are dialled.
    #[arg(long, value_name = "HOST")]
    pub host: Vec<String>,
    /// Validity of the certificate, in days.
    #[arg(long, default_value_t = 365, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=36500))]
    pub days: u32,
}

pub fn run(command: TlsCommand) -> Result<()> {
    let now = SystemTime::now();
    match command {
        TlsCommand::Init(arguments) => {
            let folder = Folder::new(&arguments.folder);
            authority::init(&folder, arguments.days, now)?;
            for path in [
                folder.ca_certificate(),
                folder.ca_key(),
                folder.cookie(),
                folder.revoked(),
            ] {
                println!("{}", path.display());
            }
        }
        TlsCommand::Issue(arguments) => {
            let folder = Folder::new(&arguments.folder);
            let IssueArgs { name, role, .. } = &arguments;
            authority::issue(&folder, (name, *role), &arguments.host, arguments.days, now)?;
            print!("{}", settings(&folder, name, *role));
        }
        TlsCommand::Revoke { folder, name } => {
            let folder = Folder::new(&folder);
            authority::revoke(&folder, &name, now)?;
            println!("{}", folder.revoked().display());
        }
        TlsCommand::Show { folder } => println!("{}", table(&Folder::new(&folder))?),
    }
    Ok(())
}

/// Returns the settings that use a certificate.
fn settings(folder: &Folder, name: &str, role: CertificateRole) -> String {
    let value = |path: PathBuf| {
        // The lines may be pasted into a file in another folder, and paths in a file are relative to it.
        let path = std::path::absolute(&path).unwrap_or(path);
        toml::Value::String(path.to_string_lossy().into_owned())
    };
    let own = format!(
        "certificate_file = {}\nkey_file = {}\n",
        value(folder.certificate(name)),
        value(folder.key(name)),
    );
    if role == CertificateRole::Interface {
        return format!("[api.tls]\n{own}");
    }
    let mut settings = format!(
        "[cluster]\ncookie_file = {}\n\n[cluster.tls]\n{own}ca_file = {}\n",
        value(folder.cookie()),
        value(folder.ca_certificate()),
    );
    // An authority of an earlier version has no list until it revokes something.
    if folder.revoked().exists() {
        settings.push_str(&format!("revoked_file = {}\n", value(folder.revoked())));
    }
    settings
}

fn table(folder: &Folder) -> Result<Table, TlsError> {
    let mut table = Table::new();
    table.load_preset(presets::UTF8_FULL_CONDENSED).set_header([
        "file",
        "name",
        "for",
        "hosts",
        "valid until",
        "verdict",
    ]);
    let revoked = revocations::read(folder)?;
    for path in folder.certificates()? {
        let name = file_name(folder.path(), &path);
        // One file that is no certificate must not hide the others.
        let details = match read_details(&path) {
            Ok(details) => details,
            Err(error) => {
                table.add_row([
                    name,
                    String::new(),
                    String::new(),
                    String::new(),
                    String::new(),
                    error.to_string(),
                ]);
                continue;
            }
        };
        table.add_row([
            name,
            details.common_name,
            match details.role {
                _ if details.is_authority => String::new(),
                CertificateRole::Node => "a node".to_owned(),
                CertificateRole::Interface => "the interface".to_owned(),
            },
            details.hosts.join(" "),
            details.not_after.format("%Y-%m-%d %H:%M UTC").to_string(),
            if details.is_authority {
                "authority".to_owned()
            } else if revoked.contains_key(&details.serial) {
                "revoked".to_owned()
            } else {
                verdict(&path, &folder.ca_certificate())
            },
        ]);
    }
    Ok(table)
}

fn verdict(certificate: &Path, ca: &Path) -> String {
    match is_signed_by(certificate, ca, UnixTime::now()) {
        Ok(()) => "good".to_owned(),
        Err(TlsError::Refused { source, .. }) => source.to_string(),
        Err(error) => error.to_string(),
    }
}

fn file_name(folder: &Path, path: &Path) -> String {
    path.strip_prefix(folder).unwrap_or(path).display().to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_that_is_no_certificate_gets_its_verdict_beside_the_others() {
        let parent = tempfile::tempdir().unwrap();
        let folder = Folder::new(&parent.path().join("pki"));
        // One time for both, and a certificate that its authority outlasts: a second later the authority has a day less.
        let now = SystemTime::now();
        authority::init(&folder, 60, now).unwrap();
        for (name, role) in [
            ("orch-1", CertificateRole::Node),
            ("gpu-1", CertificateRole::Node),
            ("api", CertificateRole::Interface),
        ] {
            authority::issue(&folder, (name, role), &[], 30, now).unwrap();
        }
        authority::revoke(&folder, "gpu-1", now).unwrap();
        std::fs::write(folder.certificate("bad"), "-----BEGIN CERTIFICATE-----\n").unwrap();
        let shown = table(&folder).unwrap().to_string();
        let verdict = |file: &str| {
            let line = shown.lines().find(|line| line.contains(file)).unwrap();
            line.trim_matches('│')
                .split('┆')
                .next_back()
                .unwrap()
                .trim()
                .to_owned()
        };
        assert_eq!(
            (verdict("ca.pem"), verdict("orch-1.pem")),
            ("authority".to_owned(), "good".to_owned())
        );
        assert_eq!(
            (verdict("gpu-1.pem"), verdict("api.pem")),
            ("revoked".to_owned(), "good".to_owned())
        );
        assert!(verdict("bad.pem").contains("bad.pem: "), "{shown}");
    }
}
