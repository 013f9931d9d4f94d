//! Tests of `kiln bootstrap` as a process.

mod drift;
mod errors;
mod explain;
mod fixture;
mod pages;
mod recorded;
mod render;
mod secrets;
