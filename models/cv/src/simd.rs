//! Vector instructions of the processor.

#[cfg(target_arch = "x86_64")]
use pulp::{Simd, WithSimd};

/// Runs `work` compiled for AVX2 where the processor has it. Only what is inlined into the closure benefits, and
/// the closure itself has to be marked `#[inline(always)]`.
#[inline(always)]
pub fn vectorised<R>(mut work: impl FnMut() -> R) -> R {
    #[cfg(target_arch = "x86_64")]
    if let Some(simd) = pulp::x86::V3::try_new() {
        return Simd::vectorize(simd, Work(work));
    }
    work()
}

/// Work in a closure, which has to be called as `FnMut`: to be called as `FnOnce`, a closure that could be called again may go through a function of its
/// own, which is compiled for the least processor.
#[cfg(target_arch = "x86_64")]
struct Work<F>(F);

#[cfg(target_arch = "x86_64")]
impl<R, F: FnMut() -> R> WithSimd for Work<F> {
    type Output = R;

    #[inline(always)]
    fn with_simd<S: Simd>(mut self, _: S) -> R {
        (self.0)()
    }
}
