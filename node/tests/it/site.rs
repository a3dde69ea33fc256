//! Folder of a cluster of real processes on one machine, over mutual TLS.

use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::support::{finish, node, small_page};

/// Scans, certificates and state of a cluster; gone with the test.
pub(crate) struct Site {
    folder: tempfile::TempDir,
    /// What its processes are told besides.
    pub(crate) settings: Vec<(&'static str, String)>,
    pub(crate) variables: Vec<(&'static str, String)>,
}

impl Site {
    /// A site with certificates and no scans.
    pub(crate) fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        // The private Postgres may run as another user, who must come through here.
        std::fs::set_permissions(folder.path(), PermissionsExt::from_mode(0o755)).unwrap();
        let site = Self {
            folder,
            settings: Vec::new(),
            variables: Vec::new(),
        };
        let tls = site.shown("tls");
        finish(node(["tls", "init", &tls])).exits(0);
        finish(node(["tls", "issue", &tls, "all", "--host", "127.0.0.1"])).exits(0);
        site
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    fn shown(&self, name: &str) -> String {
        self.path(name).to_str().unwrap().to_owned()
    }

    /// `node` with the settings that all processes of the site share.
    pub(crate) fn command<const N: usize>(&self, arguments: [&str; N]) -> Command {
        self.command_of(&arguments)
    }

    /// As [`Site::command`], of however many words.
    pub(crate) fn command_of(&self, arguments: &[&str]) -> Command {
        let mut command = node([]);
        command.args(arguments);
        command.current_dir(self.folder.path());
        for (key, value) in [
            ("api.listen", "127.0.0.1:0".to_owned()),
            ("cluster.listen", "127.0.0.1:0".to_owned()),
            // Not the usual one, where somebody's own cluster may be.
            ("cluster.orchestrators", "127.0.0.1:1".to_owned()),
            ("cluster.cookie_file", self.shown("tls/cookie")),
            ("cluster.tls.ca_file", self.shown("tls/ca.pem")),
            ("cluster.tls.certificate_file", self.shown("tls/all.pem")),
            ("cluster.tls.key_file", self.shown("tls/all.key")),
            ("node.state_dir", self.shown("state")),
            ("pages.folder", self.shown("scans")),
            ("storage.folder", self.shown("artifacts")),
            ("job.checkpoint_pages", "2".to_owned()),
            ("cluster.heartbeat", "5s".to_owned()),
            ("cluster.lease", "15s".to_owned()),
        ] {
            command.arg("--set").arg(format!("{key}={value}"));
        }
        for (key, value) in &self.settings {
            command.arg("--set").arg(format!("{key}={value}"));
        }
        command.envs(self.variables.iter().cloned());
        command
    }

    /// The command of a node of this name, roles and orchestrators.
    pub(crate) fn node(&self, name: &str, roles: &str, orchestrators: &[&str]) -> Command {
        let mut command = self.command(["--role", roles]);
        for setting in [
            format!("cluster.orchestrators={}", orchestrators.join(",")),
            format!("node.name={name}"),
        ] {
            command.arg("--set").arg(setting);
        }
        command
    }
}

/// Small pages that look alike and differ in their bytes.
pub(crate) fn put_pages(folder: &Path, volume: u8, pages: u8) {
    put_copies(folder, &small_page(), volume, pages);
}

/// Copies of a TIFF that differ in their bytes: its readers do not look behind the last strip.
pub(crate) fn put_copies(folder: &Path, scan: &[u8], volume: u8, pages: u8) {
    std::fs::create_dir_all(folder).unwrap();
    for number in 0..pages {
        let page = [scan, &[volume, number]].concat();
        std::fs::write(folder.join(format!("page{number:02}.tif")), page).unwrap();
    }
}
