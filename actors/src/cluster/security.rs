use std::fmt;
use std::net::SocketAddr;

use super::tls::TlsIdentity;

/// Least number of characters of a secret; shorter ones can be guessed.
const MIN_COOKIE: usize = 16;

/// Secret that the nodes of a cluster share. It never shows in logs.
#[derive(Clone, PartialEq, Eq)]
pub struct Cookie(String);

/// Secret that is too short.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("the cluster secret has {length} characters; it needs {MIN_COOKIE} or more")]
pub struct WeakCookie {
    /// Its number of characters.
    pub length: usize,
}

impl Cookie {
    /// Takes a secret, without the blanks around it, such as the line end of its file.
    ///
    /// # Errors
    ///
    /// When it is too short.
    pub fn new(secret: &str) -> Result<Self, WeakCookie> {
        let secret = secret.trim();
        let length = secret.chars().count();
        if length < MIN_COOKIE {
            return Err(WeakCookie { length });
        }
        Ok(Self(secret.to_owned()))
    }

    pub(super) fn expose(&self) -> &str {
        &self.0
    }
}

impl fmt::Debug for Cookie {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Cookie(..)")
    }
}

/// Security of connections. There is no way to leave this machine without TLS on both sides and a secret.
#[derive(Debug, Clone)]
pub enum Security {
    /// Plain TCP, to and from loopback addresses alone.
    Loopback(Cookie),
    /// Both sides show a certificate of the cluster's own authority.
    MutualTls { cookie: Cookie, identity: TlsIdentity },
}

/// Address on another machine, for which there is no TLS.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("{0} is not a loopback address: TLS certificates are needed")]
pub struct InsecureAddress(pub SocketAddr);

impl Security {
    /// The secret.
    pub fn cookie(&self) -> &Cookie {
        match self {
            Self::Loopback(cookie) | Self::MutualTls { cookie, .. } => cookie,
        }
    }

    /// Checks that an endpoint at `address` is allowed. To be called before every bind and every dial.
    pub(super) fn permit(&self, address: SocketAddr) -> Result<(), InsecureAddress> {
        match self {
            Self::Loopback(_) if !address.ip().to_canonical().is_loopback() => Err(InsecureAddress(address)),
            Self::Loopback(_) | Self::MutualTls { .. } => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn without_tls_only_loopback_is_allowed() {
        let security = Security::Loopback(Cookie::new("sixteen letters!").unwrap());
        for allowed in ["127.0.0.1:1", "127.1.2.3:1", "[::1]:1", "[::ffff:127.0.0.1]:1"] {
            assert_eq!(security.permit(allowed.parse().unwrap()), Ok(()), "{allowed}");
        }
        for refused in [
            "0.0.0.0:1",
            "[::]:1",
            "10.0.0.1:1",
            "[::ffff:10.0.0.1]:1",
            "8.8.8.8:1",
        ] {
            let address = refused.parse().unwrap();
            assert_eq!(security.permit(address), Err(InsecureAddress(address)));
        }
    }

    #[test]
    fn a_secret_is_long_and_is_not_shown() {
        assert_eq!(Cookie::new("short\n"), Err(WeakCookie { length: 5 }));
        assert_eq!(Cookie::new("                    "), Err(WeakCookie { length: 0 }));
        let cookie = Cookie::new("0123456789abcdef\n").unwrap();
        assert_eq!(cookie.expose(), "0123456789abcdef");
        assert!(!format!("{:?}", Security::Loopback(cookie)).contains("0123"));
    }
}
