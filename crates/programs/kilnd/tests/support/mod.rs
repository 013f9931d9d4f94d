//! Shared parts of kilnd's tests: cases, a scripted metadata service, NodeConfigs, the custom resources of the fleet, nodes in folders, and the program.

#![expect(dead_code, reason = "each test uses a part of this module")]

pub(crate) mod case;
pub(crate) mod documents;
pub(crate) mod fleet;
pub(crate) mod imds;
pub(crate) mod program;
pub(crate) mod world;
