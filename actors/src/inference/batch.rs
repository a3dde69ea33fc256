//! A forward pass over what several callers asked: how requests are joined, what is done where the device has no memory for
//! them, and whether a pass that failed says something of a request or of the device.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use parkhang_models::inference::InferenceError;

use crate::telemetry::BatchHalved;
use parkhang_core::policy::batch_size::{BatchSizes, NetworkOnDevice};

/// A network seen as a batch job: which requests may share a forward pass, and the pass itself.
pub trait BatchModel: Send + Sync + 'static {
    type Input: Send + 'static;
    type Output: Send + 'static;

    /// Cost of a request, in the unit of [`BatchModel::capacity`].
    fn weight(&self, input: &Self::Input) -> usize;

    /// Largest total weight of one forward pass. A heavier single request still goes, alone.
    fn capacity(&self) -> usize;

    fn compatible(&self, first: &Self::Input, other: &Self::Input) -> bool;

    /// The least weight that can go through the network at once, as part of these inputs.
    fn smallest(&self, inputs: &[Self::Input]) -> usize;

    /// One answer per input, in order. No more than `limit` goes through the network at once, or the smallest part if that
    /// is more: an input heavier than that goes in parts.
    fn run(&self, inputs: &[Self::Input], limit: usize) -> Result<Vec<Self::Output>, InferenceError>;

    /// A small input that the network answers wherever its device works.
    fn probe(&self) -> Self::Input;

    /// Whether an answer is one that a device in order can give: finite numbers.
    fn is_sound(&self, output: &Self::Output) -> bool;
}

/// The device that a network is on, and what is known of its memory. Clones share what they learn.
#[derive(Debug, Clone)]
pub struct DeviceMemory {
    pub network: NetworkOnDevice,
    pub sizes: Arc<Mutex<BatchSizes>>,
}

impl DeviceMemory {
    pub(super) fn allowed(&self, capacity: usize) -> usize {
        self.sizes().allowed(&self.network, capacity)
    }

    fn out_of_memory(&self, tried: usize, smallest: usize) -> Option<usize> {
        self.sizes().out_of_memory(&self.network, tried, smallest)
    }

    fn sizes(&self) -> MutexGuard<'_, BatchSizes> {
        self.sizes.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Runs the batch. A failure is the device's where it fails on the probe as well, and then says nothing of the inputs; else that of
/// those inputs which fail alone.
pub(super) fn run_batch<M: BatchModel>(
    network: &str,
    model: &M,
    memory: &DeviceMemory,
    inputs: &[M::Input],
) -> Vec<Result<M::Output, InferenceError>> {
    let failure = match run_halving(network, model, memory, inputs) {
        Ok(outputs) => return outputs.into_iter().map(Ok).collect(),
        Err(failure @ InferenceError::NoLayout) => {
            return inputs.iter().map(|_| Err(failure.clone())).collect();
        }
        Err(failure) => failure,
    };
    let mut fault = probe(model).err();
    if inputs.len() == 1 || fault.is_some() {
        let blame = fault.unwrap_or(failure);
        return inputs.iter().map(|_| Err(blame.clone())).collect();
    }
    let mut alone = |input: &M::Input| {
        if let Some(fault) = &fault {
            return Err(fault.clone());
        }
        let output = run_halving(network, model, memory, std::slice::from_ref(input));
        let output = output.and_then(|mut outputs| outputs.pop().ok_or_else(|| failure.clone()));
        output.inspect_err(|_| fault = probe(model).err())
    };
    inputs.iter().map(&mut alone).collect()
}

/// Runs the batch; where the device runs out of memory, with half as much of it at once, and so with all batches from then
/// on.
fn run_halving<M: BatchModel>(
    network: &str,
    model: &M,
    memory: &DeviceMemory,
    inputs: &[M::Input],
) -> Result<Vec<M::Output>, InferenceError> {
    let weight: usize = inputs.iter().map(|input| model.weight(input)).sum();
    let mut limit = memory.allowed(weight);
    loop {
        match model.run(inputs, limit) {
            Ok(outputs) if outputs.len() == inputs.len() => return Ok(outputs),
            Ok(outputs) => {
                let message = format!("network answered {} of {} requests", outputs.len(), inputs.len());
                return Err(InferenceError::Failed(message));
            }
            Err(InferenceError::OutOfMemory(message)) => {
                match memory.out_of_memory(limit, model.smallest(inputs)) {
                    Some(next) => limit = next,
                    None => return Err(InferenceError::OutOfMemory(message)),
                }
                BatchHalved { network, limit }.emit();
            }
            Err(error) => return Err(error),
        }
    }
}

/// Whether the device computes at all.
fn probe<M: BatchModel>(model: &M) -> Result<(), InferenceError> {
    let input = model.probe();
    let outputs = model.run(std::slice::from_ref(&input), model.weight(&input));
    match outputs.map_err(as_fault_of_the_device)?.first() {
        Some(output) => sound(model, output),
        None => Err(InferenceError::Device("no answer to a known input".to_owned())),
    }
}

pub(super) fn sound<M: BatchModel>(model: &M, output: &M::Output) -> Result<(), InferenceError> {
    match model.is_sound(output) {
        true => Ok(()),
        false => Err(InferenceError::Device("its answers are no numbers".to_owned())),
    }
}

/// What an input that is known to be good failed with.
pub(super) fn as_fault_of_the_device(error: InferenceError) -> InferenceError {
    match error {
        fault @ InferenceError::Device(_) => fault,
        InferenceError::OutOfMemory(message) | InferenceError::Failed(message) => {
            InferenceError::Device(message)
        }
        other => InferenceError::Device(other.to_string()),
    }
}

#[cfg(test)]
mod tests;
