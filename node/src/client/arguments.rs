use std::path::PathBuf;

use clap::Args;

use super::url::ServerUrl;

/// The flags by which a command is told whom to ask.
#[derive(Debug, Clone, Default, Args)]
pub struct ServerArgs {
    /// URL of an orchestrator to ask, such as https://library.example.org; may be repeated, and the others are asked where one does not
    /// answer. PARKHANG_SERVER names them with commas. Without any, those of this machine are asked.
    #[arg(long, value_name = "URL", env = "PARKHANG_SERVER", value_delimiter = ',')]
    pub server: Vec<ServerUrl>,
    /// File with the token to show, and nothing else. Without it that of PARKHANG_TOKEN is shown, or else, on this machine, the one in
    /// api-token in the state folder.
    #[arg(long, value_name = "FILE")]
    pub token_file: Option<PathBuf>,
    /// Show the token to another machine over plain HTTP too, where everybody on the way can read it.
    #[arg(long)]
    pub plain_http: bool,
}
