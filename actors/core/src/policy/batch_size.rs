//! Sizes of batches on devices that have run out of memory.

use std::collections::HashMap;

/// Network on the device where it runs.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct NetworkOnDevice {
    /// Identifier of the model, such as the digest of its description.
    pub model: String,
    /// Name of the device, as in `--device`.
    pub device: String,
}

/// Sizes of batches that devices have memory for, as far as they have shown it, in the unit of the network: tiles, or pixels of
/// lines.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct BatchSizes {
    fitting: HashMap<NetworkOnDevice, usize>,
}

impl BatchSizes {
    /// Largest batch to try where `capacity` is the largest that is wanted.
    pub fn allowed(&self, network: &NetworkOnDevice, capacity: usize) -> usize {
        self.fitting
            .get(network)
            .map_or(capacity, |&fitting| fitting.min(capacity))
    }

    /// Takes note that there was no memory for a batch of `tried`, and returns the size to try next: half of it, but no less than
    /// `smallest`, the least that the network can be given. `None` if that was tried already: it does not fit, which says nothing of
    /// other batches.
    pub fn out_of_memory(
        &mut self,
        network: &NetworkOnDevice,
        tried: usize,
        smallest: usize,
    ) -> Option<usize> {
        let smallest = smallest.max(1);
        if tried <= smallest {
            return None;
        }
        // Another batch may have shown meanwhile that less fits; a size that is known only becomes smaller.
        let next = self.allowed(network, (tried / 2).max(smallest));
        self.fitting.insert(network.clone(), next);
        Some(next)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn on(device: &str) -> NetworkOnDevice {
        NetworkOnDevice {
            model: "sha256:1".to_owned(),
            device: device.to_owned(),
        }
    }

    #[test]
    fn a_size_is_remembered_for_its_network_and_device() {
        let mut sizes = BatchSizes::default();
        assert_eq!(sizes.allowed(&on("cuda:0"), 16), 16);
        assert_eq!(sizes.out_of_memory(&on("cuda:0"), 16, 1), Some(8));
        assert_eq!(sizes.allowed(&on("cuda:0"), 16), 8);
        assert_eq!(sizes.allowed(&on("cuda:0"), 3), 3);
        assert_eq!(sizes.allowed(&on("cuda:1"), 16), 16);
    }

    #[test]
    fn what_cannot_be_divided_is_given_up_and_limits_nothing() {
        let mut sizes = BatchSizes::default();
        assert_eq!(sizes.out_of_memory(&on("cuda"), 700, 700), None);
        assert_eq!(sizes.allowed(&on("cuda"), 9000), 9000);
        assert_eq!(sizes.out_of_memory(&on("cuda"), 1000, 700), Some(700));
    }

    proptest! {
        #[test]
        fn halving_ends_at_what_fits(memory in 1_usize..5000, capacity in 1_usize..10_000, smallest in 1_usize..100) {
            let mut sizes = BatchSizes::default();
            let mut size = capacity.max(smallest);
            let fitted = loop {
                if size <= memory {
                    break Some(size);
                }
                match sizes.out_of_memory(&on("cuda"), size, smallest) {
                    Some(next) => {
                        prop_assert!(next < size);
                        size = next;
                    }
                    None => break None,
                }
            };
            match fitted {
                Some(fitted) => {
                    // No more than half of the memory is left unused.
                    prop_assert!(fitted == capacity.max(smallest) || 2 * fitted + 1 > memory);
                    prop_assert!(sizes.allowed(&on("cuda"), capacity) <= fitted);
                }
                None => prop_assert!(memory < smallest),
            }
        }
    }
}
