//! Pool of buffers, one for each thread: the memory of maps that are no longer there serves the maps to come. A network asks
//! for the same sizes again and again; without the pool the system would hand out and clear the same pages for every layer.

use std::cell::RefCell;
use std::ops::{Deref, DerefMut};

/// Largest number of buffers that a thread keeps.
const MAX_BUFFERS: usize = 12;
/// Largest number of values that a thread keeps in all its buffers: 64 MiB, for a text detector's maps of a page.
const MAX_VALUES: usize = 1 << 24;

/// Number of values of a line of the cache and of a vector of AVX-512: buffers begin with a line.
pub(super) const LINE: usize = 16;

thread_local! {
    static POOL: RefCell<Vec<Vec<f32>>> = const { RefCell::new(Vec::new()) };
}

/// A buffer that goes back to the pool of the thread that drops it. The memory may be longer than the slice that is seen of it:
/// cutting it off would mean clearing it when it grows again.
#[derive(Debug)]
pub(crate) struct PooledBuffer {
    values: Vec<f32>,
    /// First value that is seen, the first of a line of the cache; of a vector from elsewhere its first.
    start: usize,
    length: usize,
}

impl PooledBuffer {
    /// A buffer of `length` values, which are left over from its last use, or zero.
    pub(crate) fn take(length: usize) -> Self {
        let found = POOL.try_with(|pool| {
            let mut pool = pool.borrow_mut();
            let large_enough = pool
                .iter()
                .enumerate()
                .filter(|(_, values)| values.len() >= length + LINE - 1);
            // The smallest of them leaves the larger ones to larger maps.
            let (index, _) = large_enough.min_by_key(|(_, values)| values.len())?;
            Some(pool.swap_remove(index))
        });
        let values = found
            .ok()
            .flatten()
            .unwrap_or_else(|| vec![0.0; length + LINE - 1]);
        let start = values
            .as_ptr()
            .align_offset(size_of::<[f32; LINE]>())
            .min(LINE - 1);
        Self {
            values,
            start,
            length,
        }
    }
}

impl From<Vec<f32>> for PooledBuffer {
    fn from(values: Vec<f32>) -> Self {
        let length = values.len();
        Self {
            values,
            start: 0,
            length,
        }
    }
}

impl Clone for PooledBuffer {
    fn clone(&self) -> Self {
        let mut copy = Self::take(self.length);
        copy.copy_from_slice(self);
        copy
    }
}

impl Deref for PooledBuffer {
    type Target = [f32];

    #[inline(always)]
    fn deref(&self) -> &[f32] {
        &self.values[self.start..self.start + self.length]
    }
}

impl DerefMut for PooledBuffer {
    #[inline(always)]
    fn deref_mut(&mut self) -> &mut [f32] {
        &mut self.values[self.start..self.start + self.length]
    }
}

impl Drop for PooledBuffer {
    /// Keeps the values, and frees smaller buffers where there is no room for all.
    fn drop(&mut self) {
        let values = std::mem::take(&mut self.values);
        if values.is_empty() || values.capacity() > MAX_VALUES {
            return;
        }
        // A thread that ends keeps nothing.
        let _ = POOL.try_with(|pool| {
            let mut pool = pool.borrow_mut();
            pool.push(values);
            while pool.len() > MAX_BUFFERS || pool.iter().map(Vec::capacity).sum::<usize>() > MAX_VALUES {
                let sizes = pool.iter().map(Vec::len).enumerate();
                let Some((smallest, _)) = sizes.min_by_key(|&(_, size)| size) else {
                    return;
                };
                pool.swap_remove(smallest);
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
            drop(PooledBuffer::from(vec![1.0; 100]));
            let first = PooledBuffer::take(60);
            assert_eq!(*first, [1.0; 60]);
            assert_eq!(*PooledBuffer::take(60), [0.0; 60]);
            drop(first);
            assert_eq!(*PooledBuffer::take(80), [1.0; 80]);
        });
    }

    #[test]
    fn a_buffer_that_is_too_small_is_not_used() {
        on_a_thread_of_its_own(|| {
            drop(PooledBuffer::from(vec![1.0; 10]));
            assert_eq!(*PooledBuffer::take(20), [0.0; 20]);
        });
    }

    #[test]
    fn a_buffer_is_as_long_as_it_was_asked_for() {
        on_a_thread_of_its_own(|| {
            drop(PooledBuffer::from(vec![1.0; 4 + LINE]));
            let buffer = PooledBuffer::take(4);
            assert_eq!((&*buffer, &*buffer.clone()), (&[1.0; 4][..], &[1.0; 4][..]));
        });
    }

    #[test]
    fn large_buffers_take_the_place_of_small_ones() {
        on_a_thread_of_its_own(|| {
            let small: Vec<PooledBuffer> = (0..MAX_BUFFERS).map(|_| vec![0.0; 10].into()).collect();
            drop(small);
            drop(PooledBuffer::from(vec![1.0; 100]));
            assert_eq!(*PooledBuffer::take(80), [1.0; 80]);
        });
    }

    #[test]
    fn buffers_begin_with_a_line() {
        for length in [1, 100, 1 << 16] {
            let buffer = PooledBuffer::take(length);
            assert_eq!(buffer.as_ptr().align_offset(size_of::<[f32; LINE]>()), 0);
        }
    }

    #[test]
    fn a_thread_keeps_no_more_than_it_may() {
        on_a_thread_of_its_own(|| {
            let buffers: Vec<PooledBuffer> = (0..2 * MAX_BUFFERS)
                .map(|_| vec![0.0; MAX_VALUES / 4].into())
                .collect();
            drop(buffers);
            let kept: usize = POOL.with(|pool| pool.borrow().iter().map(Vec::capacity).sum());
            assert_eq!(kept, MAX_VALUES);
        });
    }
}
