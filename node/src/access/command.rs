//! `node token`: a new token, and the line by which an orchestrator recognises it.

use anyhow::{Result, ensure};
use clap::Args;

use super::Access;
use super::tokens::{line, token};

#[derive(Debug, Args)]
pub struct TokenArgs {
    /// Whose token it is; the audit log shows this name.
    #[arg(value_name = "NAME")]
    pub name: String,
    /// What it allows: read, operate or admin.
    #[arg(value_enum, value_name = "ROLE")]
    pub role: Access,
}

pub fn run(arguments: &TokenArgs) -> Result<()> {
    let name = &arguments.name;
    ensure!(
        !name.is_empty() && !name.contains(char::is_whitespace),
        "a name has no spaces"
    );
    let token = token();
    print!("{}", line(name, arguments.role, &token));
    eprintln!("The line goes into the file that api.tokens_file names. The token, shown this once: {token}");
    Ok(())
}
