//! A network for tests, and a device with memory enough.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use parkhang_models::inference::InferenceError;

use super::batch::{BatchModel, DeviceMemory};
use parkhang_core::policy::batch_size::NetworkOnDevice;

/// Doubles numbers; a pass of more than `memory` of them does not fit the device.
pub(super) struct Doubling {
    pub(super) memory: usize,
}

impl BatchModel for Doubling {
    type Input = u32;
    type Output = u32;

    fn weight(&self, _: &u32) -> usize {
        1
    }

    fn capacity(&self) -> usize {
        8
    }

    fn compatible(&self, first: &u32, other: &u32) -> bool {
        first % 2 == other % 2
    }

    fn smallest(&self, _: &[u32]) -> usize {
        1
    }

    fn run(&self, inputs: &[u32], limit: usize) -> Result<Vec<u32>, InferenceError> {
        assert!(
            inputs.iter().all(|n| n % 2 == inputs[0] % 2),
            "incompatible requests in one pass"
        );
        if inputs.len().min(limit) > self.memory {
            return Err(InferenceError::OutOfMemory("full".into()));
        }
        Ok(inputs.iter().map(|n| n * 2).collect())
    }

    fn probe(&self) -> u32 {
        0
    }

    fn is_sound(&self, _: &u32) -> bool {
        true
    }
}

pub(super) fn memory() -> DeviceMemory {
    DeviceMemory {
        network: NetworkOnDevice {
            model: "doubling".to_owned(),
            device: "cpu".to_owned(),
        },
        sizes: Arc::default(),
    }
}

/// Fails on what it is told to, and on everything once it is lost.
#[derive(Default)]
pub(super) struct Picky {
    pub(super) too_large: Option<u32>,
    pub(super) rejected: Option<u32>,
    pub(super) lost: AtomicBool,
    pub(super) lost_at: Option<u32>,
    pub(super) passes: AtomicUsize,
}

impl BatchModel for Picky {
    type Input = u32;
    type Output = f32;

    fn weight(&self, _: &u32) -> usize {
        1
    }

    fn capacity(&self) -> usize {
        8
    }

    fn compatible(&self, _: &u32, _: &u32) -> bool {
        true
    }

    fn smallest(&self, _: &[u32]) -> usize {
        1
    }

    fn run(&self, inputs: &[u32], _: usize) -> Result<Vec<f32>, InferenceError> {
        self.passes.fetch_add(1, Ordering::Relaxed);
        let has = |number: Option<u32>| number.is_some_and(|number| inputs.contains(&number));
        if has(self.lost_at) {
            self.lost.store(true, Ordering::Relaxed);
        }
        if self.lost.load(Ordering::Relaxed) {
            return Err(InferenceError::Failed("device lost".to_owned()));
        }
        if has(self.too_large) {
            return Err(InferenceError::OutOfMemory("full".to_owned()));
        }
        if has(self.rejected) {
            return Err(InferenceError::Failed("odd shape".to_owned()));
        }
        Ok(inputs.iter().map(|n| *n as f32).collect())
    }

    fn probe(&self) -> u32 {
        0
    }

    fn is_sound(&self, output: &f32) -> bool {
        output.is_finite()
    }
}
