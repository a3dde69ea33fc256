//! Sessions of browsers: who has shown a token gets a text that stands for it until a time, or until they sign out.
//!
//! A session says when it ends and is signed, so that every orchestrator that has the same secret and the same tokens knows it, whichever of
//! them began it. What signs it is made of the secret and of the hash of the token: a file of tokens alone makes no session, and one
//! ends with the line of its token. Those that were ended before their time are in a file of the state folder, which the orchestrators
//! of a machine share.

use std::collections::BTreeMap;
use std::fs::{File, OpenOptions, read_to_string};
use std::io::{self, ErrorKind, Write};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard, PoisonError};

use anyhow::{Context, Result};
use aws_lc_rs::hmac;
use chrono::{DateTime, TimeDelta, Utc};
use subtle::ConstantTimeEq;
use tempfile::NamedTempFile;

use super::tokens::{Caller, Tokens};

/// Time from sign-in to the end of a session: a working day.
pub const LASTS: TimeDelta = TimeDelta::hours(12);

/// Name of the file, in the state folder, of sessions that were ended.
const ENDED: &str = "ended-sessions";
/// Name of the file that is locked while that one is written.
const LOCK: &str = "ended-sessions.lock";
/// Largest number of ended sessions that are remembered. Beyond it the one is forgotten that would end soonest by itself.
const MOST_ENDED: usize = 100_000;
/// Length of the random part of a session, in bytes.
const NONCE: usize = 16;

/// Sessions of the tokens of an orchestrator.
pub struct Sessions {
    key: hmac::Key,
    file: PathBuf,
    ended: Mutex<Ended>,
}

/// Sessions that were ended, with the times at which they would have ended by themselves.
#[derive(Debug, Default)]
struct Ended {
    sessions: BTreeMap<String, i64>,
    /// Which file has been read, and how much of it: its inode and its length.
    read: Option<(u64, u64)>,
}

/// Parts of a session: `TIME.NONCE.SIGNATURE`, in seconds since 1970 and hexadecimal digits.
struct Parts<'s> {
    until: i64,
    nonce: &'s str,
    signature: &'s str,
}

impl Sessions {
    /// Sessions that are signed with a secret; `folder` is that of the state.
    ///
    /// # Errors
    ///
    /// When the file of ended sessions cannot be read or written.
    pub fn open(secret: &str, folder: &Path, now: DateTime<Utc>) -> Result<Self> {
        let file = folder.join(ENDED);
        let sessions = Self {
            key: hmac::Key::new(hmac::HMAC_SHA256, secret.as_bytes()),
            ended: Mutex::default(),
            file,
        };
        sessions
            .forget_past(now)
            .with_context(|| format!("cannot use {}", sessions.file.display()))?;
        Ok(sessions)
    }

    /// Forgets the sessions that have ended by themselves.
    fn forget_past(&self, now: DateTime<Utc>) -> io::Result<()> {
        let _lock = self.lock()?;
        let mut ended = self.read()?;
        let before = ended.sessions.len();
        ended.sessions.retain(|_, until| *until > now.timestamp());
        if ended.sessions.len() < before {
            self.rewrite(&ended)?;
        }
        Ok(())
    }

    /// Begins a session of whoever a token belongs to; `None` if it is nobody's.
    pub fn begin(&self, tokens: &Tokens, token: &str, now: DateTime<Utc>) -> Option<String> {
        let (_, hash) = tokens.entry(token)?;
        let until = (now + LASTS).timestamp();
        let nonce = hex::encode(rand::random::<[u8; NONCE]>());
        let signature = hex::encode(self.sign(hash, until, &nonce));
        Some(format!("{until}.{nonce}.{signature}"))
    }

    /// Returns the caller whose session it is, while it lasts.
    pub fn caller<'t>(&self, tokens: &'t Tokens, session: &str, now: DateTime<Utc>) -> Option<&'t Caller> {
        let parts = Parts::of(session).filter(|parts| parts.until > now.timestamp())?;
        let signature = hex::decode(parts.signature).ok()?;
        // Every entry is compared, also behind the match, as for tokens.
        let mut found = None;
        for (caller, hash) in tokens.entries() {
            let signed = self.sign(hash, parts.until, parts.nonce);
            if bool::from(signed.as_slice().ct_eq(&signature)) {
                found = Some(caller);
            }
        }
        // One whose end cannot be looked up has none of its own.
        let is_ended = || {
            self.read()
                .map_or(true, |ended| ended.sessions.contains_key(parts.nonce))
        };
        found.filter(|_| !is_ended())
    }

    /// Ends a session, if it is one.
    ///
    /// # Errors
    ///
    /// When the end cannot be written down.
    pub fn end(&self, tokens: &Tokens, session: &str, now: DateTime<Utc>) -> io::Result<()> {
        let Some(parts) = Parts::of(session).filter(|_| self.caller(tokens, session, now).is_some()) else {
            return Ok(());
        };
        let _lock = self.lock()?;
        let mut ended = self.read()?;
        if ended.sessions.len() >= MOST_ENDED {
            let soonest = ended.sessions.iter().min_by_key(|(_, until)| **until);
            if let Some(soonest) = soonest.map(|(nonce, _)| nonce.clone()) {
                ended.sessions.remove(&soonest);
            }
            self.rewrite(&ended)?;
        }
        let mut file = OpenOptions::new()
            .create(true)
            .append(true)
            .mode(0o600)
            .open(&self.file)?;
        file.write_all(format!("{} {}\n", parts.nonce, parts.until).as_bytes())?;
        file.sync_data()
    }

    fn sign(&self, hash: &[u8; 32], until: i64, nonce: &str) -> Vec<u8> {
        let mut context = hmac::Context::with_key(&self.key);
        context.update(b"session of a browser\n");
        context.update(hash);
        context.update(format!("{until}.{nonce}").as_bytes());
        context.sign().as_ref().to_vec()
    }

    /// The ended sessions, with those that other orchestrators of this machine have ended.
    fn read(&self) -> io::Result<MutexGuard<'_, Ended>> {
        // What was read of the file is only ever more, so a guard of a thread that panicked is good.
        let mut ended = self.ended.lock().unwrap_or_else(PoisonError::into_inner);
        let found = match self.file.metadata() {
            Err(error) if error.kind() == ErrorKind::NotFound => None,
            metadata => metadata.map(|metadata| Some((metadata.ino(), metadata.len())))?,
        };
        if found.is_some() && found != ended.read {
            let lines = read_to_string(&self.file)?;
            // A line that is being written is read with the next look.
            let lines = lines.lines().filter_map(|line| {
                let (nonce, until) = line.split_once(' ')?;
                Some((nonce.to_owned(), until.parse().ok()?))
            });
            ended.sessions.extend(lines);
            ended.read = found;
        }
        Ok(ended)
    }

    /// Writes the file anew.
    fn rewrite(&self, ended: &Ended) -> io::Result<()> {
        let lines = ended
            .sessions
            .iter()
            .map(|(nonce, until)| format!("{nonce} {until}\n"));
        let folder = self.file.parent().unwrap_or(Path::new("."));
        let mut file = NamedTempFile::new_in(folder)?;
        file.write_all(lines.collect::<String>().as_bytes())?;
        file.as_file().sync_all()?;
        file.persist(&self.file)?;
        Ok(())
    }

    /// Keeps other orchestrators of this machine from writing the file until what is returned is dropped.
    fn lock(&self) -> io::Result<File> {
        let lock = File::create(self.file.with_file_name(LOCK))?;
        lock.lock()?;
        Ok(lock)
    }
}

impl std::fmt::Debug for Sessions {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter
            .debug_struct("Sessions")
            .field("file", &self.file)
            .finish_non_exhaustive()
    }
}

impl<'s> Parts<'s> {
    fn of(session: &'s str) -> Option<Self> {
        let mut parts = session.split('.');
        let (until, nonce, signature) = (parts.next()?, parts.next()?, parts.next()?);
        let is_whole = parts.next().is_none() && nonce.len() == 2 * NONCE;
        let until = until.parse().ok().filter(|_| is_whole)?;
        Some(Self {
            until,
            nonce,
            signature,
        })
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use super::super::Access;
    use super::super::tokens::{line, token};
    use super::*;

    const SECRET: &str = "the secret that the nodes of a cluster share";

    fn sessions(folder: &Path) -> Sessions {
        Sessions::open(SECRET, folder, Utc::now()).unwrap()
    }

    fn tokens(all: &[(&str, &str)]) -> Tokens {
        let lines = all.iter().map(|(name, token)| line(name, Access::Edit, token));
        Tokens::parse(&lines.collect::<String>()).unwrap()
    }

    #[test]
    fn a_session_is_its_owners_until_a_time_and_stands_for_no_token() {
        let folder = tempfile::tempdir().unwrap();
        let (eva, otto, now) = (token(), token(), Utc::now());
        let known = tokens(&[("eva", &eva), ("otto", &otto)]);
        let sessions = sessions(folder.path());
        assert_eq!(sessions.begin(&known, &token(), now), None);
        let session = sessions.begin(&known, &eva, now).unwrap();
        let name = |session: &str, now| {
            let caller = sessions.caller(&known, session, now);
            caller.map(|caller| caller.name.as_str())
        };
        assert_eq!(name(&session, now), Some("eva"));
        assert_eq!(name(&session, now + LASTS - TimeDelta::seconds(2)), Some("eva"));
        assert_eq!(name(&session, now + LASTS), None);
        assert!(!session.contains(&eva) && known.caller(&session).is_none());
        let later = format!("9{session}");
        let other = session.replace('.', "..");
        for forged in [later.as_str(), &other, "", "..", &session[..session.len() - 2]] {
            assert_eq!(name(forged, now), None, "{forged}");
        }
        // With the line of the token goes the session.
        assert_eq!(sessions.caller(&tokens(&[("eva", &otto)]), &session, now), None);
    }

    #[test]
    fn an_ended_session_is_over_for_all_orchestrators_of_the_machine_and_after_a_restart() {
        let folder = tempfile::tempdir().unwrap();
        let (eva, now) = (token(), Utc::now());
        let known = tokens(&[("eva", &eva)]);
        let (one, other) = (sessions(folder.path()), sessions(folder.path()));
        let [ended, kept] = [(), ()].map(|()| one.begin(&known, &eva, now).unwrap());
        assert!(other.caller(&known, &ended, now).is_some());
        other.end(&known, &ended, now).unwrap();
        other.end(&known, "no session", now).unwrap();
        let again = sessions(folder.path());
        for orchestrator in [&one, &other, &again] {
            assert!(orchestrator.caller(&known, &ended, now).is_none());
            assert!(orchestrator.caller(&known, &kept, now).is_some());
        }
        let mode = folder.path().join(ENDED).metadata().unwrap().permissions().mode();
        assert_eq!(mode & 0o777, 0o600);
    }

    #[test]
    fn what_has_ended_by_itself_is_forgotten() {
        let folder = tempfile::tempdir().unwrap();
        let (eva, now) = (token(), Utc::now());
        let known = tokens(&[("eva", &eva)]);
        let first = sessions(folder.path());
        let session = first.begin(&known, &eva, now).unwrap();
        first.end(&known, &session, now).unwrap();
        let length = || folder.path().join(ENDED).metadata().unwrap().len();
        assert!(length() > 0);
        Sessions::open(SECRET, folder.path(), now + LASTS).unwrap();
        assert_eq!(length(), 0);
    }

    #[test]
    fn another_secret_begins_other_sessions() {
        let folder = tempfile::tempdir().unwrap();
        let (eva, now) = (token(), Utc::now());
        let known = tokens(&[("eva", &eva)]);
        let session = sessions(folder.path()).begin(&known, &eva, now).unwrap();
        let other = Sessions::open("another secret", folder.path(), now).unwrap();
        assert!(other.caller(&known, &session, now).is_none());
    }
}
