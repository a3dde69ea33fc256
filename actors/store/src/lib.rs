//! Scans and artifacts at rest. [`storage`] keeps bytes under keys, [`artifact`] says which keys and which tables there are, [`pages`]
//! finds the scans of a volume. The crate knows neither tasks nor their state: it is told what to read and write.

pub mod artifact;
pub mod pages;
pub mod storage;
