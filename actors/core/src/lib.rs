//! Passive data and pure decisions, which everything else stands on. [`domain`] says what there is, [`policy`] what is to be done.
//! Neither reads a clock nor does any I/O: time is an argument, and what a decision needs to know is handed to it. So a decision
//! can be tested over thousands of random histories, asked again by whoever explains it, and driven in virtual time.

pub mod domain;
pub mod failpoint;
pub mod policy;
