//! Arenas of the C library's allocator. A crate of its own, as the one call into that library is the program's only `unsafe`.
//!
//! glibc gives threads heaps of their own, up to eight for each core, and what is freed in one is not given to another. Here many threads
//! work on a page for a moment each, so every heap grows to the size of a page's work: a PDF of 1,000 pages took 1.1 GiB, and .7 GiB with
//! an arena for each core, for the same CPU time. Allocators that replace glibc's were measured, too: they took more memory, or more time.

/// Bounds the arenas of this process to one for each core, and two at least. The environment variables `MALLOC_ARENA_MAX` and
/// `GLIBC_TUNABLES` have precedence. To be called before threads are started; without effect where the C library is another one.
pub fn bound() {
    #[cfg(all(target_os = "linux", target_env = "gnu"))]
    if !["MALLOC_ARENA_MAX", "GLIBC_TUNABLES"]
        .iter()
        .any(|name| std::env::var_os(name).is_some())
    {
        let cores = std::thread::available_parallelism().map_or(2, |cores| cores.get().max(2));
        let arenas = libc::c_int::try_from(cores).unwrap_or(libc::c_int::MAX);
        #[expect(unsafe_code, reason = "no safe function of any library sets it")]
        // SAFETY: mallopt takes two numbers, and may be called at any time; it takes the lock that it needs.
        let _ = unsafe { libc::mallopt(libc::M_ARENA_MAX, arenas) };
    }
}

#[cfg(all(test, target_os = "linux", target_env = "gnu"))]
mod tests {
    use std::collections::BTreeSet;
    use std::sync::Barrier;
    use std::thread;

    /// Alignment of an arena's heap in glibc, as a power of two: 64 MiB.
    const HEAP: u32 = 26;
    const THREADS: usize = 64;

    #[test]
    fn many_threads_share_few_arenas() {
        super::bound();
        let cores = thread::available_parallelism().map_or(2, |cores| cores.get().max(2));
        let barrier = Barrier::new(THREADS);
        let heap = || {
            // Too large for what a thread keeps of the blocks that it frees, as it frees some of the thread that started it.
            let own = vec![0_u8; 4096];
            // All of them live until the last one has its memory.
            barrier.wait();
            own.as_ptr().addr() >> HEAP
        };
        let heaps: BTreeSet<usize> = thread::scope(|scope| {
            let threads: Vec<_> = (0..THREADS).map(|_| scope.spawn(heap)).collect();
            threads.into_iter().map(|thread| thread.join().unwrap()).collect()
        });
        // What the test harness started before may have one, too.
        assert!(
            heaps.len() <= cores + 1,
            "{} arenas on {cores} cores",
            heaps.len()
        );
    }
}
