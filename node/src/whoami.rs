//! Names of this machine and of its user.

/// Longest part, user or machine, of the name of an operator.
const NAME: usize = 31;

/// Name of this machine.
pub fn host() -> Option<String> {
    let host = nix::unistd::gethostname().ok()?;
    Some(host.to_string_lossy().into_owned())
}

/// Name in the audit log of a user who gives commands here without a token: user and machine.
pub fn operator() -> String {
    let user = nix::unistd::User::from_uid(nix::unistd::getuid())
        .ok()
        .flatten()
        // In a container the user number may have no name, which is no reason to refuse a command.
        .map_or("operator".to_owned(), |user| user.name);
    match host() {
        Some(host) => format!("{}.{}", plain(&user), plain(&host)),
        None => plain(&user),
    }
}

fn plain(name: &str) -> String {
    let legal = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '-');
    // The name stands in log lines and tables, so a host may not bring blanks or control characters into
    // them.
    let plain = |c| if legal(c) { c } else { '-' };
    name.chars().map(plain).take(NAME).collect()
}

#[cfg(test)]
mod tests {
    use parkhang_actors::cluster::NodeName;

    use super::*;

    #[test]
    fn the_name_of_an_operator_is_the_name_of_a_node() {
        assert_eq!(plain("otto@example.org"), "otto-example-org");
        assert!(NodeName::unique(&operator()).is_ok(), "{}", operator());
        let longest = format!("{}.{}", plain(&"ö".repeat(99)), plain(&"x".repeat(99)));
        assert!(NodeName::unique(&longest).is_ok(), "{longest}");
    }
}
