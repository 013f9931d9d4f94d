//! An Azure in one process, and a world that boots VMs.
