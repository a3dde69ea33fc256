//! Buffers of maps that are no longer there, for maps to come. A network asks for the same sizes again and again; without
//! them the system would hand out and clear the same pages for every layer.

use std::cell::RefCell;
use std::ops::{Deref, DerefMut};

/// Buffers that a thread keeps.
const BUFFERS: usize = 12;
/// Values that a thread keeps.
const VALUES: usize = 1 << 22;

thread_local! {
    static SPARE: RefCell<Vec<Vec<f32>>> = const { RefCell::new(Vec::new()) };
}

/// A buffer of `length` values, which are left over from its last use, or zero.
pub(super) fn take(length: usize) -> Vec<f32> {
    let smallest = |spare: &[Vec<f32>]| {
        let fit = spare
            .iter()
            .enumerate()
            .filter(|(_, buffer)| buffer.capacity() >= length);
        fit.min_by_key(|(_, buffer)| buffer.capacity())
            .map(|(place, _)| place)
    };
    let found = SPARE.try_with(|spare| {
        let mut spare = spare.borrow_mut();
        smallest(&spare).map(|place| spare.swap_remove(place))
    });
    let Some(mut buffer) = found.ok().flatten() else {
        return vec![0.0; length];
    };
    buffer.resize(length, 0.0);
    buffer
}

/// Keeps a buffer, if there is room.
pub(super) fn give(buffer: Vec<f32>) {
    // A thread that ends keeps nothing.
    let _ = SPARE.try_with(|spare| {
        let mut spare = spare.borrow_mut();
        let kept: usize = spare.iter().map(Vec::capacity).sum();
        if buffer.capacity() > 0 && spare.len() < BUFFERS && kept + buffer.capacity() <= VALUES {
            spare.push(buffer);
        }
    });
}

/// A buffer for the time of one computation. Its values are for the user to set.
#[derive(Debug)]
pub(super) struct Buffer(Vec<f32>);

impl Buffer {
    pub(super) fn of(length: usize) -> Self {
        Self(take(length))
    }
}

impl Deref for Buffer {
    type Target = [f32];

    fn deref(&self) -> &[f32] {
        &self.0
    }
}

impl DerefMut for Buffer {
    fn deref_mut(&mut self) -> &mut [f32] {
        &mut self.0
    }
}

impl Drop for Buffer {
    fn drop(&mut self) {
        give(std::mem::take(&mut self.0));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Other tests may have left buffers on the thread.
    fn on_a_thread_of_its_own(test: fn()) {
        std::thread::spawn(test).join().unwrap();
    }

    #[test]
    fn a_buffer_is_used_again() {
        on_a_thread_of_its_own(|| {
            give(vec![1.0; 100]);
            assert_eq!(take(60), [1.0; 60]);
            assert_eq!(take(60), [0.0; 60]);
        });
    }

    #[test]
    fn a_buffer_that_is_too_small_is_not_used() {
        on_a_thread_of_its_own(|| {
            give(vec![1.0; 10]);
            assert_eq!(take(20), [0.0; 20]);
        });
    }

    #[test]
    fn a_thread_keeps_no_more_than_it_may() {
        on_a_thread_of_its_own(|| {
            for _ in 0..2 * BUFFERS {
                give(vec![0.0; VALUES / 4]);
            }
            let kept: usize = SPARE.with(|spare| spare.borrow().iter().map(Vec::capacity).sum());
            assert_eq!(kept, VALUES);
        });
    }
}
