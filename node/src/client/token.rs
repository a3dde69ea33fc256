//! The token that is shown to orchestrators. It comes from a file or from the environment, and never from the command line, which every
//! user of the machine can read.

use std::fs::read_to_string;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};
use axum::http::HeaderValue;
use secrecy::{ExposeSecret, SecretString};

use super::arguments::ServerArgs;
use super::url::ServerUrl;
use crate::access::{OWN_TOKEN, read_own_token};
use crate::file_access::check_private;

/// Variable that may hold a token.
const VARIABLE: &str = "PARKHANG_TOKEN";

/// A token, and where it was found.
#[derive(Debug, Clone)]
pub struct Token {
    text: SecretString,
    pub origin: Origin,
}

#[derive(Debug, Clone)]
pub enum Origin {
    File(PathBuf),
    Variable,
}

impl Origin {
    pub fn in_words(&self) -> String {
        match self {
            Self::File(path) => format!("in {}", path.display()),
            Self::Variable => format!("in {VARIABLE}"),
        }
    }
}

impl Token {
    /// The token for some orchestrators.
    ///
    /// # Errors
    ///
    /// When none is found, or one that cannot be a token or that everybody may read.
    pub fn find(arguments: &ServerArgs, servers: &[ServerUrl], state: &Path) -> Result<Self> {
        if let Some(path) = &arguments.token_file {
            // Whoever else can read the file has the role of its owner, so it is refused before it is used.
            if let Err(reason) = check_private(path) {
                bail!("--token-file {}: {reason}", path.display());
            }
            let text = read_to_string(path).with_context(|| format!("--token-file {}", path.display()))?;
            return Self::new(&text, Origin::File(path.clone()));
        }
        if let Ok(text) = std::env::var(VARIABLE)
            // An empty variable is how service files and shells unset one, and it must not hide the token of
            // this machine.
            && !text.is_empty()
        {
            return Self::new(&text, Origin::Variable);
        }
        let path = state.join(OWN_TOKEN);
        // The token of this user is never sent to another machine, which could use it here.
        if let Some(elsewhere) = servers.iter().find(|server| !server.is_here()) {
            bail!(
                "no token for {elsewhere}: name a file that holds one with --token-file, or set {VARIABLE}; an administrator makes one \
                 with `node token NAME ROLE`"
            );
        }
        match read_own_token(state)? {
            Some(text) => Self::new(&text, Origin::File(path)),
            None => bail!(
                "no token: {} is not there, where an orchestrator that is started with this state folder (node.state_dir) writes it; \
                 --server names one elsewhere, and --token-file or {VARIABLE} a token",
                path.display()
            ),
        }
    }

    fn new(text: &str, origin: Origin) -> Result<Self> {
        let text = text.trim();
        // The token becomes the value of a header, where a line break or another control character would be
        // refused with an error that names neither the file nor the variable.
        let is_a_word = !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_graphic());
        if !is_a_word {
            bail!("{} there is no token: it is one word", origin.in_words());
        }
        Ok(Self {
            text: SecretString::from(text),
            origin,
        })
    }

    /// The value of the header `Authorization`, which is not written to logs.
    pub fn header(&self) -> Result<HeaderValue> {
        let mut value = HeaderValue::try_from(format!("Bearer {}", self.text.expose_secret()))?;
        value.set_sensitive(true);
        Ok(value)
    }
}

#[cfg(test)]
mod tests {
    use std::fs::{Permissions, set_permissions, write};
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    const TEXT: &str = "4KMVL7Qw3njxhxgIEqL3HKz4KMVL7Qw3njxhxgIEqL3";

    #[test]
    fn a_token_is_shown_to_nobody_but_the_server() {
        let token = Token::new(&format!("{TEXT}\n"), Origin::Variable).unwrap();
        let header = token.header().unwrap();
        assert_eq!(header.to_str().unwrap(), format!("Bearer {TEXT}"));
        for shown in [format!("{token:?}"), format!("{header:?}")] {
            assert!(!shown.contains(TEXT), "{shown}");
        }
        assert!(Token::new("two words", Origin::Variable).is_err());
    }

    #[test]
    fn the_own_token_goes_to_this_machine_alone() {
        let folder = tempfile::tempdir().unwrap();
        write(folder.path().join(OWN_TOKEN), TEXT).unwrap();
        let find = |server: &str, token_file: Option<PathBuf>| {
            let arguments = ServerArgs {
                token_file,
                ..ServerArgs::default()
            };
            Token::find(&arguments, &[server.parse().unwrap()], folder.path())
        };
        let (here, elsewhere) = ("http://127.0.0.1:7480", "https://library.example.org");
        assert_eq!(find(here, None).unwrap().text.expose_secret(), TEXT);
        let refused = find(elsewhere, None).unwrap_err().to_string();
        assert!(refused.contains("--token-file"), "{refused}");

        let file = folder.path().join("token");
        write(&file, TEXT).unwrap();
        set_permissions(&file, Permissions::from_mode(0o644)).unwrap();
        let open = find(elsewhere, Some(file.clone())).unwrap_err().to_string();
        assert!(open.contains("chmod 600"), "{open}");
        set_permissions(&file, Permissions::from_mode(0o600)).unwrap();
        assert_eq!(find(elsewhere, Some(file)).unwrap().text.expose_secret(), TEXT);
    }
}
