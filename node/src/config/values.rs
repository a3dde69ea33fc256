//! Types of single values, with their text forms.

use std::fmt;
use std::net::IpAddr;
use std::str::FromStr;

use parkhang_core::domain::Hardware;
use serde::{Deserialize, Serialize};

/// Role of a node in the cluster.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Role {
    Orchestrator,
    Cpu,
    Gpu,
    /// Keeps as many workers as the queues need, where no orchestrator does.
    Autoscaler,
    /// Hands rows of users' tables to services.
    Entity,
}

impl Role {
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Orchestrator => "orchestrator",
            Self::Cpu => "cpu",
            Self::Gpu => "gpu",
            Self::Autoscaler => "autoscaler",
            Self::Entity => "entity",
        }
    }

    /// Role of a node that has the hardware.
    pub const fn of(hardware: Hardware) -> Self {
        match hardware {
            Hardware::Cpu => Self::Cpu,
            Hardware::Gpu => Self::Gpu,
        }
    }
}

/// Host, by name or address, and port: `gpu-1.example:7400`, `10.0.0.7:7400`, `[::1]:7400`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct HostPort {
    /// Name or address, without the brackets of an IPv6 address.
    pub host: String,
    pub port: u16,
}

#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0:?} is not HOST:PORT")]
pub struct NotHostPort(String);

impl HostPort {
    pub fn ip(&self) -> Option<IpAddr> {
        self.host.parse().ok()
    }

    /// Returns whether it is certain to be this machine.
    pub fn is_loopback(&self) -> bool {
        self.ip()
            .map_or(self.host == "localhost", |address| address.is_loopback())
    }
}

impl FromStr for HostPort {
    type Err = NotHostPort;

    fn from_str(text: &str) -> Result<Self, NotHostPort> {
        let parse = || {
            // The last colon, as an IPv6 address contains others.
            let (host, port) = text.rsplit_once(':')?;
            let bracketed = host.strip_prefix('[').and_then(|host| host.strip_suffix(']'));
            let valid = match bracketed {
                Some(address) => address.parse::<std::net::Ipv6Addr>().is_ok(),
                None => is_host_name(host),
            };
            // Port 0 is for listeners; nobody can dial it.
            let port: u16 = port.parse().ok().filter(|port| *port != 0)?;
            valid.then(|| Self {
                host: bracketed.unwrap_or(host).to_owned(),
                port,
            })
        };
        parse().ok_or_else(|| NotHostPort(text.to_owned()))
    }
}

/// Returns whether a text is a host name: labels of letters, digits, hyphens and underscores. IPv4 addresses pass too.
fn is_host_name(text: &str) -> bool {
    let is_label = |label: &str| {
        !label.is_empty()
            && label.len() <= 63
            && label
                .bytes()
                .all(|byte| byte.is_ascii_alphanumeric() || b"-_".contains(&byte))
    };
    text.len() <= 253 && text.split('.').all(is_label)
}

impl fmt::Display for HostPort {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.host.contains(':') {
            write!(f, "[{}]:{}", self.host, self.port)
        } else {
            write!(f, "{}:{}", self.host, self.port)
        }
    }
}

impl TryFrom<String> for HostPort {
    type Error = NotHostPort;

    fn try_from(text: String) -> Result<Self, NotHostPort> {
        text.parse()
    }
}

impl From<HostPort> for String {
    fn from(address: HostPort) -> Self {
        address.to_string()
    }
}

/// Durations in text form: `500ms`, `12s`, `1m 30s`.
pub mod duration {
    use std::time::Duration;

    use serde::de::Error;
    use serde::{Deserialize, Deserializer, Serializer};

    pub fn serialize<S: Serializer>(value: &Duration, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(&humantime::format_duration(*value))
    }

    pub fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Duration, D::Error> {
        let text = String::deserialize(deserializer)?;
        humantime::parse_duration(text.trim())
            .map_err(|_| D::Error::custom(format!("{text:?} is not a duration such as 500ms, 12s or 1m 30s")))
    }
}

/// Optional values: the empty string is `None`, as TOML has no null.
pub mod optional {
    use serde::de::{DeserializeOwned, IntoDeserializer};
    use serde::{Deserialize, Deserializer, Serialize, Serializer};

    pub fn serialize<T: Serialize, S: Serializer>(
        value: &Option<T>,
        serializer: S,
    ) -> Result<S::Ok, S::Error> {
        match value {
            Some(value) => value.serialize(serializer),
            None => serializer.serialize_str(""),
        }
    }

    pub fn deserialize<'de, T: DeserializeOwned, D: Deserializer<'de>>(
        deserializer: D,
    ) -> Result<Option<T>, D::Error> {
        let text = String::deserialize(deserializer)?;
        if text.is_empty() {
            return Ok(None);
        }
        T::deserialize(text.into_deserializer()).map(Some)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn addresses_are_hosts_with_a_port() {
        for good in [
            "gpu-1.example:7400",
            "localhost:1",
            "10.0.0.7:65535",
            "[2001:db8::1]:7400",
        ] {
            assert_eq!(good.parse::<HostPort>().unwrap().to_string(), good);
        }
        for bad in [
            "",
            "host",
            ":7400",
            "host:0",
            "host:65536",
            "host:x",
            "::1:7400",
            "[host]:1",
            "a..b:1",
            "a b:1",
        ] {
            assert!(bad.parse::<HostPort>().is_err(), "{bad}");
        }
    }

    #[test]
    fn loopback_is_recognised() {
        let is_loopback = |text: &str| text.parse::<HostPort>().unwrap().is_loopback();
        assert!(is_loopback("127.0.0.1:1") && is_loopback("[::1]:1") && is_loopback("localhost:1"));
        assert!(!is_loopback("10.0.0.1:1") && !is_loopback("localhost.example:1"));
    }

    proptest! {
        #[test]
        fn any_text_parses_or_is_refused(text in "\\PC{0,20}") {
            if let Ok(address) = text.parse::<HostPort>() {
                prop_assert_eq!(address.to_string().parse::<HostPort>().unwrap(), address);
            }
        }
    }
}
