//! See the module list of the parent.
