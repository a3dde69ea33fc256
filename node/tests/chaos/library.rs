//! Scans for all tests, and what an undisturbed run makes of them.

use std::collections::BTreeMap;
use std::io::Cursor;
use std::path::{Path, PathBuf};
use std::sync::Mutex;

use image::ImageFormat;
use parkhang_actors::stage::{DOCUMENTS, OCR};

use crate::site::put_copies;
use crate::support::{finish, node, sample, small_page};

/// The jobs that run at once.
pub(crate) const JOBS: [&str; 2] = ["kangyur", "tengyur"];

/// Source of a library's scans.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Scans {
    /// One page in different bytes.
    Alike,
    /// Upper left corner of that page, likewise: the recogniser of `page_ocr` takes five times as long for the whole page.
    Corner,
    /// The scans of `tests/fixtures/sample`, in another combination for each volume.
    Sample,
    /// Scans of collections below `PARKHANG_SHARED`, a collection for each volume.
    Collections,
}

/// So many volumes of so many pages each.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Library {
    volumes: usize,
    pages: usize,
    scans: Scans,
    /// Pipeline that its volumes go through.
    pub(crate) pipeline: &'static str,
}

/// Enough for every node to have work while something happens.
pub(crate) const SHELF: Library = Library::alike(3, 3);
/// Real pages that differ in size, script and colour: woodblocks, manuscripts and print.
pub(crate) const SAMPLE: Library = Library {
    volumes: 4,
    pages: 3,
    scans: Scans::Sample,
    pipeline: OCR,
};

impl Library {
    pub(crate) const fn alike(volumes: usize, pages: usize) -> Self {
        Self {
            volumes,
            pages,
            scans: Scans::Alike,
            pipeline: OCR,
        }
    }

    /// Library of as many volumes that become documents.
    pub(crate) const fn as_documents(self) -> Self {
        Self {
            scans: Scans::Corner,
            pipeline: DOCUMENTS,
            ..self
        }
    }

    /// Four pages of each collection that may be shipped, or none without `PARKHANG_SHARED`.
    pub(crate) fn of_collections() -> Option<Self> {
        let pages = 4;
        let volumes = collections(pages)?.len();
        let scans = Scans::Collections;
        Some(Self {
            volumes,
            pages,
            scans,
            pipeline: OCR,
        })
    }

    pub(crate) fn volume(number: usize) -> String {
        format!("W1-I{number:02}")
    }

    fn folder(self, part: &str) -> PathBuf {
        let Self {
            volumes,
            pages,
            scans,
            pipeline,
        } = self;
        let name = format!("chaos-{pipeline}-{scans:?}-{volumes}x{pages}");
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
            // No viewer: the artifacts are what is compared.
            command.args(["--export", "text", "--pipeline", self.pipeline]);
            command.arg(self.scans()).arg("--out").arg(&out);
            finish(command).exits(0);
            made.push((self, job.to_owned()));
        }
        out.join("jobs").join(job)
    }

    /// Puts the scans into their folder, once per run of the tests: other clusters may read them by now.
    pub(crate) fn shelve(self) {
        static SHELVED: Mutex<Vec<Library>> = Mutex::new(Vec::new());
        let mut shelved = SHELVED.lock().unwrap();
        if shelved.contains(&self) {
            return;
        }
        shelved.push(self);
        for volume in 0..self.volumes {
            let folder = self.scans().join(Self::volume(volume));
            let alike = |scan: &[u8]| {
                let [volume, pages] = [volume, self.pages].map(|number| u8::try_from(number).unwrap());
                put_copies(&folder, scan, volume, pages);
            };
            match self.scans {
                Scans::Alike => alike(&small_page()),
                Scans::Corner => alike(&corner()),
                Scans::Sample => copy(combination(volume, self.pages), &folder),
                Scans::Collections => copy(collections(self.pages).unwrap().swap_remove(volume), &folder),
            }
        }
    }
}

/// Beginnings of the first lines of the small page, as a TIFF.
fn corner() -> Vec<u8> {
    let corner = image::load_from_memory(&small_page())
        .unwrap()
        .crop_imm(0, 0, 480, 120);
    let mut scan = Cursor::new(Vec::new());
    corner.write_to(&mut scan, ImageFormat::Tiff).unwrap();
    scan.into_inner()
}

fn copy(scans: Vec<PathBuf>, folder: &Path) {
    std::fs::create_dir_all(folder).unwrap();
    for scan in scans {
        std::fs::copy(&scan, folder.join(scan.file_name().unwrap())).unwrap();
    }
}

/// Scans of the sample for a volume: no two of six volumes have the same ones.
fn combination(volume: usize, pages: usize) -> Vec<PathBuf> {
    let entries = std::fs::read_dir(sample().join("W0PARKHANG-I0SAMPLE")).unwrap();
    let mut scans: Vec<PathBuf> = entries.map(|entry| entry.unwrap().path()).collect();
    scans.sort_unstable();
    scans.into_iter().cycle().skip(volume).take(pages).collect()
}

/// Scans of each collection that has so many, and whose licence is MIT.
fn collections(pages: usize) -> Option<Vec<Vec<PathBuf>>> {
    let shared = std::env::var_os("PARKHANG_SHARED")?;
    let folder = Path::new(&shared).join("data/real/pages");
    let manifest = std::fs::read_to_string(folder.join("manifest.tsv")).unwrap();
    let mut collections: BTreeMap<&str, Vec<PathBuf>> = BTreeMap::new();
    for line in manifest.lines() {
        if let [file, _, "MIT", collection, ..] = line.split('\t').collect::<Vec<_>>()[..] {
            collections.entry(collection).or_default().push(folder.join(file));
        }
    }
    let of_enough = collections.into_values().filter(|scans| scans.len() >= pages);
    Some(
        of_enough
            .map(|mut scans| {
                scans.sort_unstable();
                scans.truncate(pages);
                scans
            })
            .collect(),
    )
}
