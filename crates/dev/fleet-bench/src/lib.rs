//! The operator with thousands of nodes on a real API server.
//!
//! [`kilnd`] answers for the kilnd of all nodes; tests of the operator use it, too. The program creates a fleet (`fleet`), runs the operator in
//! its own process (`operator`), lets one Rollout reach all nodes, and compares the cost for fleets of different size (`report`).

pub mod kilnd;
