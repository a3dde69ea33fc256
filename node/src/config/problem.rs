//! Problems of a configuration, with their origins.

use std::fmt;
use std::path::PathBuf;

/// Origin of a value.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Origin {
    BuiltIn,
    File {
        path: PathBuf,
        line: usize,
    },
    /// A profile of a file.
    Profile {
        name: String,
        path: PathBuf,
        line: usize,
    },
    /// An environment variable.
    Variable(String),
    /// A flag of the command line.
    Flag(&'static str),
    /// A file that contains only the value.
    SecretFile(PathBuf),
}

impl fmt::Display for Origin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::BuiltIn => f.write_str("built in"),
            Self::File { path, line } => write!(f, "{}:{line}", path.display()),
            Self::Profile { name, path, line } => write!(f, "{}:{line} (profile {name})", path.display()),
            Self::Variable(name) => f.write_str(name),
            Self::Flag(name) => f.write_str(name),
            Self::SecretFile(path) => write!(f, "{}", path.display()),
        }
    }
}

#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Problem {
    /// An origin does not give a value to a key.
    #[error("{origin}: {message}")]
    Unusable { origin: Origin, message: String },
    /// The value of a key is not valid.
    #[error("{origin}: {key}: {message}")]
    Value {
        origin: Origin,
        key: String,
        message: String,
    },
    /// A source as a whole cannot be read.
    #[error("{}: {message}", .path.display())]
    Source { path: PathBuf, message: String },
}

/// All problems of a configuration, at least one.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("the configuration cannot be used:{}", .0.iter().map(|problem| format!("\n  {problem}")).collect::<String>())]
pub struct Problems(pub Vec<Problem>);
