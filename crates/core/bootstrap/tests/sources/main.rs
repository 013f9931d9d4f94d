//! End-to-end tests from sources to rendered output.

mod common;
mod documents;
mod drift;
mod generated;
mod node_drift;
mod recordings;
mod render;
mod secrets;
