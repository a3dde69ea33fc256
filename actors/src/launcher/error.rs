use std::io;
use std::path::PathBuf;

use parkhang_core::domain::Hardware;

/// Why workers were not launched, stopped or counted.
#[derive(Debug, thiserror::Error)]
pub enum LauncherError {
    #[error("nothing launches {} workers: none are configured", .0.as_str())]
    Unserved(Hardware),
    #[error("{count} {} workers are more than the {limit} that are allowed", .hardware.as_str())]
    OverLimit {
        hardware: Hardware,
        count: u32,
        limit: u32,
    },
    /// A service or group that the configuration names.
    #[error("there is no {kind} {name}")]
    Missing { kind: &'static str, name: String },
    #[error("no credentials for AWS: {0}")]
    Credentials(String),
    /// AWS refused a request, or could not be reached.
    #[error("cannot {action} {name}: {message}")]
    Remote {
        action: &'static str,
        name: String,
        message: String,
    },
    #[error("cannot start the {} worker {name}: {source}", .hardware.as_str())]
    Start {
        hardware: Hardware,
        name: String,
        source: io::Error,
    },
    #[error("cannot stop the worker {name}: {source}")]
    Stop { name: String, source: io::Error },
    /// The record of the workers of this machine.
    #[error("{}: {source}", .path.display())]
    Record { path: PathBuf, source: io::Error },
    #[error("{} is not a record of workers: {message}", .path.display())]
    Corrupt { path: PathBuf, message: String },
}
