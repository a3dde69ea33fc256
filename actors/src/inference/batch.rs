//! A forward pass over the requests of several callers: which requests may share it, what happens where the device has too
//! little memory for it, and whether a failed pass is the fault of a request or of the device.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use parkhang_models::inference::InferenceError;

use crate::telemetry::BatchHalved;
use parkhang_core::policy::batch_size::{BatchSizes, NetworkOnDevice};

/// A network seen as a batch job: which requests may share a forward pass, and the pass itself.
pub trait BatchModel: Send + Sync + 'static {
    /// One request.
    type Input: Send + 'static;
    /// Answer to one request.
    type Output: Send + 'static;

    /// Cost of a request, in the unit of [`BatchModel::capacity`].
    fn weight(&self, input: &Self::Input) -> usize;

    /// Largest total weight of one forward pass. A heavier single request still goes, alone.
    fn capacity(&self) -> usize;

    /// Returns whether the two may share a forward pass, as images of one size may.
    fn compatible(&self, first: &Self::Input, other: &Self::Input) -> bool;

    /// Least weight that can go through the network at once, as part of these inputs: one tile, one line.
    fn smallest(&self, inputs: &[Self::Input]) -> usize;

    /// Answers the inputs, in order. No more than `limit` goes through the network at once, or the smallest part if that is
    /// more: an input heavier than that goes in parts.
    fn run(&self, inputs: &[Self::Input], limit: usize) -> Result<Vec<Self::Output>, InferenceError>;

    /// A small input that the network answers wherever its device works, to tell a bad input from a broken device.
    fn probe(&self) -> Self::Input;

    /// True if a working device can give this answer: it consists of finite numbers.
    fn is_sound(&self, output: &Self::Output) -> bool;
}

/// Batch sizes that the device of a network has memory for. Clones share what they learn.
#[derive(Debug, Clone)]
pub struct DeviceMemory {
    pub network: NetworkOnDevice,
    pub sizes: Arc<Mutex<BatchSizes>>,
}

impl DeviceMemory {
    /// The memory of one of several networks of a model, each of which learns its own sizes.
    pub(super) fn part(&self, network: &str) -> Self {
        let mut part = self.clone();
        part.network.model = format!("{}-{network}", part.network.model);
        part
    }

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

/// Runs the batch and returns an answer for each input. A failed pass is the fault of the device if the device fails on the probe
/// too, and then no input is blamed; otherwise it is the fault of those inputs that fail alone.
pub(super) fn run_batch<M: BatchModel>(
    network: &str,
    model: &M,
    memory: &DeviceMemory,
    inputs: &[M::Input],
) -> Vec<Result<M::Output, InferenceError>> {
    let failure = match run_halving(network, model, memory, inputs) {
        Ok(outputs) => return outputs.into_iter().map(Ok).collect(),
        // The network lacks what was asked for: that is the same for every input, and the device has not been at work.
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
    inputs
        .iter()
        .map(|input| {
            // Once the device has failed, no further input is tried: each could take its time to fail, or hang.
            if let Some(fault) = &fault {
                return Err(fault.clone());
            }
            run_halving(network, model, memory, std::slice::from_ref(input))
                .and_then(|mut outputs| outputs.pop().ok_or_else(|| failure.clone()))
                // An input may take the device down with it; then the next ones must not be blamed.
                .inspect_err(|_| fault = probe(model).err())
        })
        .collect()
}

/// Runs the batch, with half as much at once each time the device runs out of memory. The size that fits is remembered, so
/// later batches do not run out again.
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

/// Asks the network its probe, to find out whether the device computes at all.
fn probe<M: BatchModel>(model: &M) -> Result<(), InferenceError> {
    let input = model.probe();
    let outputs = model.run(std::slice::from_ref(&input), model.weight(&input));
    match outputs.map_err(as_fault_of_the_device)?.first() {
        Some(output) => sound(model, output),
        None => Err(InferenceError::Device("no answer to a known input".to_owned())),
    }
}

/// Refuses an answer that no working device gives: a broken one may well answer, with NaN.
pub(super) fn sound<M: BatchModel>(model: &M, output: &M::Output) -> Result<(), InferenceError> {
    if model.is_sound(output) {
        Ok(())
    } else {
        Err(InferenceError::Device("its answers are no numbers".to_owned()))
    }
}

/// The error with which an input that is known to be good failed, as a fault of the device.
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
