//! Compute devices, chosen at run time. A device is always named: nothing falls back to another one, because a fleet whose
//! nodes quietly read on the wrong device costs more than a node that does not start.
//!
//! A device is opened once and handed to every network; its clones share its threads. The processor has a pool of threads
//! of its own, so that inference does not take turns with the geometry on the global one. Backends report failure by
//! panicking; [`ComputeDevice::run`] is the one place where that becomes an error.

#[cfg(not(feature = "tensors"))]
mod host;
#[cfg(feature = "tensors")]
mod tensors;

use std::fmt;
use std::num::NonZeroUsize;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::str::FromStr;
use std::sync::Arc;

use rayon::{ThreadPool, ThreadPoolBuilder};

use crate::error::InferenceError;
pub use crate::precision::Precision;

#[cfg(not(feature = "tensors"))]
use host as backend;
#[cfg(feature = "tensors")]
use tensors as backend;

pub use backend::Device;
#[cfg(feature = "tensors")]
pub use tensors::read;

/// The kinds of device that networks run on.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum DeviceKind {
    /// The processor; the reference that the other kinds are compared with.
    Cpu,
    /// A GPU through Vulkan, Metal or DirectX; needs the cargo feature `wgpu`.
    Wgpu,
    /// An NVIDIA GPU; needs the cargo feature `cuda`, and the driver, NVRTC and CUDA's headers at run time.
    Cuda,
}

impl DeviceKind {
    pub const ALL: [Self; 3] = [Self::Cpu, Self::Wgpu, Self::Cuda];

    /// The names of the devices of this kind that are here, in the order of their numbers.
    ///
    /// # Errors
    /// [`DeviceError::NotCompiledIn`], or [`DeviceError::NotFound`] where there is none.
    pub fn devices(self) -> Result<Vec<String>, DeviceError> {
        if self == Self::Cpu {
            return Ok(vec!["processor".to_owned()]);
        }
        let found = backend::enumerate(self)?;
        if found.is_empty() {
            return Err(DeviceError::NotFound { kind: self });
        }
        Ok(found
            .iter()
            .map(|device| backend::identity(device).map_or_else(|| self.to_string(), |(name, _)| name))
            .collect())
    }
}

impl fmt::Display for DeviceKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Cpu => "cpu",
            Self::Wgpu => "wgpu",
            Self::Cuda => "cuda",
        })
    }
}

impl FromStr for DeviceKind {
    type Err = UnknownDeviceKind;

    fn from_str(name: &str) -> Result<Self, Self::Err> {
        match name {
            "cpu" => Ok(Self::Cpu),
            "wgpu" => Ok(Self::Wgpu),
            "cuda" => Ok(Self::Cuda),
            other => Err(UnknownDeviceKind(other.to_owned())),
        }
    }
}

/// A device name that is none of [`DeviceKind`].
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("unknown device `{0}`: expected cpu, wgpu or cuda")]
pub struct UnknownDeviceKind(String);

/// Choice of a device to open.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct DeviceSpec {
    pub kind: DeviceKind,
    /// Position among the devices of this kind; the processor is number 0.
    pub index: usize,
    /// Threads that one inference call may use; only the processor heeds it.
    pub threads: NonZeroUsize,
    /// `true` accepts a program that imitates a card. It is slower than the processor, and good for trying the code of
    /// GPUs where there is none.
    pub software_renderer: bool,
    pub precision: Precision,
}

impl DeviceSpec {
    /// The processor in full precision, with the given number of threads.
    pub fn cpu(threads: NonZeroUsize) -> Self {
        Self {
            kind: DeviceKind::Cpu,
            index: 0,
            threads,
            software_renderer: false,
            precision: Precision::Full,
        }
    }
}

/// Reason why a device could not be opened.
#[derive(Debug, thiserror::Error)]
pub enum DeviceError {
    #[error("this build has no {kind} support; build it with the cargo feature `{kind}`")]
    NotCompiledIn { kind: DeviceKind },
    #[error("no {kind} device found; is its driver installed?")]
    NotFound { kind: DeviceKind },
    #[error("no {kind} device number {index}; this machine has {count}")]
    NoSuchIndex {
        kind: DeviceKind,
        index: usize,
        count: usize,
    },
    #[error(
        "{kind} device {index} is the software renderer `{name}`, which is slower than `cpu`; `{kind}-software` uses it all the same"
    )]
    SoftwareRenderer {
        kind: DeviceKind,
        index: usize,
        name: String,
    },
    #[error("{kind} device {index} does not compute: {reason}")]
    Unusable {
        kind: DeviceKind,
        index: usize,
        reason: InferenceError,
    },
    #[error("cannot start the inference threads")]
    Threads(#[from] rayon::ThreadPoolBuildError),
}

/// An opened device. Cloning it is cheap; clones share the device and its threads.
#[derive(Debug, Clone)]
pub struct ComputeDevice {
    kind: DeviceKind,
    device: Device,
    precision: Precision,
    /// Threads of a processor. The CPU backend parallelises on the rayon pool it is called from; this one keeps it off the global
    /// one.
    pool: Option<Arc<ThreadPool>>,
}

impl ComputeDevice {
    /// Opens a device and, for a GPU, computes one value on it: a missing driver shows here and not at the first page.
    ///
    /// # Errors
    /// [`DeviceError`] where the build, the machine or the driver has no such device.
    pub fn open(spec: &DeviceSpec) -> Result<Self, DeviceError> {
        let DeviceSpec {
            kind,
            index,
            threads,
            software_renderer: imitation_will_do,
            precision,
        } = *spec;
        match kind {
            DeviceKind::Cpu => {
                if index > 0 {
                    return Err(DeviceError::NoSuchIndex {
                        kind,
                        index,
                        count: 1,
                    });
                }
                let pool = ThreadPoolBuilder::new()
                    .num_threads(threads.get())
                    .thread_name(|number| format!("inference-{number}"))
                    .build()?;
                Ok(Self {
                    kind,
                    device: backend::processor(),
                    precision,
                    pool: Some(Arc::new(pool)),
                })
            }
            DeviceKind::Wgpu | DeviceKind::Cuda => {
                let mut found = backend::enumerate(kind)?;
                let count = found.len();
                if count == 0 {
                    return Err(DeviceError::NotFound { kind });
                }
                if index >= count {
                    return Err(DeviceError::NoSuchIndex { kind, index, count });
                }
                let device = found.swap_remove(index);
                if kind == DeviceKind::Wgpu
                    && !imitation_will_do
                    && let Some(name) = software_renderer(&device)
                {
                    return Err(DeviceError::SoftwareRenderer { kind, index, name });
                }
                let opened = Self {
                    kind,
                    device,
                    precision: Precision::Full,
                    pool: None,
                };
                opened
                    // A driver that lists a device need not be able to compute on it.
                    .run(|| backend::compute_one(opened.burn()))
                    .map_err(|reason| DeviceError::Unusable { kind, index, reason })?;
                Ok(opened)
            }
        }
    }

    /// Kind of the device.
    pub fn kind(&self) -> DeviceKind {
        self.kind
    }

    /// Precision of the networks on the device that heed one; full on a GPU.
    pub fn precision(&self) -> Precision {
        self.precision
    }

    /// The device as Burn names it, where tensors are compiled in.
    pub fn burn(&self) -> &Device {
        &self.device
    }

    /// Runs a network call on this device's threads. Panics of the backend (wrong shapes, a lost device) become errors;
    /// the networks hold no state between calls, so they stay usable afterwards.
    ///
    /// # Errors
    /// Those of `call`; [`InferenceError::OutOfMemory`] or [`InferenceError::Failed`] in place of a panic.
    pub fn run<T: Send>(
        &self,
        call: impl FnOnce() -> Result<T, InferenceError> + Send,
    ) -> Result<T, InferenceError> {
        // Within the pool, so that a panic is caught on the thread that it happens on.
        let guarded = || catch_unwind(AssertUnwindSafe(call));
        let outcome = match &self.pool {
            Some(pool) => pool.install(guarded),
            None => guarded(),
        };
        outcome.unwrap_or_else(|panic| {
            let message = panic
                .downcast_ref::<String>()
                .map(String::as_str)
                .or_else(|| panic.downcast_ref::<&str>().copied())
                .unwrap_or("panic without a message");
            Err(backend_error(message))
        })
    }
}

/// The backends report lack of memory as text only, in a panic or in an execution error. A buffer larger than the device
/// can have is the same to a batch: half of it fits.
fn backend_error(message: &str) -> InferenceError {
    // Drivers and backends spell the same in their own ways.
    let folded = message.to_lowercase();
    let signs = [
        "out of memory",
        "out_of_memory",
        "outofmemory",
        "out of device memory",
        "not enough memory",
        "can't allocate buffer of size",
        "is greater than the maximum buffer size",
    ];
    if signs.iter().any(|sign| folded.contains(sign)) {
        InferenceError::OutOfMemory(message.to_owned())
    } else {
        InferenceError::Failed(message.to_owned())
    }
}

/// Name of the device if it is no card but a program that imitates one.
fn software_renderer(device: &Device) -> Option<String> {
    backend::identity(device)
        .filter(|(_, is_card)| !is_card)
        .map(|(name, _)| name)
}

#[cfg(test)]
mod tests {
    use burn::tensor::Tensor;

    use super::*;

    fn cpu(threads: usize) -> ComputeDevice {
        ComputeDevice::open(&DeviceSpec::cpu(NonZeroUsize::new(threads).unwrap())).unwrap()
    }

    #[test]
    fn kinds_round_trip_through_their_names() {
        for kind in [DeviceKind::Cpu, DeviceKind::Wgpu, DeviceKind::Cuda] {
            assert_eq!(kind.to_string().parse::<DeviceKind>().unwrap(), kind);
        }
        let error = "CUDA".parse::<DeviceKind>().unwrap_err();
        assert_eq!(
            error.to_string(),
            "unknown device `CUDA`: expected cpu, wgpu or cuda"
        );
    }

    #[test]
    fn work_stays_on_the_threads_of_the_device() {
        let (threads, name) = cpu(3)
            .run(|| {
                Ok((
                    rayon::current_num_threads(),
                    std::thread::current().name().map(str::to_owned),
                ))
            })
            .unwrap();
        assert_eq!(threads, 3);
        assert!(name.is_some_and(|name| name.starts_with("inference-")));
    }

    #[test]
    fn a_backend_panic_is_an_error_and_the_device_stays_usable() {
        let device = cpu(1);
        let broken = device.run(|| {
            let (a, b) = (
                Tensor::<2>::zeros([2, 3], device.burn()),
                Tensor::<2>::zeros([2, 3], device.burn()),
            );
            read(a.matmul(b))
        });
        assert!(matches!(broken, Err(InferenceError::Failed(_))), "{broken:?}");
        let sum = device
            .run(|| read(Tensor::<1>::ones([2], device.burn()) + 1.0))
            .unwrap();
        assert_eq!(sum, [2.0, 2.0]);
    }

    #[test]
    fn lack_of_memory_is_told_apart() {
        for message in [
            "CUDA_ERROR_OUT_OF_MEMORY: out of memory",
            "wgpu error: Out of Memory",
            "out of device memory allocating 4294967296 bytes",
            "can't allocate buffer of size: 4294967296",
            "Buffer size 4294967296 is greater than the maximum buffer size (268435456)",
        ] {
            let error = backend_error(message);
            assert!(matches!(error, InferenceError::OutOfMemory(_)), "{message}");
        }
        assert!(matches!(backend_error("device lost"), InferenceError::Failed(_)));
    }

    #[test]
    fn there_is_one_processor() {
        let spec = DeviceSpec {
            index: 1,
            ..DeviceSpec::cpu(NonZeroUsize::MIN)
        };
        assert!(matches!(
            ComputeDevice::open(&spec),
            Err(DeviceError::NoSuchIndex {
                index: 1,
                count: 1,
                ..
            })
        ));
    }

    #[cfg(not(feature = "cuda"))]
    #[test]
    fn a_device_that_is_not_compiled_in_names_its_feature() {
        let spec = DeviceSpec {
            kind: DeviceKind::Cuda,
            ..DeviceSpec::cpu(NonZeroUsize::MIN)
        };
        let error = ComputeDevice::open(&spec).unwrap_err();
        assert_eq!(
            error.to_string(),
            "this build has no cuda support; build it with the cargo feature `cuda`"
        );
    }
}
