//! Scans for all tests, and what an undisturbed run makes of them.

use std::path::{Path, PathBuf};
use std::sync::Mutex;

use crate::site::put_pages;
use crate::support::{finish, node};

/// The jobs that run at once.
pub(crate) const JOBS: [&str; 2] = ["kangyur", "tengyur"];

/// So many volumes of so many pages each.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Library {
    pub(crate) volumes: usize,
    pub(crate) pages: usize,
}

/// Enough for every node to have work while something happens.
pub(crate) const SHELF: Library = Library { volumes: 3, pages: 3 };

impl Library {
    pub(crate) fn volume(number: usize) -> String {
        format!("W1-I{number:02}")
    }

    fn folder(self, part: &str) -> PathBuf {
        let name = format!("chaos-{}x{}", self.volumes, self.pages);
        Path::new(env!("CARGO_TARGET_TMPDIR")).join(name).join(part)
    }

    pub(crate) fn scans(self) -> PathBuf {
        self.folder("scans")
    }

    /// What `node ocr` made of the scans, as the artifacts of one job. Made once per run of the tests.
    pub(crate) fn undisturbed(self, job: &str) -> PathBuf {
        static MADE: Mutex<Vec<(Library, String)>> = Mutex::new(Vec::new());
        let mut made = MADE.lock().unwrap();
        let out = self.folder(job);
        if !made.contains(&(self, job.to_owned())) {
            // An earlier run of the tests may have been of another build.
            let _ = std::fs::remove_dir_all(&out);
            self.shelve();
            let mut command = node(["ocr", "--job", job, "--config", "checkpoint_pages=1"]);
            command.arg(self.scans()).arg("--out").arg(&out);
            finish(command).exits(0);
            made.push((self, job.to_owned()));
        }
        out.join("jobs").join(job)
    }

    pub(crate) fn shelve(self) {
        for volume in 0..self.volumes {
            let folder = self.scans().join(Self::volume(volume));
            let [volume, pages] = [volume, self.pages].map(|number| u8::try_from(number).unwrap());
            put_pages(&folder, volume, pages);
        }
    }
}
