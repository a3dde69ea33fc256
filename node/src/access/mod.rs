//! Roles, and the tokens by which whoever has one is recognised. Knows neither commands nor HTTP.

pub mod command;
mod own_token;
mod tokens;

use clap::ValueEnum;

pub use self::own_token::{OWN_TOKEN, own_token, read_own_token};
pub use self::tokens::{Caller, Tokens};

/// Role that a command asks for. Each includes those before it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, ValueEnum)]
pub enum Access {
    Read,
    Operate,
    Admin,
}

impl Access {
    pub const ALL: [Self; 3] = [Self::Read, Self::Operate, Self::Admin];

    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Read => "read",
            Self::Operate => "operate",
            Self::Admin => "admin",
        }
    }
}
