use std::fmt;

use parkhang_core::domain::InvalidName;

/// Limit on the characters of the operator's part of a name.
const MAX_LENGTH: usize = 64;

/// Name of a running process: the name that the operator gave the node, and a random number. A session of a process that died
/// can linger at its peers, and would keep a new process of the same name out.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct NodeName(String);

impl NodeName {
    /// Makes a new name for the node, whose own name has 1 to 64 of the characters `A-Z a-z 0-9 . _ -`.
    ///
    /// # Errors
    ///
    /// When it has others, none, or too many.
    pub fn unique(node: &str) -> Result<Self, InvalidName> {
        let legal = |c: char| c.is_ascii_alphanumeric() || matches!(c, '.' | '_' | '-');
        if node.is_empty() || node.len() > MAX_LENGTH || !node.chars().all(legal) {
            return Err(InvalidName {
                kind: "node name",
                rule: "1 to 64 letters (A-Z, a-z), digits, '.', '_' and '-'",
                name: node.to_owned(),
            });
        }
        Ok(Self(format!("{node}.{:08x}", rand::random::<u32>())))
    }

    /// The name as text.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for NodeName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn two_processes_of_one_node_differ() {
        let names = [(); 2].map(|()| NodeName::unique("gpu-1").unwrap());
        assert!(names.iter().all(|name| name.as_str().starts_with("gpu-1.")));
        assert_ne!(names[0], names[1]);
    }

    #[test]
    fn names_that_would_not_survive_a_log_line_are_refused() {
        for name in ["", "a b", "a@b", "a/b", &"x".repeat(65)] {
            assert!(NodeName::unique(name).is_err(), "{name:?}");
        }
    }
}
