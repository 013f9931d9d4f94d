//! The embedded Azure against recorded answers of the real one.

#[path = "../common/mod.rs"]
mod common;
mod recordings;
