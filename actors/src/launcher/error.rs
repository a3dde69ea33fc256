use std::io;
use std::path::PathBuf;

use parkhang_core::domain::Hardware;

/// Reason why workers were not launched, stopped or counted.
#[derive(Debug, thiserror::Error)]
pub enum LauncherError {
    /// The launcher has no workers of this hardware.
    #[error("nothing launches {} workers: none are configured", .0.as_str())]
    Unserved(Hardware),
    /// More workers were asked for than the launcher may start.
    #[error("{count} {} workers are more than the {limit} that are allowed", .hardware.as_str())]
    OverLimit {
        hardware: Hardware,
        count: u32,
        limit: u32,
    },
    /// A service or group that the configuration names does not exist.
    #[error("there is no {kind} {name}")]
    Missing { kind: &'static str, name: String },
    /// No region, or no credentials, were found for AWS.
    #[error("no credentials for AWS: {0}")]
    Credentials(String),
    /// AWS refused a request, or could not be reached.
    #[error("cannot {action} {name}: {message}")]
    Remote {
        action: &'static str,
        name: String,
        message: String,
    },
    /// The process of a worker could not be started.
    #[error("cannot start the {} worker {name}: {source}", .hardware.as_str())]
    Start {
        hardware: Hardware,
        name: String,
        source: io::Error,
    },
    /// The process of a worker could not be signalled.
    #[error("cannot stop the worker {name}: {source}")]
    Stop { name: String, source: io::Error },
    /// The record of the workers of this machine cannot be read or written.
    #[error("{}: {source}", .path.display())]
    Record { path: PathBuf, source: io::Error },
    /// The record of the workers of this machine has another form.
    #[error("{} is not a record of workers: {message}", .path.display())]
    Corrupt { path: PathBuf, message: String },
}
