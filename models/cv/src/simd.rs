//! Vector instructions of the processor.

/// Runs `work` compiled for AVX2 where the processor has it. Only what is inlined into the closure benefits, and
/// the closure itself has to be marked `#[inline(always)]`.
#[inline(always)]
pub fn vectorised<R>(work: impl FnOnce() -> R) -> R {
    #[cfg(target_arch = "x86_64")]
    if let Some(simd) = pulp::x86::V3::try_new() {
        return simd.vectorize(work);
    }
    work()
}
