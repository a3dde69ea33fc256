//! Tokens and the callers that they authenticate. A token is 32 random bytes in base64; the file of tokens holds hashes only, so
//! reading it gives nobody access.

use std::fmt;
use std::path::Path;

use anyhow::{Context, Result, bail, ensure};
use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use rand::Rng;
use sha2::{Digest, Sha256};
use subtle::ConstantTimeEq;

use super::Access;

/// Smallest length of a token, in characters. A shorter one could be guessed, and `node token` never makes one.
const MIN_LENGTH: usize = 32;

/// Authenticated caller.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Caller {
    pub name: String,
    pub access: Access,
}

/// Tokens that are accepted, as hashes, each with its owner.
#[derive(Default)]
pub struct Tokens(Vec<(Caller, [u8; 32])>);

impl Tokens {
    /// Reads lines of `NAME ROLE SHA256`, where the role is read, edit, operate or admin. Empty lines and those that begin with `#` are
    /// left out.
    ///
    /// # Errors
    ///
    /// If another line is not of this form; the error has its number.
    pub fn parse(text: &str) -> Result<Self> {
        text.lines()
            .zip(1..)
            .map(|(line, number)| (line.trim(), number))
            .filter(|(line, _)| !line.is_empty() && !line.starts_with('#'))
            .map(|(line, number)| token_of(line).with_context(|| format!("line {number}")))
            .collect::<Result<_>>()
            .map(Self)
    }

    pub fn read(path: &Path) -> Result<Self> {
        let text =
            std::fs::read_to_string(path).with_context(|| format!("cannot read {}", path.display()))?;
        Self::parse(&text).with_context(|| format!("the tokens in {}", path.display()))
    }

    /// The same tokens and one more.
    ///
    /// # Errors
    ///
    /// If the token is shorter than 32 characters.
    pub fn with(mut self, caller: Caller, token: &str) -> Result<Self> {
        ensure!(
            is_long_enough(token),
            "the token of {} is shorter than {MIN_LENGTH} characters",
            caller.name
        );
        self.0.push((caller, hash(token)));
        Ok(self)
    }

    /// Returns the owner of a token. The time that this takes tells neither whether nor at which place the token was found. One
    /// that is too short belongs to nobody, even if a file holds its hash.
    pub fn caller(&self, token: &str) -> Option<&Caller> {
        self.entry(token).map(|(caller, _)| caller)
    }

    /// Returns the owner of a token and its hash, as [`Self::caller`] does.
    pub fn entry(&self, token: &str) -> Option<(&Caller, &[u8; 32])> {
        // A file that holds the hash of an empty text must not let in a caller who presents an empty token.
        if !is_long_enough(token) {
            return None;
        }
        let hash = hash(token);
        // Every entry is compared, also behind the match: leaving the loop early would tell its place by the time taken.
        let mut found = None;
        for (caller, known) in &self.0 {
            if bool::from(known.ct_eq(&hash)) {
                found = Some((caller, known));
            }
        }
        found
    }

    /// Returns the owners of the tokens with their hashes.
    pub fn entries(&self) -> impl Iterator<Item = (&Caller, &[u8; 32])> {
        self.0.iter().map(|(caller, hash)| (caller, hash))
    }
}

/// Leaves the hashes out.
impl fmt::Debug for Tokens {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter
            .debug_list()
            .entries(self.0.iter().map(|(caller, _)| caller))
            .finish()
    }
}

/// A new token.
pub fn token() -> String {
    URL_SAFE_NO_PAD.encode(rand::rng().random::<[u8; 32]>())
}

/// Returns whether a text is long enough for a token.
pub fn is_long_enough(token: &str) -> bool {
    token.len() >= MIN_LENGTH
}

/// The line of a token in a file of tokens.
pub fn line(name: &str, access: Access, token: &str) -> String {
    format!("{name} {} {}\n", access.as_str(), hex::encode(hash(token)))
}

// A plain hash suffices, without salt or stretching: tokens are 256 random bits, which nobody can search
// through.
fn hash(token: &str) -> [u8; 32] {
    Sha256::digest(token.as_bytes()).into()
}

fn token_of(line: &str) -> Result<(Caller, [u8; 32])> {
    let words: Vec<&str> = line.split_whitespace().collect();
    let [name, role, digest] = words[..] else {
        bail!("expected NAME ROLE SHA256");
    };
    let access = Access::ALL
        .into_iter()
        .find(|access| access.as_str() == role)
        .with_context(|| format!("{role} is no role; there are read, edit, operate and admin"))?;
    let mut hash = [0; 32];
    ensure!(
        hex::decode_to_slice(digest, &mut hash).is_ok(),
        "the third word must be the SHA-256 of a token, 64 hexadecimal digits"
    );
    Ok((
        Caller {
            name: name.to_owned(),
            access,
        },
        hash,
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_token_is_recognised_by_its_hash() {
        let (reader, boss) = (token(), token());
        let text = format!(
            "# staff\n\n{}{}",
            line("eva", Access::Read, &reader),
            line("otto", Access::Admin, &boss)
        );
        let tokens = Tokens::parse(&text).unwrap();
        assert_eq!(
            tokens.caller(&reader),
            Some(&Caller {
                name: "eva".to_owned(),
                access: Access::Read
            })
        );
        assert_eq!(tokens.caller(&boss).unwrap().access, Access::Admin);
        assert_eq!(tokens.caller(&token()), None);
        assert_eq!(tokens.caller(""), None);
        assert!(!text.contains(&boss), "the file holds the token");
        assert_eq!(boss.len(), 43);
    }

    #[test]
    fn a_short_token_is_nobodys_wherever_it_comes_from() {
        for short in ["", "x", &"y".repeat(31)] {
            let text = line("mallory", Access::Admin, short);
            assert_eq!(Tokens::parse(&text).unwrap().caller(short), None, "{short:?}");
            let caller = Caller {
                name: "api-token".to_owned(),
                access: Access::Admin,
            };
            assert!(Tokens::default().with(caller, short).is_err(), "{short:?}");
        }
        let long = "z".repeat(32);
        let tokens = Tokens::parse(&line("eva", Access::Read, &long)).unwrap();
        assert!(tokens.caller(&long).is_some());
    }

    #[test]
    fn a_bad_line_is_named() {
        let refused = |text| format!("{:#}", Tokens::parse(text).unwrap_err());
        assert_eq!(refused("eva read"), "line 1: expected NAME ROLE SHA256");
        assert!(refused("\neva chief 00").starts_with("line 2: chief is no role"));
        assert!(refused("eva read 00").contains("64 hexadecimal digits"));
    }
}
