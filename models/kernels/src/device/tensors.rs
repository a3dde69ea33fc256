//! Devices of tensors: Burn's.

#[cfg(any(feature = "wgpu", feature = "cuda"))]
use std::panic::{AssertUnwindSafe, catch_unwind};

pub use burn::tensor::Device;
use burn::tensor::Tensor;

use super::{DeviceError, DeviceKind, backend_error};
use crate::error::InferenceError;

/// The processor, which computes the reference that the tests compare with.
pub(super) fn processor() -> Device {
    Device::flex()
}

/// Copies a tensor to host memory, row-major.
///
/// # Errors
/// [`InferenceError::OutOfMemory`] or [`InferenceError::Failed`] where the device could not compute it.
pub fn read<const D: usize>(tensor: Tensor<D>) -> Result<Vec<f32>, InferenceError> {
    tensor
        .try_into_vec_as::<f32>()
        .map_err(|error| backend_error(&error.to_string()))
}

/// Has a device compute one value. Reading it back forces the work to be done, which is queued otherwise.
pub(super) fn compute_one(device: &Device) -> Result<Vec<f32>, InferenceError> {
    read(Tensor::<1>::zeros([1], device))
}

/// The devices of a kind of GPU; the processor is not listed.
pub(super) fn enumerate(kind: DeviceKind) -> Result<Vec<Device>, DeviceError> {
    match kind {
        #[cfg(feature = "wgpu")]
        DeviceKind::Wgpu => Ok(gpus(burn::tensor::DeviceType::Wgpu)),
        #[cfg(feature = "cuda")]
        DeviceKind::Cuda => Ok(gpus(burn::tensor::DeviceType::Cuda)),
        other => Err(DeviceError::NotCompiledIn { kind: other }),
    }
}

/// The devices of one type; none where the driver panics.
#[cfg(any(feature = "wgpu", feature = "cuda"))]
fn gpus(device_type: burn::tensor::DeviceType) -> Vec<Device> {
    catch_unwind(AssertUnwindSafe(|| Device::enumerate(device_type).into_vec())).unwrap_or_default()
}

/// Name of a device as its driver states it, and whether it is a card.
#[cfg(any(feature = "wgpu", feature = "cuda"))]
pub(super) fn identity(device: &Device) -> Option<(String, bool)> {
    let identity = catch_unwind(AssertUnwindSafe(|| device.identity()))
        .ok()
        .flatten()?;
    Some((identity.name, identity.physical.is_some()))
}

#[cfg(not(any(feature = "wgpu", feature = "cuda")))]
pub(super) fn identity(_: &Device) -> Option<(String, bool)> {
    None
}
