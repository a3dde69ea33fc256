//! The one device of a build without tensors: host memory.

use super::{DeviceError, DeviceKind};
use crate::error::InferenceError;

/// Place of maps in host memory.
#[derive(Debug, Clone)]
pub struct Device;

pub(super) fn processor() -> Device {
    Device
}

pub(super) fn compute_one(_: &Device) -> Result<Vec<f32>, InferenceError> {
    Ok(Vec::new())
}

pub(super) fn enumerate(kind: DeviceKind) -> Result<Vec<Device>, DeviceError> {
    Err(DeviceError::NotCompiledIn { kind })
}

pub(super) fn identity(_: &Device) -> Option<(String, bool)> {
    None
}
