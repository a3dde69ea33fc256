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

/// A buffer that goes back to the thread once nobody needs it. It may be longer than what is seen of it: cutting it off
/// would mean clearing it when it grows again.
#[derive(Debug)]
pub(crate) struct Buffer {
    values: Vec<f32>,
    length: usize,
}

impl Buffer {
    /// A buffer of `length` values, which are left over from its last use, or zero.
    pub(super) fn of(length: usize) -> Self {
        let smallest = |spare: &[Vec<f32>]| {
            let fit = spare
                .iter()
                .enumerate()
                .filter(|(_, values)| values.len() >= length);
            fit.min_by_key(|(_, values)| values.len()).map(|(place, _)| place)
        };
        let found = SPARE.try_with(|spare| {
            let mut spare = spare.borrow_mut();
            smallest(&spare).map(|place| spare.swap_remove(place))
        });
        let values = found.ok().flatten().unwrap_or_else(|| vec![0.0; length]);
        Self { values, length }
    }

    pub(crate) fn into_vec(mut self) -> Vec<f32> {
        self.values.truncate(self.length);
        std::mem::take(&mut self.values)
    }
}

impl From<Vec<f32>> for Buffer {
    fn from(values: Vec<f32>) -> Self {
        let length = values.len();
        Self { values, length }
    }
}

impl Clone for Buffer {
    fn clone(&self) -> Self {
        let mut copy = Self::of(self.length);
        copy.copy_from_slice(self);
        copy
    }
}

impl Deref for Buffer {
    type Target = [f32];

    #[inline(always)]
    fn deref(&self) -> &[f32] {
        &self.values[..self.length]
    }
}

impl DerefMut for Buffer {
    #[inline(always)]
    fn deref_mut(&mut self) -> &mut [f32] {
        &mut self.values[..self.length]
    }
}

impl Drop for Buffer {
    /// Keeps the values, and lets go of smaller ones where there is no room for all.
    fn drop(&mut self) {
        let values = std::mem::take(&mut self.values);
        if values.is_empty() || values.capacity() > VALUES {
            return;
        }
        // A thread that ends keeps nothing.
        let _ = SPARE.try_with(|spare| {
            let mut spare = spare.borrow_mut();
            spare.push(values);
            while spare.len() > BUFFERS || spare.iter().map(Vec::capacity).sum::<usize>() > VALUES {
                let sizes = spare.iter().map(Vec::len).enumerate();
                let Some((smallest, _)) = sizes.min_by_key(|&(_, size)| size) else {
                    return;
                };
                spare.swap_remove(smallest);
            }
        });
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
            drop(Buffer::from(vec![1.0; 100]));
            let first = Buffer::of(60);
            assert_eq!(*first, [1.0; 60]);
            assert_eq!(*Buffer::of(60), [0.0; 60]);
            drop(first);
            assert_eq!(*Buffer::of(100), [1.0; 100]);
        });
    }

    #[test]
    fn a_buffer_that_is_too_small_is_not_used() {
        on_a_thread_of_its_own(|| {
            drop(Buffer::from(vec![1.0; 10]));
            assert_eq!(*Buffer::of(20), [0.0; 20]);
        });
    }

    #[test]
    fn what_is_taken_out_is_as_long_as_it_was_asked_for() {
        on_a_thread_of_its_own(|| {
            drop(Buffer::from(vec![1.0; 10]));
            let buffer = Buffer::of(4);
            assert_eq!(*buffer.clone(), [1.0; 4]);
            assert_eq!(buffer.into_vec(), [1.0; 4]);
        });
    }

    #[test]
    fn large_buffers_take_the_place_of_small_ones() {
        on_a_thread_of_its_own(|| {
            let small: Vec<Buffer> = (0..BUFFERS).map(|_| vec![0.0; 10].into()).collect();
            drop(small);
            drop(Buffer::from(vec![1.0; 100]));
            assert_eq!(*Buffer::of(100), [1.0; 100]);
        });
    }

    #[test]
    fn a_thread_keeps_no_more_than_it_may() {
        on_a_thread_of_its_own(|| {
            let buffers: Vec<Buffer> = (0..2 * BUFFERS).map(|_| vec![0.0; VALUES / 4].into()).collect();
            drop(buffers);
            let kept: usize = SPARE.with(|spare| spare.borrow().iter().map(Vec::capacity).sum());
            assert_eq!(kept, VALUES);
        });
    }
}
