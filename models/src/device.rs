//! Compute devices, chosen at run time.
