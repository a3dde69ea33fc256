//! Contents of an archive or a folder of models, copied under bounds.

use std::fs::{self, File};
use std::io::{self, Read};
use std::path::{Component, Path, PathBuf};

use anyhow::{Context, Result, bail, ensure};
use flate2::read::MultiGzDecoder;
use tar::{Archive, EntryType};

/// Bounds of what is copied.
#[derive(Debug, Clone, Copy)]
pub struct Limits {
    /// Bytes of all files together, and of an archive as it is unpacked.
    pub bytes: u64,
    /// Files and folders.
    pub entries: usize,
    /// Folders of a file's path.
    pub depth: usize,
}

impl Limits {
    /// Some times what the models take.
    pub const OF_MODELS: Self = Self {
        bytes: 512 << 20,
        entries: 1000,
        depth: 8,
    };
}

/// Copies what `file` holds, an archive or a folder, into the empty folder `to`.
///
/// # Errors
///
/// If it cannot be read, exceeds the limits, has a link or a path that leaves the folder, or cannot be written.
pub fn copy(file: &Path, to: &Path, limits: Limits) -> Result<()> {
    let mut target = Target {
        folder: to,
        left: limits,
        limits,
    };
    if file.is_dir() {
        return target.copy_folder(file, Path::new(""));
    }
    let opened = File::open(file).with_context(|| format!("cannot open {}", file.display()))?;
    target
        .unpack(opened)
        .with_context(|| format!("{} cannot be unpacked", file.display()))
}

/// Folder that is filled, and how much more may come.
struct Target<'a> {
    folder: &'a Path,
    left: Limits,
    limits: Limits,
}

impl Target<'_> {
    fn unpack(&mut self, archive: File) -> Result<()> {
        // Headers and padding are bounded too: each file has less than 3 KiB of them.
        let most = self
            .limits
            .bytes
            .saturating_add(self.limits.entries as u64 * 4096);
        let mut archive = Archive::new(MultiGzDecoder::new(archive).take(most));
        for entry in archive.entries()? {
            let mut entry = entry?;
            let path = entry.path()?.into_owned();
            match entry.header().entry_type() {
                EntryType::Regular | EntryType::Continuous => self.add(&path, &mut entry)?,
                EntryType::Directory => {
                    self.count(&path)?;
                    plain(&path)?;
                }
                EntryType::XGlobalHeader => {}
                _ => bail!("{} is neither a file nor a folder", path.display()),
            }
        }
        Ok(())
    }

    /// Copies the files of a folder and of those in it; `below` is its path from the top.
    fn copy_folder(&mut self, top: &Path, below: &Path) -> Result<()> {
        let folder = top.join(below);
        let unreadable = || format!("cannot read {}", folder.display());
        for entry in fs::read_dir(&folder).with_context(unreadable)? {
            let entry = entry.with_context(unreadable)?;
            let path = below.join(entry.file_name());
            let kind = entry.file_type().with_context(unreadable)?;
            if kind.is_dir() {
                self.count(&path)?;
                ensure!(
                    path.components().count() <= self.limits.depth,
                    "{} is too deep",
                    path.display()
                );
                self.copy_folder(top, &path)?;
            } else if kind.is_file() {
                let mut file = File::open(entry.path())
                    .with_context(|| format!("cannot open {}", entry.path().display()))?;
                self.add(&path, &mut file)?;
            } else {
                bail!("{} is neither a file nor a folder", entry.path().display());
            }
        }
        Ok(())
    }

    /// Copies a file to a path below the folder.
    fn add(&mut self, path: &Path, content: &mut dyn Read) -> Result<()> {
        self.count(path)?;
        let below = plain(path)?;
        let depth = below.components().count();
        ensure!(depth <= self.limits.depth, "{} is too deep", path.display());
        let place = self.folder.join(below);
        let failed = || format!("cannot write {}", place.display());
        if let Some(parent) = place.parent() {
            fs::create_dir_all(parent).with_context(failed)?;
        }
        // A path that comes twice is refused: the second file would hide the first.
        let mut file = File::create_new(&place).with_context(failed)?;
        let copied = io::copy(&mut content.take(self.left.bytes.saturating_add(1)), &mut file);
        let copied = copied.with_context(|| format!("cannot copy {}", path.display()))?;
        self.left.bytes = self
            .left
            .bytes
            .checked_sub(copied)
            .with_context(|| format!("it holds more than {} MiB", self.limits.bytes >> 20))?;
        file.sync_all().with_context(failed)
    }

    fn count(&mut self, path: &Path) -> Result<()> {
        self.left.entries = self.left.entries.checked_sub(1).with_context(|| {
            format!(
                "it holds more than {} files and folders, the next is {}",
                self.limits.entries,
                path.display()
            )
        })?;
        Ok(())
    }
}

/// Path of a file below the folder that an archive is unpacked to.
///
/// # Errors
///
/// If it leads out of the folder.
fn plain(path: &Path) -> Result<PathBuf> {
    let parts = path.components().filter(|part| *part != Component::CurDir);
    parts
        .map(|part| match part {
            Component::Normal(name) => Ok(name),
            _ => bail!("the path {} leaves the folder", path.display()),
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use flate2::Compression;
    use flate2::write::GzEncoder;
    use tar::{Builder, Header};

    use super::*;

    const SMALL: Limits = Limits {
        bytes: 100,
        entries: 3,
        depth: 2,
    };

    /// An archive of entries with a type, a path as it stands in the header, and a length.
    fn archive(entries: &[(EntryType, &str, usize)]) -> tempfile::NamedTempFile {
        let file = tempfile::NamedTempFile::new().unwrap();
        let encoder = GzEncoder::new(file.reopen().unwrap(), Compression::fast());
        let mut builder = Builder::new(encoder);
        for &(kind, path, length) in entries {
            let mut header = Header::new_old();
            // The crate refuses to write such paths itself.
            header.as_old_mut().name[..path.len()].copy_from_slice(path.as_bytes());
            header.set_entry_type(kind);
            header.set_size(length as u64);
            header.set_mode(0o644);
            header.set_cksum();
            builder.append(&header, &vec![b'x'; length][..]).unwrap();
        }
        builder.into_inner().unwrap().finish().unwrap();
        file
    }

    fn copied(entries: &[(EntryType, &str, usize)]) -> Result<Vec<String>> {
        let outer = tempfile::tempdir().unwrap();
        let to = outer.path().join("to");
        fs::create_dir(&to).unwrap();
        let result = copy(archive(entries).path(), &to, SMALL);
        let names: Vec<_> = fs::read_dir(outer.path()).unwrap().collect();
        assert_eq!(names.len(), 1, "nothing is written beside the folder");
        result?;
        let mut names = vec![String::new()];
        for folder in ["", "a"] {
            for entry in fs::read_dir(to.join(folder)).into_iter().flatten() {
                let path = entry.unwrap().path();
                let name = path.strip_prefix(&to).unwrap().display().to_string();
                names.extend(path.is_file().then_some(name));
            }
        }
        names.sort();
        Ok(names.split_off(1))
    }

    #[test]
    fn files_of_an_archive_are_copied() {
        let entries = [
            (EntryType::Directory, "./a/", 0),
            (EntryType::Regular, "./a/one", 50),
            (EntryType::Regular, "two", 50),
        ];
        assert_eq!(copied(&entries).unwrap(), ["a/one", "two"]);
    }

    #[test]
    fn an_archive_cannot_leave_its_folder_nor_exceed_its_bounds() {
        use EntryType::{Directory, Link, Regular, Symlink};
        for (entries, reason) in [
            (&[(Regular, "../out", 1)][..], "leaves the folder"),
            (&[(Regular, "a/../../out", 1)], "leaves the folder"),
            (&[(Regular, "/tmp/out", 1)], "leaves the folder"),
            (&[(Directory, "../out/", 0)], "leaves the folder"),
            (&[(Symlink, "a", 0), (Regular, "a/out", 1)], "neither a file"),
            (&[(Link, "a", 0)], "neither a file"),
            (&[(Regular, "a", 60), (Regular, "b", 60)], "more than 0 MiB"),
            (&[(Regular, "a", 1), (Regular, "a", 1)], "cannot write"),
            (&[(Regular, "a/b/c", 1)], "too deep"),
            (&[(Directory, "a", 0); 4], "more than 3 files"),
        ] {
            let refused = format!("{:#}", copied(entries).unwrap_err());
            assert!(refused.contains(reason), "{entries:?}: {refused}");
        }
    }

    #[test]
    fn an_archive_that_ends_early_or_is_none_is_refused() {
        let whole = archive(&[(EntryType::Regular, "a", 90)]);
        let bytes = fs::read(whole.path()).unwrap();
        for bytes in [&bytes[..bytes.len() / 2], b"no archive", b""] {
            let folder = tempfile::tempdir().unwrap();
            let file = tempfile::NamedTempFile::new().unwrap();
            fs::write(file.path(), bytes).unwrap();
            let refused = copy(file.path(), folder.path(), SMALL).map_err(|error| format!("{error:#}"));
            assert!(refused.is_err_and(|refused| refused.contains("cannot be unpacked")));
        }
    }

    #[test]
    fn links_in_a_folder_are_refused() {
        let from = tempfile::tempdir().unwrap();
        std::os::unix::fs::symlink("/etc", from.path().join("link")).unwrap();
        let to = tempfile::tempdir().unwrap();
        let refused = copy(from.path(), to.path(), SMALL).unwrap_err();
        assert!(refused.to_string().contains("neither a file"), "{refused}");
    }
}
