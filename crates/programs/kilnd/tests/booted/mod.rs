//! A machine with kilnd on it: the program that was built, its units, and stand-ins for what it configures.

#![expect(dead_code, reason = "each test takes what it needs")]

pub(crate) mod cloud;
pub(crate) mod cluster;
pub(crate) mod document;
pub(crate) mod stage;
pub(crate) mod steps;

/// The id of a machine.
pub(crate) const ONE: &str = "16a52d90-3c5f-4a3e-8b57-7f2b4c6d8e90";
/// That of another.
pub(crate) const OTHER: &str = "7d1c0b5e-93a4-4c11-a0f6-2f4f5b1d3c77";
/// And of a third.
pub(crate) const THIRD: &str = "c2b8f0aa-5b0e-4f6d-9d0b-6a1f1e0c9b12";
