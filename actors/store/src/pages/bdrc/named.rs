//! Volumes as the lists and messages of BDRC's programs name them.

use super::{BENCHMARK, benchmark_volume};
use parkhang_core::domain::{InvalidName, VolumeId};

/// Name of the archive as a source of volumes.
const ARCHIVE: &str = "bdrc";

/// Reason why ids name no volume of a source.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum VolumeNameError {
    #[error("there is no source {0}; there are {ARCHIVE} and {BENCHMARK}")]
    Unknown(String),
    #[error("a volume of {BENCHMARK} needs a version")]
    NoVersion,
    #[error(transparent)]
    Name(#[from] InvalidName),
}

/// Volume of a source, the archive unless another one is named, in large or small letters. One of the benchmark has a version; the
/// archive knows the version of its volumes itself, whatever anybody names.
///
/// # Errors
///
/// [`VolumeNameError`] for a source that there is not, a volume of the benchmark without a version, and ids that are none.
pub fn volume_of_source(
    w_id: &str,
    i_id: &str,
    source: Option<&str>,
    version: Option<&str>,
) -> Result<VolumeId, VolumeNameError> {
    let source = source.unwrap_or(ARCHIVE);
    if source.eq_ignore_ascii_case(ARCHIVE) {
        return Ok(VolumeId::new(w_id, i_id)?);
    }
    if !source.eq_ignore_ascii_case(BENCHMARK) {
        return Err(VolumeNameError::Unknown(source.to_owned()));
    }
    let version = version.ok_or(VolumeNameError::NoVersion)?;
    Ok(benchmark_volume(w_id, i_id, version)?)
}
