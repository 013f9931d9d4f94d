//! Layers from end to end.

mod common;
mod documents;
mod drift;
mod generated;
mod node_drift;
mod render;
mod secrets;
