//! Roles, and the tokens that authenticate a caller.
//!
//! Both the command table and the HTTP interface ask for a role and the second one for a token as well, so neither of them can own
//! these types without the other importing it. The room therefore stands below both and must know neither commands nor HTTP:
//! it answers who a token or a session belongs to and what its owner may do, and nothing else.

pub mod command;
mod own_token;
mod sessions;
mod tokens;

use clap::ValueEnum;

pub use self::own_token::{OWN_TOKEN, own_token, read_own_token};
pub use self::sessions::{LASTS, Sessions};
pub use self::tokens::{Caller, Tokens};

/// Role that a command asks for. Each includes those before it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, ValueEnum)]
pub enum Access {
    Read,
    /// May correct what was read.
    Edit,
    Operate,
    Admin,
}

impl Access {
    pub const ALL: [Self; 4] = [Self::Read, Self::Edit, Self::Operate, Self::Admin];

    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Read => "read",
            Self::Edit => "edit",
            Self::Operate => "operate",
            Self::Admin => "admin",
        }
    }
}
