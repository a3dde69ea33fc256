//! Precision of a processor.

/// Numbers that a processor computes the networks of this project and those for print with. Checkpoints of other programs are always
/// computed in full, and so is everything on a GPU.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Precision {
    /// Floats of 32 bits.
    Full,
    /// Int8-quantised weights and features where the processor has instructions for them (AVX-512 VNNI); `Full` elsewhere.
    Int8,
}
