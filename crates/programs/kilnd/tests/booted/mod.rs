//! A systemd-nspawn machine with the kilnd under test, its units, and a fake kubelet and containerd.

#![expect(dead_code, reason = "each test uses a part of this module")]

pub(crate) mod cloud;
pub(crate) mod cluster;
pub(crate) mod document;
pub(crate) mod stage;
pub(crate) mod steps;
pub(crate) mod trace;

/// VM ids of three machines.
pub(crate) const ONE: &str = "16a52d90-3c5f-4a3e-8b57-7f2b4c6d8e90";
pub(crate) const OTHER: &str = "7d1c0b5e-93a4-4c11-a0f6-2f4f5b1d3c77";
pub(crate) const THIRD: &str = "c2b8f0aa-5b0e-4f6d-9d0b-6a1f1e0c9b12";
