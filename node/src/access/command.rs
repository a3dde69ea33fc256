//! `node token`: prints a new token and the line for the file of tokens that makes an orchestrator accept it.

use anyhow::{Result, ensure};
use clap::Args;

use super::Access;
use super::tokens::{line, token};

#[derive(Debug, Args)]
pub struct TokenArgs {
    /// Name of the token's owner, without spaces; the audit log shows it.
    #[arg(value_name = "NAME")]
    pub name: String,
    /// Role that the token grants: read, edit, operate or admin.
    #[arg(value_enum, value_name = "ROLE")]
    pub role: Access,
}

pub fn run(arguments: &TokenArgs) -> Result<()> {
    let name = &arguments.name;
    ensure!(
        !name.is_empty() && !name.contains(char::is_whitespace),
        "the name of a token has at least one letter and no spaces"
    );
    let token = token();
    // The line goes to standard output alone, so that it can be appended to the file of tokens with a
    // redirection while the token itself, which the file must not hold, appears on the terminal only.
    print!("{}", line(name, arguments.role, &token));
    eprintln!(
        "Add the line above to the file that api.tokens_file names. The token, which is not shown again: {token}"
    );
    Ok(())
}
