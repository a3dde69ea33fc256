//! Reading the vectors that upstream programs produced.
//!
//! A subset of each set lies beside this file. With `PARKHANG_SHARED` naming a folder that holds the full sets under
//! `golden/`, tests that ask for it read those.

#![allow(dead_code, reason = "each test file uses a part")]

use std::fs::File;
use std::io::{BufRead, BufReader, Read};
use std::path::{Path, PathBuf};

use flate2::read::GzDecoder;
use serde::de::DeserializeOwned;

/// The folder of one set.
#[derive(Debug)]
pub(crate) struct Golden(PathBuf);

impl Golden {
    /// The subset in this repository.
    pub(crate) fn open(set: &str) -> Self {
        Self(
            Path::new(env!("CARGO_MANIFEST_DIR"))
                .join("tests/golden")
                .join(set),
        )
    }

    /// The full set, or `None` (and a line on standard error) where it is not at hand.
    pub(crate) fn open_full(set: &str) -> Option<Self> {
        let Some(shared) = std::env::var_os("PARKHANG_SHARED") else {
            eprintln!(
                "SKIPPED: the full golden set {set} is read only when PARKHANG_SHARED names its folder"
            );
            return None;
        };
        let folder = Path::new(&shared).join("golden").join(set);
        assert!(folder.is_dir(), "{} is no folder", folder.display());
        Some(Self(folder))
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.0.join(name)
    }

    /// A file, unpacked if it is there as `NAME.gz` only.
    pub(crate) fn bytes(&self, name: &str) -> Vec<u8> {
        let mut bytes = Vec::new();
        self.reader(name).read_to_end(&mut bytes).unwrap();
        bytes
    }

    pub(crate) fn json<T: DeserializeOwned>(&self, name: &str) -> T {
        serde_json::from_reader(self.reader(name)).unwrap()
    }

    pub(crate) fn json_lines<T: DeserializeOwned>(&self, name: &str) -> Vec<T> {
        let lines = BufReader::new(self.reader(name)).lines();
        lines
            .map(|line| serde_json::from_str(&line.unwrap()).unwrap())
            .collect()
    }

    /// A two-dimensional array of 32-bit floats in NumPy's format, as (rows, columns, values).
    pub(crate) fn matrix(&self, name: &str) -> (usize, usize, Vec<f32>) {
        let bytes = self.bytes(name);
        assert_eq!(&bytes[..8], b"\x93NUMPY\x01\x00", "{name}");
        let (header, data) = bytes[10..].split_at(usize::from(u16::from_le_bytes([bytes[8], bytes[9]])));
        let header = std::str::from_utf8(header).unwrap();
        assert!(
            header.contains("'<f4'") && header.contains("'fortran_order': False"),
            "{header}"
        );
        let shape = header
            .split_once("'shape': (")
            .unwrap()
            .1
            .split_once(')')
            .unwrap()
            .0;
        let shape: Vec<usize> = shape
            .split(',')
            .map(|side| side.trim().parse().unwrap())
            .collect();
        let values: Vec<f32> = data
            .chunks_exact(4)
            .map(|raw| f32::from_le_bytes(raw.try_into().unwrap()))
            .collect();
        assert_eq!(shape.iter().product::<usize>(), values.len(), "{name}");
        (shape[0], shape[1], values)
    }

    fn reader(&self, name: &str) -> Box<dyn Read> {
        let path = self.path(name);
        if path.is_file() {
            return Box::new(File::open(&path).unwrap());
        }
        let packed = self.path(&format!("{name}.gz"));
        let file = File::open(&packed).unwrap_or_else(|error| panic!("{}: {error}", packed.display()));
        Box::new(GzDecoder::new(file))
    }
}
