//! Layers from end to end.

mod common;
mod documents;
mod drift;
mod generated;
mod node_drift;
mod recordings;
mod render;
mod secrets;
