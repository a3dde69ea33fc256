//! URLs of orchestrators.

use std::fmt;
use std::net::SocketAddr;
use std::str::FromStr;

use axum::http::Uri;

use crate::config::HostPort;

/// URL of an orchestrator, `http://HOST[:PORT]` or `https://HOST[:PORT]`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ServerUrl {
    pub secure: bool,
    pub address: HostPort,
    /// The address to connect to, where it is known to be another than that of the host's name.
    pub dial: Option<SocketAddr>,
}

#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error(
    "must be a URL such as http://127.0.0.1:7480 or https://library.example.org, without a path or a user"
)]
pub struct InvalidUrl;

impl ServerUrl {
    /// True where what is sent there stays on this machine.
    pub fn is_here(&self) -> bool {
        self.dial.is_some() || self.address.is_loopback()
    }
}

impl FromStr for ServerUrl {
    type Err = InvalidUrl;

    fn from_str(text: &str) -> Result<Self, InvalidUrl> {
        let uri: Uri = text.trim().parse().map_err(|_| InvalidUrl)?;
        let (secure, defaults) = match uri.scheme_str() {
            Some("http") => (false, 80),
            Some("https") => (true, 443),
            _ => return Err(InvalidUrl),
        };
        // The interface authenticates by tokens only, so a user or a password in the URL would be ignored
        // without notice.
        let authority = uri.authority().ok_or(InvalidUrl)?.as_str();
        if !matches!(uri.path(), "" | "/") || uri.query().is_some() || authority.contains('@') {
            return Err(InvalidUrl);
        }
        // `HostPort` requires a port, so the default of the scheme is added before it parses.
        let given = match uri.port() {
            Some(_) => authority.parse(),
            None => format!("{authority}:{defaults}").parse(),
        };
        Ok(Self {
            secure,
            address: given.map_err(|_| InvalidUrl)?,
            dial: None,
        })
    }
}

impl fmt::Display for ServerUrl {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let scheme = if self.secure { "https" } else { "http" };
        write!(formatter, "{scheme}://{}", self.address)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_url_names_a_host_and_nothing_else() {
        for (text, shown, secure, here) in [
            ("http://127.0.0.1:7480", "http://127.0.0.1:7480", false, true),
            (
                "https://library.example.org/",
                "https://library.example.org:443",
                true,
                false,
            ),
            ("http://localhost", "http://localhost:80", false, true),
            ("http://[::1]:9", "http://[::1]:9", false, true),
            ("http://10.0.0.7:7480", "http://10.0.0.7:7480", false, false),
        ] {
            let url: ServerUrl = text.parse().unwrap();
            assert_eq!(
                (url.to_string().as_str(), url.secure, url.is_here()),
                (shown, secure, here)
            );
        }
        for wrong in [
            "",
            "library.example.org",
            "127.0.0.1:7480",
            "ftp://library.example.org",
            "https://otto@library.example.org",
            "https://library.example.org/api/v1",
            "https://library.example.org?x=1",
            "http://127.0.0.1:0",
        ] {
            assert_eq!(wrong.parse::<ServerUrl>(), Err(InvalidUrl), "{wrong}");
        }
    }
}
