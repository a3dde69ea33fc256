//! Vector instructions, as this processor has them.

use pulp::{Arch, Simd, WithSimd};

/// Instruction set that vector code is compiled for. [`pulp::Arch`] alone knows no AVX2 as this program builds it.
#[derive(Debug, Clone, Copy)]
pub(crate) enum InstructionSet {
    #[cfg(target_arch = "x86_64")]
    Avx2(pulp::x86::V3),
    /// AVX-512, Neon, or none.
    Other(Arch),
}

impl InstructionSet {
    /// The best instruction set of this processor.
    pub(crate) fn detect() -> Self {
        match Arch::new() {
            #[cfg(target_arch = "x86_64")]
            Arch::Scalar => pulp::x86::V3::try_new().map_or(Self::Other(Arch::Scalar), Self::Avx2),
            best => Self::Other(best),
        }
    }

    /// Runs `work` compiled for this instruction set.
    #[inline(always)]
    pub(crate) fn run<W: WithSimd>(self, work: W) -> W::Output {
        match self {
            #[cfg(target_arch = "x86_64")]
            Self::Avx2(simd) => Simd::vectorize(simd, work),
            Self::Other(arch) => arch.dispatch(work),
        }
    }

    /// Runs `work`, plain loops in a closure that is inlined, compiled for this instruction set.
    #[inline(always)]
    pub(crate) fn run_loops<T>(self, work: impl FnMut() -> T) -> T {
        self.run(Loops(work))
    }
}

/// Loops in a closure. It has to be called as `FnMut`: to be called as `FnOnce`, a closure that could be called again goes through a function of its
/// own, which is compiled for the least processor.
struct Loops<F>(F);

impl<T, F: FnMut() -> T> WithSimd for Loops<F> {
    type Output = T;

    #[inline(always)]
    fn with_simd<S: Simd>(mut self, _: S) -> T {
        (self.0)()
    }
}
